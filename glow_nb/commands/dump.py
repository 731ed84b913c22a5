"""``glow-nb dump``: a model at any step of the compiler, as text."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from glow_nb.backends import Backend, BackendOptions, backend_named
from glow_nb.base.errors import OptionError
from glow_nb.base.quantities import count_of
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.ir_files import check_ir_output, write_ir, write_text
from glow_nb.commands.models import (
    compile_fixed_model,
    load_model,
    load_one_program,
    require_one_program,
)
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
    model_argument,
    without_option,
)
from glow_nb.commands.outputs import OutputPath
from glow_nb.commands.size_ranges import size_options
from glow_nb.commands.stages import Stages
from glow_nb.compiler.driver import IR, run
from glow_nb.hlir.dot import print_dot
from glow_nb.hlir.graph import Function
from glow_nb.hlir.kept_names import require_kept
from glow_nb.llir.program import Program
from glow_nb.network.compilation import PLACEMENT, Order, order_for
from glow_nb.network.compiling import as_threads
from glow_nb.observers import WriteIR

LEVELS = ("hlir", "llir", "source")


EXAMPLES = """\
glow-nb dump model.onnx --after import
glow-nb dump model.onnx --level llir --output program.glow
glow-nb dump model.onnx --after-each-pass steps
glow-nb dump encoder.onnx --level llir --size length=1..512 --hint length=128
glow-nb dump model.onnx --dot | dot -Tsvg -o model.svg"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    help="The graph, the program over memory, or the generated source.  "
    "[default: hlir, or that of --after]",
)
@click.option(
    "--after",
    metavar="STEP",
    help="Show the state after the last run of this step: a pass, or one of import, lower, "
    "schedule (hlir), generate, allocate (llir). An unknown name lists them all.",
)
@click.option(
    "--after-each-pass",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the state after each step that changed it to FOLDER/00-import.glow, "
    "01-....glow and so on, without the numbers of large constants.",
)
@click.option(
    "--output",
    type=OutputPath(),
    metavar="FILE.glow",
    help="Write to FILE.glow instead of standard output; large constants go beside it, to "
    "FILE.npz, so that 'glow-nb run FILE.glow' works. For source and --dot, any name will do.",
)
@click.option("--dot", is_flag=True, help="Draw the graph in Graphviz' dot language.")
@backend_options
@without_option
@binding_options
@size_options
def dump(
    model: Path,
    level: str | None,
    after: str | None,
    folder: Path | None,
    output: Path | None,
    dot: bool,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
    sizes: dict[str, Any],
) -> None:
    """Print MODEL as the compiler sees it.

    MODEL is an ONNX file or IR text. Without --after, the last state of the level is printed: the
    graph from which instructions are generated, the allocated program, or the source of all
    kernels. It is what 'glow-nb run' runs with the same options. With --size or --hint, sizes stay
    open.
    """
    if folder is not None:
        if level or after or dot or output:
            raise click.UsageError(
                "--after-each-pass writes files of its own; leave --level, --after, --dot and "
                "--output out"
            )
        chosen = backend_named(backend, threads=as_threads(threads))
        order = order_for(chosen, without=without)
        _write_each(load_one_program(model, bindings, sizes), order, folder, chosen.keep)
        return
    if not (dot or level == "source"):
        check_ir_output(output)
    if level == "source":
        if after or dot:
            raise click.UsageError("--after and --dot show IR; they do not go with --level source")
        network = compile_fixed_model(
            model, bindings, backend, threads, without=without, sizes=sizes
        )
        if not network.source:
            raise OptionError(
                f"backend {backend.name!r} generates no source; use another --backend"
            )
        write_text(network.source, output)
        return
    ir = load_model(model, bindings, sizes)
    if after != "import":
        require_one_program(model, ir)
    chosen = backend_named(backend, threads=as_threads(threads))
    state = _state(ir, level, after, chosen, without)
    if dot:
        if not isinstance(state, Function):
            raise click.UsageError("--dot draws graphs; it does not go with the level llir")
        write_text(print_dot(state), output)
    else:
        write_ir(state, output)


def _write_each(ir: Function | Program, order: Order, folder: Path, keep: Collection[str]) -> None:
    """Write every state of *ir* up to an allocated program into *folder*.

    Its layers that *keep* names must be there.
    """
    if isinstance(ir, Program):
        raise OptionError(f"{ir!r}: the file holds a program, on which no pass is run")
    require_kept([ir], keep)
    writer = WriteIR(folder)
    run(ir, (*order.graph, *order.program), writer)
    click.echo(f"wrote {count_of(len(writer.written), 'file')} to {folder}", err=True)


def _state(
    ir: Function | Program,
    level: str | None,
    after: str | None,
    backend: Backend,
    without: tuple[str, ...],
) -> Function | Program:
    """Return the state of *ir* that the options ask for."""
    if isinstance(ir, Program):
        return _program_state(ir, level, after)
    require_kept([ir], backend.keep)
    if after is None:
        order = order_for(backend, without=without)
        lowered = run(ir, order.graph)
        return run(lowered, order.program) if level == "llir" else lowered
    state = Stages(ir, backend, without).after(after)
    found = "hlir" if isinstance(state, Function) else "llir"
    if level not in (None, found):
        raise OptionError(f"--after {after}: this step is of the level {found}, not {level}")
    return state


def _program_state(program: Program, level: str | None, after: str | None) -> IR:
    if level == "hlir":
        raise OptionError(f"{program!r}: the file holds a program, which has no graph; use llir")
    if after == "import":
        return program
    if after not in (None, "allocate"):
        raise OptionError(
            f"--after {after}: the file holds a program, on which no pass is run; "
            "there are only import and allocate"
        )
    return program if program.arena else run(program, PLACEMENT)
