"""``glow-nb bisect``: the first step, or quantized value, that makes a result wrong."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from glow_nb import bisection
from glow_nb.backends import Backend, BackendOptions
from glow_nb.base.errors import OptionError
from glow_nb.base.progress import report, shown
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.commands.arrays import assign_inputs, random_array
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.errors import FOUND
from glow_nb.commands.models import load_model
from glow_nb.commands.numbers import FiniteRange
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
    inputs_option,
    model_argument,
    seed_option,
    without_option,
)
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.compiler import pipelines
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program

EXAMPLES = """\
glow-nb bisect model.onnx
glow-nb bisect model.onnx --input data=image.npy --tolerance 1e-5
glow-nb bisect model.onnx --backend interpreter --keep-going
glow-nb bisect model.int8.onnx --reference model.onnx --least-decibels 25"""

OF_STEPS = ("tolerance", "keep_going", "backend", "threads")
"""Options that say something of the compiler's steps."""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option(
    "--tolerance",
    type=FiniteRange(0, 1e30),
    default=1e-4,
    show_default=True,
    metavar="T",
    help="Largest difference over the largest output that counts as rounding.",
)
@click.option(
    "--reference",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The network of floats that MODEL was quantized from: find the first value of MODEL that "
    "is too far from it.",
)
@click.option(
    "--least-decibels",
    type=FiniteRange(-1000, 1000),
    default=bisection.LEAST_DECIBELS,
    show_default=True,
    metavar="DB",
    help="Signal to noise of a value that is near enough to the reference.",
)
@click.option("--keep-going", is_flag=True, help="Try the steps after the first bad one, too.")
@inputs_option
@seed_option
@backend_options
@without_option
@binding_options
@click.pass_context
def bisect(
    context: click.Context,
    model: Path,
    tolerance: float,
    reference: Path | None,
    least_decibels: float,
    keep_going: bool,
    inputs: tuple[str, ...],
    seed: int,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
) -> None:
    """Find the step, or quantized value, that makes MODEL wrong.

    MODEL is an ONNX file or IR text. It is run after each step that changed it: graphs with NumPy,
    programs in the interpreter, in the end the code of the backend. All must give what the imported
    graph gives. Of wrong code, the kernel at fault is looked for. Ends with 0 if all agree, with 3
    if a step is found.

    With --reference, MODEL is a quantized network. Both are evaluated with NumPy, and values are
    compared that both have under the same name. Ends with 3 if one is too far from the floats.
    """
    if reference is not None:
        _check_has_steps(context)
        _bisect_noise(context, model, reference, inputs, seed, least_decibels, bindings)
        return
    ir = load_model(model, bindings)
    feeds = _feeds(ir, inputs, seed)
    with shown("bisecting"):
        found = bisection.bisect(
            ir,
            feeds,
            backend=backend,
            threads=threads,
            tolerance=tolerance,
            keep_going=keep_going,
            pipeline=pipelines.INFERENCE,
            without=without,
            progress=report,
        )
    console = make_console()
    table = make_table(console, "states", ["#step", "made by", "level", "#difference", ""])
    for step in found.steps:
        verdict = "" if step.distance <= tolerance else "differs"
        cells = (str(step.number), step.step, step.level, f"{step.distance:.3g}", verdict)
        table.add_row(*cells, style="red" if verdict else None)
    print_table(console, table)
    click.echo()
    click.echo(str(found))
    if found.first_bad is not None:
        context.exit(FOUND)


def _check_has_steps(context: click.Context) -> None:
    """Raise OptionError if options are given that say nothing with ``--reference``."""
    given = click.core.ParameterSource.COMMANDLINE
    for name in OF_STEPS:
        if context.get_parameter_source(name) is given:
            option = f"--{name.replace('_', '-')}"
            raise OptionError(
                f"{option}: it is about the steps of the compiler, but with --reference two graphs "
                "are evaluated; leave it out"
            )


def _bisect_noise(
    context: click.Context,
    model: Path,
    reference: Path,
    inputs: tuple[str, ...],
    seed: int,
    least_decibels: float,
    bindings: Bindings,
) -> None:
    """Print the signal to noise of all values, and which is the first that has too little."""
    quantized, floats = load_model(model, bindings), load_model(reference, bindings)
    feeds = _feeds(floats, inputs, seed)
    with shown("bisecting"):
        found = bisection.bisect_noise(
            floats, quantized, feeds, least_decibels=least_decibels, progress=report
        )
    console = make_console()
    table = make_table(console, "values", ["value", "of", "#dB", ""])
    for value in found.values:
        verdict = "noisy" if value.signal_to_noise < least_decibels else ""
        cells = (format_name(value.name), value.opcode, f"{value.signal_to_noise:.1f}", verdict)
        table.add_row(*cells, style="red" if verdict else None)
    print_table(console, table)
    click.echo()
    click.echo(str(found))
    if found.first_bad is not None:
        context.exit(FOUND)


def _feeds(ir: Function | Program, inputs: tuple[str, ...], seed: int) -> dict[str, Array]:
    """Return the arrays that the options give, or random ones."""
    rng = np.random.default_rng(seed)
    if inputs:
        return assign_inputs(inputs, [value.name for value in ir.inputs])
    return {value.name: random_array(value.type, rng) for value in ir.inputs}
