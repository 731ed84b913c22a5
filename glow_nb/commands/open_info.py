"""``glow-nb info`` for a model that leaves sizes open: only facts that do not depend on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.fitting_sizes import described_fits
from glow_nb.base.quantities import byte_count, scaled
from glow_nb.base.size_ranges import SizeRanges, described_ranges
from glow_nb.base.summary import Summary
from glow_nb.base.text import format_name
from glow_nb.base.types import SymbolicType
from glow_nb.commands.wording import make_table, print_table
from glow_nb.network.sized_model import SizedModel

if TYPE_CHECKING:
    from rich.console import Console

HOW_TO_CLOSE = (
    "sizes are open: arithmetic, memory and kernels depend on them; --shape NAME=SIZE fixes one, "
    "--compile shows those of a program for all sizes"
)


Facts = Iterable[tuple[str, str]]
"""Facts about a model: a label, and the value."""


@dataclass(frozen=True)
class OpenOperatorRow:
    """One operator, and how many nodes it has."""

    operator: str
    imported: int


@dataclass(frozen=True)
class OpenReport:
    """The output of ``info`` about a model with open sizes.

    Attributes:
        model: The path of the file.
        name: The name of the graph.
        inputs: The type of each input that must be fed.
        defaults: The type of each input that need not be fed.
        outputs: The type of each output.
        sizes: For each open size, by name, where it is.
        program: For which sizes one program can be; empty if there is none.
        specialized: For each size that is a number in it, by name, the number and why.
        guards: The comparisons of sizes for which it is right.
        fitting: The first sizes for which they hold, by name, where they are about one size alone.
        parameters: The number of weights.
        parameter_bytes: Their bytes.
        operators: The operators, the most frequent first.
    """

    model: str
    name: str
    inputs: dict[str, str]
    defaults: dict[str, str]
    outputs: dict[str, str]
    sizes: dict[str, str]
    program: str
    specialized: dict[str, str]
    guards: list[str]
    fitting: dict[str, str]
    parameters: int
    parameter_bytes: int
    operators: list[OpenOperatorRow]


def make_open_report(
    path: str, model: SizedModel, summary: Summary, ranges: SizeRanges
) -> OpenReport:
    """Return the report on *model*, which is in the file *path*, with open sizes in *ranges*.

    Raises:
        OptionError: *ranges* say something that has no meaning for the model.
    """
    try:
        function, numbers = model.open_function(ranges)
    except OptionError:
        raise
    except GlowError as error:
        program, guards, fitting = "", [], {}
        specialized = dict.fromkeys(_sizes(model.inputs), f"each of its sizes: {error}")
    else:
        program, guards = described_ranges(function.sizes), list(map(str, function.guards))
        found = {one.name: described_fits(one, function.guards) for one in function.sizes}
        fitting = {name: text for name, text in found.items() if text}
        specialized = {one.name: f"{one.size}: {one.reason}" for one in numbers}
    return OpenReport(
        model=path,
        name=summary.name,
        inputs=_shown(model.inputs),
        defaults=_shown(model.defaults),
        outputs=_shown(model.outputs),
        sizes=_sizes(model.inputs),
        program=program,
        specialized=specialized,
        guards=guards,
        fitting=fitting,
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
    places: dict[str, dict[str, list[str]]] = {}
    for name, type in inputs.items():
        if type.shape is None:
            places[name] = {"any number of dimensions": []}
        for axis, size in enumerate(type.shape or ()):
            if isinstance(size, str):
                where = places.setdefault(size, {}).setdefault(f"dimension {axis} of ", [])
                where.append(format_name(name))
    return {
        size: " and ".join(axis + ", ".join(names) for axis, names in where.items())
        for size, where in places.items()
    }


def print_open(console: Console, report: OpenReport, compiled: Facts) -> None:
    """Print *report* as tables, with more facts about what was *compiled*."""
    facts = [
        ("model", report.model),
        *((f"input {format_name(name)}", type) for name, type in report.inputs.items()),
        *((f"default {format_name(name)}", type) for name, type in report.defaults.items()),
        *((f"output {format_name(name)}", type) for name, type in report.outputs.items()),
        *((f"size {format_name(name)}", where) for name, where in report.sizes.items()),
        ("one program", f"for {report.program}" if report.program else "none for all sizes"),
        *((f"a number for {format_name(name)}", why) for name, why in report.specialized.items()),
        *(("only where", guard) for guard in report.guards),
        *((f"so {name} is", fits) for name, fits in report.fitting.items()),
        ("parameters", f"{scaled(report.parameters)} ({byte_count(report.parameter_bytes)})"),
        *compiled,
    ]
    table = make_table(console, "", ["", ""])
    table.show_header, table.title = False, None
    for name, value in facts:
        table.add_row(name, value)
    print_table(console, table)
    click.echo()
    table = make_table(console, "operators", ["operator", "#nodes"])
    for row in report.operators:
        table.add_row(format_name(row.operator), str(row.imported))
    print_table(console, table)
    click.echo()
