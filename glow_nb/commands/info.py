"""``glow-nb info``: the composition and cost of a model by operator, and its compilation."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

import glow_nb
from glow_nb.backends import Backend, BackendOptions
from glow_nb.base.costs import Cost
from glow_nb.base.errors import OptionError
from glow_nb.base.precision import FULL
from glow_nb.base.quantities import byte_count, count_of, scaled
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.summary import Summary
from glow_nb.base.text import format_name
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.json_text import json_text
from glow_nb.commands.models import load_with_open_sizes, stages_of
from glow_nb.commands.open_info import (
    HOW_TO_CLOSE,
    OpenReport,
    make_open_report,
    print_open,
)
from glow_nb.commands.options import (
    COMPILE_PARAMETERS,
    ExampleCommand,
    backend_options,
    model_argument,
    without_option,
)
from glow_nb.commands.outputs import OutputPath
from glow_nb.commands.pictures import require_drawing
from glow_nb.commands.size_ranges import require_no_sizes, size_options
from glow_nb.commands.summaries import summary_of
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.network import Network
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.open_model import sized_model

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import SymbolicModel


@dataclass(frozen=True)
class OperatorRow:
    """One kind of operator: how often it occurs, and what it computes.

    ``compiled`` is None if the model was not compiled.
    """

    operator: str
    imported: int
    compiled: int | None
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
    """The output of ``info`` about a model as imported; sizes in bytes.

    ``parameters`` counts the numbers in the weights. Once the model is compiled, the arithmetic
    is that of the compiled graph.
    """

    model: str
    name: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    state: dict[str, str]
    parameters: int
    parameter_bytes: int
    multiply_adds: int
    flops: int
    operators: list[OperatorRow]


@dataclass(frozen=True)
class CompiledReport:
    """The part of the output of ``info`` about a compiled model; sizes in bytes.

    ``kept_layers`` are those that do not compute in the precision that was asked for, with reasons.
    """

    backend: str
    threads: int
    arena_bytes: int
    arena_lower_bound_bytes: int
    unshared_bytes: int
    constant_bytes: int
    scratch_bytes: int
    precision: str
    kept_layers: dict[str, str]
    kernels: list[KernelRow]
    instructions: list[InstructionRow]


EXAMPLES = """\
glow-nb info model.onnx
glow-nb info model.onnx --kernels
glow-nb info model.onnx --shape batch=8 --compile --json | jq .arena_bytes"""

HOW_TO_SEE_MORE = "not compiled; --compile shows memory and kernels, too"


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, sizes in bytes.")
@click.option(
    "--compile",
    "compiles",
    is_flag=True,
    help="Compile MODEL and show memory and kernels, too. All options below except --shape imply "
    "it.",
)
@click.option(
    "--kernels", "list_kernels", is_flag=True, help="List the kernels, and the nodes in each."
)
@click.option(
    "--memory-map",
    "picture",
    type=OutputPath(),
    metavar="FILE.png",
    help="Draw the arena, time by address, to this file (needs matplotlib).",
)
@backend_options
@without_option
@binding_options
@size_options
@click.pass_context
def info(
    context: click.Context,
    model: Path,
    as_json: bool,
    compiles: bool,
    list_kernels: bool,
    picture: Path | None,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
    sizes: dict[str, Any],
) -> None:
    """Show the arithmetic and the memory that MODEL needs.

    MODEL is an ONNX file or IR text. The command shows inputs, outputs, parameters, arithmetic and
    operators, and with --compile also memory and kernels. Arithmetic is nominal: a multiply-add is
    two FLOPs however the kernel computes it, and moving data is none. For a model with open sizes,
    the command shows these, and the sizes for which one program is possible, instead of what
    depends on them. Memory is then that of the sizes of --hint.
    """
    require_drawing("--memory-map", picture)
    must_compile = compiles or list_kernels or picture is not None or _asks(context)
    imported = load_with_open_sizes(model, bindings)
    graph: Any = imported
    given: dict[str, Any] = {}
    if sized_model(imported) is None:
        require_no_sizes(model, sizes)
    else:  # a network takes the model itself, to read it again
        graph, given = str(model), {**sizes, "sizes": sizes["sizes"] or {}}
        given |= {"shapes": bindings.shapes, "constants": bindings.constants(model)}
    network: Network | None = None
    if must_compile:
        network = glow_nb.compile(graph, backend=backend, threads=threads, without=without, **given)
    ranges = SizeRanges.of(sizes["sizes"], sizes["hints"], fixed=bindings.shapes)
    report = _report_of(model, imported, network, ranges)
    if picture is not None and network is not None:
        if len(stages_of(network)) > 1:
            raise OptionError(
                f"--memory-map: {model} has data-dependent sizes, and each of its "
                f"{len(stages_of(network))} stages has an arena of its own; leave it out"
            )
        network.memory.plot(picture)
        click.echo(f"wrote {picture}", err=True)
    compiled = make_compiled_report(backend.name, network) if network else None
    if as_json:
        parts = [dataclasses.asdict(part) for part in (report, compiled) if part]
        click.echo(json_text({key: part[key] for part in parts for key in part}))
    else:
        _print(report, compiled, list_kernels)


def _report_of(
    model: Path,
    imported: Function | Program | SymbolicModel,
    network: Network | None,
    ranges: SizeRanges,
) -> ModelReport | OpenReport:
    """Return the report on the file *model*, and on the *network* that was made of it.

    Sizes that are open are in *ranges*.
    """
    summary, opened = summary_of(model, imported), sized_model(imported)
    if opened is None and isinstance(imported, Function) and imported.sizes:
        opened = OpenFunction(imported)  # whose sizes runs decide
    if opened is None:
        assert isinstance(imported, Function | Program)
        compiled = network.function if network else None
        return make_report(str(model), imported, summary, compiled)
    return make_open_report(str(model), opened, summary, ranges)


def _asks(context: click.Context) -> bool:
    """Return whether an option says how to compile."""
    given = click.core.ParameterSource.COMMANDLINE
    return any(context.get_parameter_source(option) is given for option in COMPILE_PARAMETERS)


def make_report(
    model: str,
    imported: Function | Program,
    summary: Summary,
    compiled: Function | None = None,
) -> ModelReport:
    """Return the report on *imported* with its *summary*, and on what it was *compiled* to."""
    operators = _operator_rows(imported, compiled)
    multiply_adds = sum(row.multiply_adds for row in operators)
    return ModelReport(
        model=model,
        name=imported.name,
        inputs={value.name: str(value.type) for value in imported.inputs},
        outputs={value.name: str(value.type) for value in imported.outputs},
        state={value.name: str(value.type) for value in imported.state},
        parameters=summary.parameters,
        parameter_bytes=summary.parameter_bytes,
        multiply_adds=multiply_adds,
        flops=2 * multiply_adds + sum(row.other_operations for row in operators),
        operators=operators,
    )


def make_compiled_report(backend: str, network: Network) -> CompiledReport:
    """Return the report on *network*, which was compiled for *backend*."""
    memories = [stage.memory for stage in stages_of(network)]  # which run one after the other
    precisions = [stage.precision for stage in stages_of(network)]
    return CompiledReport(
        backend=backend,
        threads=network.threads,
        arena_bytes=max(memory.arena_bytes for memory in memories),
        arena_lower_bound_bytes=max(memory.lower_bound_bytes for memory in memories),
        unshared_bytes=sum(memory.unshared_bytes for memory in memories),
        constant_bytes=sum(memory.constant_bytes for memory in memories),
        scratch_bytes=max(memory.scratch_bytes for memory in memories),
        precision=precisions[0].precision,
        kept_layers={layer.name: layer.reason for each in precisions for layer in each.kept},
        kernels=_kernel_rows(network),
        instructions=[InstructionRow(k.family, k.symbol, k.origins) for k in network.kernels],
    )


def _operator_rows(imported: Function | Program, compiled: Function | None) -> list[OperatorRow]:
    """Return a row for each operator, the most arithmetic first; a program's rows have none."""
    if isinstance(imported, Program):
        counts = Counter(i.opcode for i in imported.work)
        return [OperatorRow(opcode, n, n, 0, 0) for opcode, n in sorted(counts.items())]
    before = Counter(node.opcode for node in imported)
    after = Counter(node.opcode for node in compiled or ())
    costs: dict[str, Cost] = {}
    for node in compiled or imported:
        costs[node.opcode] = costs.get(node.opcode, Cost()) + node.cost()
    names = sorted({*before, *after}, key=lambda name: (-costs.get(name, Cost()).flops, name))
    return [
        OperatorRow(
            operator=name,
            imported=before[name],
            compiled=after[name] if compiled else None,
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


def _print(
    report: ModelReport | OpenReport, compiled: CompiledReport | None, list_kernels: bool
) -> None:
    console = make_console()
    if isinstance(report, OpenReport):
        print_open(console, report, _compiled_facts(compiled))
    else:
        _print_facts(console, report, compiled)
        _print_operators(console, report, is_compiled=compiled is not None)
    if compiled is None:
        click.echo(HOW_TO_CLOSE if isinstance(report, OpenReport) else HOW_TO_SEE_MORE)
        return
    table = make_table(console, "kernels", ["family", "#instructions", "#different kernels"])
    for kernel in compiled.kernels:
        table.add_row(kernel.family, str(kernel.instructions), str(kernel.kernels))
    print_table(console, table)
    if list_kernels:
        _print_instructions(console, compiled)


def _print_instructions(console: Console, report: CompiledReport) -> None:
    click.echo()
    table = make_table(console, "instructions", ["#number", "family", "nodes of the model"])
    for number, row in enumerate(report.instructions):
        table.add_row(str(number), row.family, ", ".join(map(format_name, row.nodes)))
    print_table(console, table)


def _print_facts(console: Console, report: ModelReport, compiled: CompiledReport | None) -> None:
    facts = [
        ("model", report.model),
        *((f"input {format_name(name)}", type) for name, type in report.inputs.items()),
        *((f"output {format_name(name)}", type) for name, type in report.outputs.items()),
        *((f"state {format_name(name)}", type) for name, type in report.state.items()),
        ("parameters", f"{scaled(report.parameters)} ({byte_count(report.parameter_bytes)})"),
        ("multiply-adds", scaled(report.multiply_adds)),
        ("FLOPs", scaled(report.flops)),
        *_compiled_facts(compiled),
    ]
    table = make_table(console, "", ["", ""])
    table.show_header, table.title = False, None
    for name, value in facts:
        table.add_row(name, value)
    print_table(console, table)


def _compiled_facts(report: CompiledReport | None) -> list[tuple[str, str]]:
    if report is None:
        return []
    ratio = report.arena_bytes / (report.arena_lower_bound_bytes or 1)
    return [
        ("compiled for", f"{report.backend}, threads {report.threads}"),
        ("arena", f"{byte_count(report.arena_bytes)}, {ratio:.3f} of its lower bound"),
        ("lower bound", f"{byte_count(report.arena_lower_bound_bytes)} live at one time"),
        ("unshared", f"{byte_count(report.unshared_bytes)} if no memory were used twice"),
        ("constants", f"{byte_count(report.constant_bytes)} as packed for the kernels"),
        ("scratch", f"{byte_count(report.scratch_bytes)} for all threads"),
        *_precision_facts(report),
    ]


def _precision_facts(report: CompiledReport) -> list[tuple[str, str]]:
    """Return the facts about the layers that keep their precision, if these are not all layers."""
    if report.precision == FULL:
        return []
    counts = Counter(report.kept_layers.values())
    stays = [f"{count_of(count, 'layer')}: {reason}" for reason, count in counts.most_common()]
    return [("precision", report.precision), *(("not so", line) for line in stays)]


def _print_operators(console: Console, report: ModelReport, *, is_compiled: bool) -> None:
    counts = ["#imported", "#compiled"] if is_compiled else ["#imported"]
    columns = ["operator", *counts, "#multiply-adds", "#others", "#share"]
    click.echo()
    table = make_table(console, "operators", columns)
    for row in report.operators:
        flops = 2 * row.multiply_adds + row.other_operations
        table.add_row(
            row.operator,
            str(row.imported),
            *([str(row.compiled)] if is_compiled else ()),
            scaled(row.multiply_adds),
            scaled(row.other_operations),
            f"{100 * flops / (report.flops or 1):.1f} %",
        )
    print_table(console, table)
    click.echo()
