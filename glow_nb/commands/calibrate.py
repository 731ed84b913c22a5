"""``glow-nb calibrate``: the ranges of the values of a network on samples."""

from __future__ import annotations

from pathlib import Path

import click

from glow_nb.backends import BackendOptions
from glow_nb.base.quantities import count_of
from glow_nb.commands.arrays import read_npz
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
    model_argument,
)
from glow_nb.commands.outputs import OutputPath
from glow_nb.commands.samples import (
    calibrated_model,
    equalize_option,
    equalized,
    samples_for,
    samples_option,
)
from glow_nb.network.source import as_source, shapes_of
from glow_nb.quant import calibrate as run_calibration
from glow_nb.quant.samples import batches_of

EXAMPLES = """\
glow-nb calibrate model.onnx --samples data.npz --output ranges.yaml
glow-nb calibrate model.onnx --samples data.npz --shape batch=8 --bins 4096 --output ranges.yaml"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@samples_option(required=True)
@click.option(
    "--output",
    type=OutputPath(),
    required=True,
    metavar="FILE.yaml",
    help="The ranges to write, for 'glow-nb quantize'.",
)
@click.option(
    "--bins",
    type=click.IntRange(min=2, max=1 << 20),
    default=2048,
    show_default=True,
    metavar="N",
    help="Bins of the histogram of each value.",
)
@equalize_option
@binding_options
@backend_options
def calibrate(
    model: Path,
    samples: str,
    output: Path,
    bins: int,
    equalizes: bool,
    bindings: Bindings,
    backend: BackendOptions,
    threads: int | None,
) -> None:
    """Run MODEL on samples and write the ranges of its values.

    The ranges hold for the sizes that MODEL, --shape or the samples fix, and for its current
    weights: after training, calibrate again.
    """
    source = calibrated_model(model, bindings)
    arrays = samples_for(source, read_npz(samples), samples)
    if equalizes:
        first = next(batches_of(arrays, as_source(source)))
        source = equalized(source, shapes_of(first))
    ranges = run_calibration(source, arrays, bins=bins, backend=backend, threads=threads)
    ranges.save(output)
    counts = count_of(len(ranges.values), "value"), count_of(ranges.samples, "sample")
    click.echo(f"wrote {output}: {', '.join(counts)}", err=True)
