"""``glow-nb quantize``: the quantized version of a network."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

import glow_nb
from glow_nb.base.errors import OptionError
from glow_nb.base.quantities import count_of
from glow_nb.base.table import Table
from glow_nb.base.text import format_name
from glow_nb.commands.arrays import read_npz
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.models import hints, open_model
from glow_nb.commands.numbers import FiniteRange
from glow_nb.commands.options import (
    ExampleCommand,
    model_argument,
    threads_option,
)
from glow_nb.commands.outputs import OutputPath
from glow_nb.commands.pictures import require_drawing
from glow_nb.commands.samples import (
    calibrated_model,
    equalize_option,
    equalized,
    samples_for,
    samples_option,
)
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.network.compiling import as_threads
from glow_nb.network.files import save_text
from glow_nb.network.open_model import sized_model
from glow_nb.network.text_files import SUFFIX
from glow_nb.quant import Drift, Ranges, convert, convert_weights, correct_biases, drift
from glow_nb.quant.methods import METHODS, MethodName
from glow_nb.quant.schemas import (
    FEW_BITS,
    KINDS,
    SCHEMAS,
    WEIGHT_KINDS,
    ActivationKind,
    SchemaName,
    WeightKind,
)
from glow_nb.quant.weight_only import DEFAULT_BLOCK

RUNS = 10
"""Runs of each network whose times are reported."""

EXAMPLES = """\
glow-nb quantize model.onnx --ranges ranges.yaml --output model.int8.onnx
glow-nb quantize model.onnx --weights-only int4 --block 32 --report --output model.int4.onnx
glow-nb quantize model.onnx --ranges ranges.yaml --method mse --keep 'head*' \\
    --correct-biases --report --samples data.npz --picture drift.png --output model.int8.onnx"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option(
    "--ranges",
    "ranges_file",
    type=click.Path(path_type=Path),
    metavar="FILE.yaml",
    help="The file that 'glow-nb calibrate' has written for this model. Needed without "
    "--weights-only.",
)
@click.option(
    "--weights-only",
    type=click.Choice([kind.value for kind in FEW_BITS]),
    help="Round the weights of matrix products to these integers, and nothing else.",
)
@click.option(
    "--block",
    type=click.IntRange(min=1),
    metavar="N",
    default=DEFAULT_BLOCK,
    show_default=True,
    help="Neighbouring rows of a weight that share a scale, with --weights-only.",
)
@click.option(
    "--output",
    type=OutputPath(),
    required=True,
    metavar="FILE",
    help="The network to write: .onnx, with QuantizeLinear and DequantizeLinear, or IR text, "
    f"{SUFFIX}.",
)
@click.option(
    "--activations",
    type=click.Choice([kind.value for kind in KINDS]),
    default="uint8",
    show_default=True,
    help="Integer type of activations.",
)
@click.option(
    "--weights",
    type=click.Choice([kind.value for kind in WEIGHT_KINDS]),
    default="int8",
    show_default=True,
    help="Integer type of weights.",
)
@click.option(
    "--schema",
    type=click.Choice(list(SCHEMAS)),
    default="asymmetric",
    show_default=True,
    help="How scale and offset follow from a range.",
)
@click.option(
    "--method",
    type=click.Choice(list(METHODS)),
    default="minmax",
    show_default=True,
    help="How the range of a value follows from its histogram.",
)
@click.option(
    "--per-tensor",
    is_flag=True,
    help="Per-tensor scales of weights, instead of one scale for each output channel.",
)
@click.option(
    "--keep", multiple=True, metavar="GLOB", help="Nodes that stay float. Repeat it for each."
)
@click.option(
    "--least-gain",
    type=FiniteRange(0, 1e30),
    default=1.0,
    show_default=True,
    metavar="G",
    help="Least predicted speedup of an island of quantized operators; an island with less stays "
    "float. 0 quantizes all.",
)
@equalize_option
@click.option(
    "--correct-biases",
    "corrects_biases",
    is_flag=True,
    help="Correct biases for the mean error of rounded weights (needs --samples).",
)
@click.option(
    "--report",
    is_flag=True,
    help="Print which operators stay float, and why, and the predicted speedup of each layer; with "
    "--samples also the measured speedup.",
)
@samples_option(required=False, purpose="Print the quantization error on these samples. ")
@click.option(
    "--picture",
    type=OutputPath(),
    metavar="FILE.png",
    help="Plot the quantization error of each value (needs --samples and matplotlib).",
)
@binding_options
@threads_option
def quantize(
    model: Path,
    ranges_file: Path | None,
    weights_only: str | None,
    block: int,
    output: Path,
    activations: ActivationKind,
    weights: WeightKind,
    schema: SchemaName,
    method: MethodName,
    per_tensor: bool,
    keep: tuple[str, ...],
    least_gain: float,
    equalizes: bool,
    corrects_biases: bool,
    report: bool,
    samples: str | None,
    picture: Path | None,
    bindings: Bindings,
    threads: int | None,
) -> None:
    """Write a quantized version of MODEL, by default an int8 version.

    The ranges come from 'glow-nb calibrate' on the same model. With --samples, the float model and
    the quantized model both run. A table shows for each value the signal-to-noise ratio, the
    largest error and the share of saturated elements. A model with open sizes is quantized for the
    sizes of the calibration samples; glow_nb.load(MODEL, open_sizes=True) in Python leaves them
    open. With --weights-only, only weights are quantized, and no ranges
    are needed.
    """
    _check_output(output)
    _check_samples(samples, picture, corrects_biases)
    _check_mode(weights_only)
    require_drawing("--picture", picture)
    source = calibrated_model(model, bindings)
    arrays = None if samples is None else samples_for(source, read_npz(samples), samples)
    if weights_only is not None or ranges_file is None:
        with hints(model):
            rounded = convert_weights(source, weights=str(weights_only), block=block, keep=keep)
        if report:
            click.echo(str(rounded))
        if arrays is not None:
            found = drift(source, rounded.function, arrays, threads=threads)
            _print_drift(found, picture, threads)
        _write(rounded.function, output)
        return
    ranges = Ranges.load(ranges_file)
    if equalizes:
        source = equalized(source, tuple(ranges.inputs.items()))
    converted = convert(
        source,
        ranges,
        activations=activations,
        weights=weights,
        schema=schema,
        method=method,
        per_channel=not per_tensor,
        keep=keep,
        least_gain=least_gain,
    )
    function = converted.function
    if report:
        click.echo(str(converted))
        _tell_fixed_sizes(model, bindings, function)
    if arrays is not None and corrects_biases:
        corrected = correct_biases(source, function, arrays, threads=threads)
        click.echo(str(corrected))
        function = corrected.function
    if arrays is not None:
        runs = RUNS if report else 0
        found = drift(source, function, arrays, threads=threads, runs=runs)
        _print_drift(found, picture, threads)
    elif report:
        _print_table("layers on 1 thread", converted.gains.table)
    _write(function, output)


def _tell_fixed_sizes(model: Path, bindings: Bindings, function: glow_nb.Function) -> None:
    """Say which sizes *model* leaves open, and the quantized *function* does not."""
    opened = sized_model(open_model(model, bindings))
    if opened is None or function.sizes:
        return
    sizes = [size for type in opened.inputs.values() for size in type.shape or ()]
    names = dict.fromkeys(format_name(size) for size in sizes if isinstance(size, str))
    if names:
        click.echo(
            f"fixed by the samples: {', '.join(names)}; to leave sizes open, quantize "
            "glow_nb.load(MODEL, open_sizes=True) in Python"
        )


def _print_drift(found: Drift, picture: Path | None, threads: int | None) -> None:
    _print_table("values", found.table)
    if found.gains is not None:
        cores = count_of(as_threads(threads), "thread")
        _print_table(f"layers of the networks for {cores}", found.gains.table)
    if picture is not None:
        found.plot(picture)
        click.echo(f"wrote {picture}", err=True)


def _print_table(title: str, table: Table) -> None:
    console = make_console()
    shown = make_table(console, title, table.columns)
    for row in table.rows:
        shown.add_row(*row)
    print_table(console, shown)


def _write(function: glow_nb.Function, output: Path) -> None:
    if output.suffix == SUFFIX:
        save_text(function, output)
    else:
        glow_nb.export_onnx(function, output)
    click.echo(f"wrote {output}", err=True)


def _check_output(output: Path) -> None:
    if output.suffix not in (SUFFIX, ".onnx"):
        raise click.BadParameter(
            f"{output} is named neither FILE.onnx nor FILE{SUFFIX}", param_hint="'--output'"
        )


_OF_ACTIVATIONS = (
    *("--ranges", "--activations", "--weights", "--schema", "--method", "--per-tensor"),
    *("--least-gain", "--equalize", "--correct-biases"),
)
"""The options that have no meaning where activations stay floats."""


def _check_mode(weights_only: str | None) -> None:
    """Raise OptionError unless the options given are those of weights alone, or of all."""
    context = click.get_current_context()
    given = {
        option
        for parameter in context.command.params
        for option in parameter.opts
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    }
    if weights_only is None:
        if "--ranges" not in given:
            raise OptionError(
                "--ranges: it is missing; give the file that glow-nb calibrate writes, or "
                "--weights-only int4"
            )
        if "--block" in given:
            raise OptionError("--block: it has a meaning only with --weights-only; leave it out")
        return
    wrong = [option for option in _OF_ACTIVATIONS if option in given]
    if wrong:
        raise OptionError(
            f"--weights-only {weights_only}: {', '.join(wrong)}: activations stay floats, where "
            "this has no meaning; leave it out"
        )


def _check_samples(samples: str | None, picture: Path | None, corrects_biases: bool) -> None:
    """Raise OptionError if there are no samples but something that is made with them."""
    for option, is_given in (
        ("--picture", picture is not None),
        ("--correct-biases", corrects_biases),
    ):
        if is_given and samples is None:
            raise OptionError(f"{option}: it needs samples; give --samples")
