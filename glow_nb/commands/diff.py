"""``glow-nb diff``: what a pass did to a model, as a difference of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from glow_nb.backends import Backend, BackendOptions, backend_named
from glow_nb.base.errors import OptionError
from glow_nb.base.passes import PassRun
from glow_nb.base.quantities import count_of
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.errors import FOUND
from glow_nb.commands.models import load_one_program
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
    model_argument,
    without_option,
)
from glow_nb.commands.size_ranges import size_options
from glow_nb.commands.stages import Stages
from glow_nb.commands.wording import make_console
from glow_nb.hlir.kept_names import require_kept
from glow_nb.llir.program import Program
from glow_nb.network.compiling import as_threads
from glow_nb.tools.difference import CONTEXT, difference

EXAMPLES = """\
glow-nb diff model.onnx --pass fold_batch_normalization
glow-nb diff model.onnx --pass stack_instructions --context 0
glow-nb diff model.onnx --pass sink_transposes --run 1"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option(
    "--pass",
    "step",
    metavar="NAME",
    required=True,
    help="A pass over graphs or instructions, or one of lower, schedule, allocate. An unknown "
    "name lists them all.",
)
@click.option(
    "--run",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show the N-th run of the pass alone, counting from 1.  [default: all of them]",
)
@click.option(
    "--context",
    type=click.IntRange(min=0),
    default=CONTEXT,
    show_default=True,
    metavar="LINES",
    help="Unchanged lines around each change.",
)
@click.option("--constants", is_flag=True, help="Show the declarations of all constants.")
@click.option("--exit-code", is_flag=True, help=f"End with {FOUND} if the pass changed anything.")
@backend_options
@without_option
@binding_options
@size_options
@click.pass_context
def diff(
    context_of_click: click.Context,
    model: Path,
    step: str,
    number: int | None,
    context: int,
    constants: bool,
    exit_code: bool,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
    sizes: dict[str, Any],
) -> None:
    """Show what a pass did to MODEL, each time it ran.

    MODEL is an ONNX file or the text of a graph. Lines that begin with a minus were removed, lines
    with a plus were added. Constants are only counted, unless their numbers changed under the same
    name; large ones are then shown by a checksum. With --size or --hint, sizes stay open.
    """
    ir = load_one_program(model, bindings, sizes)
    if isinstance(ir, Program):
        raise OptionError(f"{model}: the file holds a program, on which no pass is run")
    chosen = backend_named(backend, threads=as_threads(threads))
    require_kept([ir], chosen.keep)
    stages = Stages(ir, chosen, without)
    stages.check("--pass", step)
    if step in ("import", "generate"):
        raise OptionError(
            f"--pass {step}: this step makes IR of another kind, whose text has no lines in common "
            f"with the text before it; use: glow-nb dump {model} --after {step}"
        )
    runs = stages.runs_of(step)
    if number is not None and number > len(runs):
        raise OptionError(f"--run {number}: {step} runs {count_of(len(runs), 'time')}")
    shown = enumerate(runs, start=1) if number is None else [(number, runs[number - 1])]
    console = make_console()
    changed = [
        _show(console, run, f"{index} of {len(runs)}", context, constants) for index, run in shown
    ]
    if exit_code and any(changed):
        context_of_click.exit(FOUND)


def _show(console: Console, run: PassRun, which: str, context: int, constants: bool) -> bool:
    """Print what *run* did; return whether it did anything."""
    title = f"{run.name}, run {which}"
    if not run.changed:
        click.echo(f"{title}: nothing changed")
        return False
    found = difference(run.before, run.after, context=context, constants=constants)
    click.echo(f"{title}: {found}")
    found.print(console)
    return True
