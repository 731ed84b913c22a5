"""``glow-nb info``: what a model costs, operator by operator, and what was made of it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

import glow_nb
from glow_nb.commands.models import load_model
from glow_nb.commands.options import (
    ExampleCommand,
    NamedShape,
    as_shapes,
    backend_option,
    model_argument,
    shape_option,
    threads_option,
    winograd_option,
)
from glow_nb.commands.wording import byte_count, make_console, make_table, print_table, scaled
from glow_nb.hlir.cost import Cost, cost_of
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network import Network
from glow_nb.text import format_name


@dataclass(frozen=True)
class OperatorRow:
    """One kind of operator: how often it occurs, and what it computes once compiled."""

    operator: str
    imported: int
    compiled: int
    multiply_adds: int
    other_operations: int


@dataclass(frozen=True)
class KernelRow:
    """One family of kernels: instructions that use it, and different kernels among them."""

    family: str
    instructions: int
    kernels: int


@dataclass(frozen=True)
class InstructionRow:
    """One instruction: its family of kernels, and the imported nodes that went into it."""

    family: str
    symbol: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class ModelReport:
    """Everything ``info`` says about a model; sizes in bytes.

    ``parameters`` counts the numbers in the constants of the model as imported.
    """

    model: str
    name: str
    backend: str
    threads: int
    inputs: dict[str, str]
    outputs: dict[str, str]
    parameters: int
    parameter_bytes: int
    multiply_adds: int
    flops: int
    arena_bytes: int
    arena_lower_bound_bytes: int
    unshared_bytes: int
    constant_bytes: int
    scratch_bytes: int
    operators: list[OperatorRow]
    kernels: list[KernelRow]
    instructions: list[InstructionRow]


EXAMPLES = """\
glow-nb info model.onnx
glow-nb info model.onnx --kernels
glow-nb info model.onnx --shape batch=8 --json | jq .arena_bytes"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, sizes in bytes.")
@click.option(
    "--kernels", "list_kernels", is_flag=True, help="List the kernels, and the nodes in each."
)
@click.option(
    "--memory-map",
    "picture",
    type=click.Path(path_type=Path),
    metavar="FILE.png",
    help="Draw the arena, time by address, to this file (needs matplotlib).",
)
@backend_option
@threads_option
@winograd_option
@shape_option
def info(
    model: Path,
    as_json: bool,
    list_kernels: bool,
    picture: Path | None,
    backend: str,
    threads: int | None,
    winograd: str,
    shapes: tuple[NamedShape, ...],
) -> None:
    """Show what MODEL costs in arithmetic and memory.

    MODEL is an ONNX file or IR text. Shown are inputs, outputs, parameters, arithmetic, memory,
    operators and kernels. Arithmetic is nominal: a multiply-add is two FLOPs however the kernel
    computes it, and moving data is none.
    """
    imported = load_model(model, as_shapes(shapes))
    network = glow_nb.compile(imported, backend=backend, threads=threads, winograd=winograd)
    if picture is not None:
        network.memory.plot(picture)
        click.echo(f"wrote {picture}", err=True)
    report = make_report(str(model), backend, imported, network)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report), indent=2))
    else:
        _print(report, list_kernels)


def make_report(
    model: str, backend: str, imported: Function | Program, network: Network
) -> ModelReport:
    """Return the report on *network*, which was compiled from *imported*."""
    storage = imported.constants if isinstance(imported, Function) else imported.weights
    operators = _operator_rows(imported, network.function)
    multiply_adds = sum(row.multiply_adds for row in operators)
    memory = network.memory
    return ModelReport(
        model=model,
        name=network.program.name,
        backend=backend,
        threads=network.threads,
        inputs={name: str(type) for name, type in network.inputs.items()},
        outputs={name: str(type) for name, type in network.outputs.items()},
        parameters=sum(value.type.size for value in storage),
        parameter_bytes=sum(value.type.size_bytes for value in storage),
        multiply_adds=multiply_adds,
        flops=2 * multiply_adds + sum(row.other_operations for row in operators),
        arena_bytes=memory.arena_bytes,
        arena_lower_bound_bytes=memory.lower_bound_bytes,
        unshared_bytes=memory.unshared_bytes,
        constant_bytes=memory.constant_bytes,
        scratch_bytes=memory.scratch_bytes,
        operators=operators,
        kernels=_kernel_rows(network),
        instructions=[InstructionRow(k.family, k.symbol, k.origins) for k in network.kernels],
    )


def _operator_rows(imported: Function | Program, compiled: Function | None) -> list[OperatorRow]:
    """Return a row for each operator, the most arithmetic first; a program's rows have none."""
    if isinstance(imported, Program) or compiled is None:
        counts = Counter(i.opcode for i in imported.work) if isinstance(imported, Program) else {}
        return [OperatorRow(opcode, n, n, 0, 0) for opcode, n in sorted(counts.items())]
    before = Counter(node.opcode for node in imported)
    after = Counter(node.opcode for node in compiled)
    costs: dict[str, Cost] = {}
    for node in compiled:
        costs[node.opcode] = costs.get(node.opcode, Cost()) + cost_of(node)
    names = sorted({*before, *after}, key=lambda name: (-costs.get(name, Cost()).flops, name))
    return [
        OperatorRow(
            operator=name,
            imported=before[name],
            compiled=after[name],
            multiply_adds=costs.get(name, Cost()).multiply_adds,
            other_operations=costs.get(name, Cost()).others,
        )
        for name in names
    ]


def _kernel_rows(network: Network) -> list[KernelRow]:
    instructions = Counter(kernel.family for kernel in network.kernels)
    generated = {(kernel.family, kernel.symbol) for kernel in network.kernels if kernel.symbol}
    distinct = Counter(family for family, _ in generated)
    return [
        KernelRow(family, count, distinct[family]) for family, count in instructions.most_common()
    ]


def _print(report: ModelReport, list_kernels: bool) -> None:
    console = make_console()
    _print_facts(console, report)
    _print_operators(console, report)
    table = make_table(console, "kernels", ["family", "#instructions", "#different kernels"])
    for kernel in report.kernels:
        table.add_row(kernel.family, str(kernel.instructions), str(kernel.kernels))
    print_table(console, table)
    if list_kernels:
        _print_instructions(console, report)


def _print_instructions(console: Console, report: ModelReport) -> None:
    click.echo()
    table = make_table(console, "instructions", ["#number", "family", "nodes of the model"])
    for number, row in enumerate(report.instructions):
        table.add_row(str(number), row.family, ", ".join(map(format_name, row.nodes)))
    print_table(console, table)


def _print_facts(console: Console, report: ModelReport) -> None:
    ratio = report.arena_bytes / (report.arena_lower_bound_bytes or 1)
    facts = [
        ("model", report.model),
        ("compiled for", f"{report.backend}, threads {report.threads}"),
        *((f"input {format_name(name)}", type) for name, type in report.inputs.items()),
        *((f"output {format_name(name)}", type) for name, type in report.outputs.items()),
        ("parameters", f"{scaled(report.parameters)} ({byte_count(report.parameter_bytes)})"),
        ("multiply-adds", scaled(report.multiply_adds)),
        ("FLOPs", scaled(report.flops)),
        ("arena", f"{byte_count(report.arena_bytes)}, {ratio:.3f} of its lower bound"),
        ("lower bound", f"{byte_count(report.arena_lower_bound_bytes)} live at one time"),
        ("unshared", f"{byte_count(report.unshared_bytes)} if no memory were used twice"),
        ("constants", f"{byte_count(report.constant_bytes)} as packed for the kernels"),
        ("scratch", f"{byte_count(report.scratch_bytes)} for all threads"),
    ]
    table = make_table(console, "", ["", ""])
    table.show_header, table.title = False, None
    for name, value in facts:
        table.add_row(name, value)
    print_table(console, table)


def _print_operators(console: Console, report: ModelReport) -> None:
    columns = ["operator", "#imported", "#compiled", "#multiply-adds", "#others", "#share"]
    click.echo()
    table = make_table(console, "operators", columns)
    for row in report.operators:
        flops = 2 * row.multiply_adds + row.other_operations
        table.add_row(
            row.operator,
            str(row.imported),
            str(row.compiled),
            scaled(row.multiply_adds),
            scaled(row.other_operations),
            f"{100 * flops / (report.flops or 1):.1f} %",
        )
    print_table(console, table)
    click.echo()
