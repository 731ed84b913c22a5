"""What ``glow-nb info`` says of a model that leaves sizes open: nothing that depends on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from glow_nb.base.quantities import byte_count, scaled
from glow_nb.base.text import format_name
from glow_nb.base.types import SymbolicType
from glow_nb.commands.wording import make_console, make_table, print_table

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import SymbolicModel

HOW_TO_CLOSE = (
    "sizes are open: arithmetic, memory and kernels depend on them; --shape NAME=SIZE gives one"
)


@dataclass(frozen=True)
class OpenOperatorRow:
    """One operator of ONNX, and how many nodes it has."""

    operator: str
    imported: int


@dataclass(frozen=True)
class OpenReport:
    """What ``info`` says about a model with open sizes.

    Attributes:
        model: The path of the file.
        name: The name of the graph.
        inputs: The type of each input that must be fed.
        defaults: The type of each input that need not be fed.
        outputs: The type of each output.
        sizes: For each open size, by name, which it may be and where it is.
        parameters: The number of weights.
        parameter_bytes: Their bytes.
        operators: The operators of ONNX, the most frequent first.
    """

    model: str
    name: str
    inputs: dict[str, str]
    defaults: dict[str, str]
    outputs: dict[str, str]
    sizes: dict[str, str]
    parameters: int
    parameter_bytes: int
    operators: list[OpenOperatorRow]


def make_open_report(path: str, model: SymbolicModel) -> OpenReport:
    """Return the report on *model*, which is in the file *path*."""
    summary = model.summary()
    return OpenReport(
        model=path,
        name=summary.name,
        inputs=_shown(model.inputs),
        defaults=_shown(model.defaults),
        outputs=_shown(model.outputs),
        sizes=_sizes(model.inputs),
        parameters=summary.parameters,
        parameter_bytes=summary.parameter_bytes,
        operators=[OpenOperatorRow(*row) for row in sorted(summary.operators.items(), key=_rank)],
    )


def _shown(types: Mapping[str, SymbolicType]) -> dict[str, str]:
    return {name: str(type) for name, type in types.items()}


def _rank(row: tuple[str, int]) -> tuple[int, str]:
    return -row[1], row[0]


def _sizes(inputs: Mapping[str, SymbolicType]) -> dict[str, str]:
    """Return for each open size where it is; inputs of unknown rank leave all of theirs open."""
    places: dict[str, list[str]] = {}
    for name, type in inputs.items():
        if type.shape is None:
            places[name] = ["any number of dimensions"]
        for axis, size in enumerate(type.shape or ()):
            if isinstance(size, str):
                places.setdefault(size, []).append(f"dimension {axis} of {format_name(name)}")
    return {name: f"0 or more, {' and '.join(where)}" for name, where in places.items()}


def print_open(report: OpenReport) -> None:
    """Print *report* as tables."""
    console = make_console()
    facts = [
        ("model", report.model),
        *((f"input {format_name(name)}", type) for name, type in report.inputs.items()),
        *((f"default {format_name(name)}", type) for name, type in report.defaults.items()),
        *((f"output {format_name(name)}", type) for name, type in report.outputs.items()),
        *((f"size {format_name(name)}", where) for name, where in report.sizes.items()),
        ("parameters", f"{scaled(report.parameters)} ({byte_count(report.parameter_bytes)})"),
    ]
    table = make_table(console, "", ["", ""])
    table.show_header, table.title = False, None
    for name, value in facts:
        table.add_row(name, value)
    print_table(console, table)
    click.echo()
    table = make_table(console, "operators", ["operator of ONNX", "#nodes"])
    for row in report.operators:
        table.add_row(format_name(row.operator), str(row.imported))
    print_table(console, table)
    click.echo()
    click.echo(HOW_TO_CLOSE)
