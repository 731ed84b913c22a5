"""``glow-nb bisect``: the first step, or quantized value, that makes a result wrong."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import numpy as np

from glow_nb import bisection
from glow_nb.backends import Backend, BackendOptions
from glow_nb.base.errors import OptionError
from glow_nb.base.finite import FiniteCheck
from glow_nb.base.progress import report, shown
from glow_nb.base.random_arrays import random_array
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.commands.arrays import assign_inputs
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.errors import FOUND
from glow_nb.commands.models import bindings_of_pair, load_model, load_one_program
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
glow-nb bisect model.int8.onnx --reference model.onnx --least-decibels 25
glow-nb bisect model.onnx --finite --exclude mask"""

OF_STEPS = ("tolerance", "keep_going")
"""Options that say something of the compiler's steps."""

OF_CODE = ("backend", "threads")
"""Options that say something of the kernels."""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option(
    "--tolerance",
    type=FiniteRange(0, 1e30),
    metavar="T",
    help="Largest difference over the largest output that counts as rounding.  [default: 1e-4, or "
    "one step of coarser numbers: 1/64 in a quantized network of 8 bits]",
)
@click.option(
    "--reference",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The float network that MODEL was quantized from: find the first value of MODEL that "
    "is too far from it.",
)
@click.option(
    "--least-decibels",
    type=FiniteRange(-1000, 1000),
    default=bisection.LEAST_DECIBELS,
    show_default=True,
    metavar="DB",
    help="Least signal-to-noise ratio of a value, in decibels.",
)
@click.option(
    "--finite",
    is_flag=True,
    help="Find the first kernel, and the first operator of the model, with a NaN or an infinity.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="NAME",
    help="With --finite: an input, node or value of the model that is not checked, such as a mask. "
    "Repeat it for each.",
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
    tolerance: float | None,
    reference: Path | None,
    least_decibels: float,
    finite: bool,
    exclude: tuple[str, ...],
    keep_going: bool,
    inputs: tuple[str, ...],
    seed: int,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
) -> None:
    """Find the step, quantized value or kernel that makes MODEL wrong.

    MODEL is an ONNX file or IR text. It is run after each step that changed it: graphs with NumPy,
    programs in the interpreter, finally the code of the backend. All results must agree with that
    of the imported graph. If the code is wrong, the kernel at fault is searched for. The exit
    status is 0 if all agree, and 3 if a step is found.

    With --reference, MODEL is a quantized network. Both are evaluated with NumPy, and values with
    the same name in both are compared. The exit status is 3 if a value is too far from its float
    value.

    With --finite, the results of each kernel are checked in a run. The exit status is 3 if there is
    a NaN or an infinity.
    """
    _check_goes_together(context, reference, finite)
    if reference is not None:
        _bisect_noise(context, model, reference, inputs, seed, least_decibels, bindings)
        return
    ir = load_one_program(model, bindings)
    feeds = _feeds(ir, inputs, seed)
    if finite:
        _bisect_finite(context, ir, feeds, exclude, backend, threads, without)
        return
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
        verdict = "" if step.distance <= found.tolerance else "differs"
        cells = (str(step.number), step.step, step.level, f"{step.distance:.3g}", verdict)
        table.add_row(*cells, style="red" if verdict else None)
    print_table(console, table)
    click.echo()
    click.echo(str(found))
    if found.first_bad is not None:
        context.exit(FOUND)


def _check_goes_together(context: click.Context, reference: Path | None, finite: bool) -> None:
    """Raise OptionError if options are given that say nothing with the others."""
    if reference is not None:
        why = "with --reference two graphs are evaluated"
        _refuse(context, (*OF_STEPS, *OF_CODE, "finite", "exclude"), why)
    elif finite:
        _refuse(context, OF_STEPS, "with --finite one run is checked")
    else:
        _refuse(context, ("exclude",), "it says what --finite does not check")


def _refuse(context: click.Context, names: Iterable[str], why: str) -> None:
    """Raise OptionError if one of the options *names* is given."""
    given = click.core.ParameterSource.COMMANDLINE
    for name in names:
        if context.get_parameter_source(name) is given:
            raise OptionError(f"--{name.replace('_', '-')}: {why}; leave it out")


def _bisect_finite(
    context: click.Context,
    ir: Function | Program,
    feeds: dict[str, Array],
    exclude: tuple[str, ...],
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
) -> None:
    """Print which kernel, and which value of the model, is the first that is not finite."""
    with shown("looking for NaN and infinity"):
        found = bisection.bisect_finite(
            ir,
            feeds,
            backend=backend,
            threads=threads,
            check=FiniteCheck(exclude=exclude),
            without=without,
        )
    click.echo(str(found))
    if found.error is not None or found.value is not None:
        context.exit(FOUND)


def _bisect_noise(
    context: click.Context,
    model: Path,
    reference: Path,
    inputs: tuple[str, ...],
    seed: int,
    least_decibels: float,
    bindings: Bindings,
) -> None:
    """Print the signal-to-noise ratio of all values, and which is the first that has too little."""
    own, its = bindings_of_pair(model, reference, bindings)
    quantized, floats = load_model(model, own), load_model(reference, its)
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
    if found.outside and not inputs:
        click.echo("the inputs are random numbers; --input NAME=FILE.npy gives others")
    if found.first_bad is not None:
        context.exit(FOUND)


def _feeds(ir: Function | Program, inputs: tuple[str, ...], seed: int) -> dict[str, Array]:
    """Return the arrays that the options give, or random ones."""
    rng = np.random.default_rng(seed)
    if inputs:
        return assign_inputs(inputs, [value.name for value in ir.inputs])
    return {value.name: random_array(value.type, rng) for value in ir.inputs}
