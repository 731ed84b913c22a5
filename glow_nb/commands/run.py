"""``glow-nb run``: run a model once or many times and describe its outputs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from glow_nb.backends import Backend, BackendOptions
from glow_nb.base.quantities import count_of
from glow_nb.base.random_arrays import random_array
from glow_nb.base.text import format_name
from glow_nb.base.types import Array, TensorType
from glow_nb.commands.arrays import member_names, save_npz
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.fed_networks import compile_with_inputs
from glow_nb.commands.models import (
    example_types,
    program_of,
)
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
    model_argument,
    seed_option,
    without_option,
)
from glow_nb.commands.outputs import OutputPath
from glow_nb.commands.size_ranges import are_given, size_options
from glow_nb.network.network import Network

FEWEST_CLASSES = 10
"""A row of at least this number of floats is taken for the scores of classes."""

MOST_ROWS = 4
"""The largest number of rows of a batch for which the best classes are shown."""


EXAMPLES = """\
glow-nb run model.onnx
glow-nb run model.onnx --input data=images.npy --save out.npz
glow-nb run model.onnx --shape batch=8 --threads 1 --repeat 20
glow-nb run encoder.onnx --size length=1..512 --input tokens=tokens.npy"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE.npy",
    help="Array for one input; with one input the name may be left out. Repeat it for each.",
)
@seed_option
@click.option(
    "--save",
    type=OutputPath(),
    metavar="FILE.npz",
    help="Write all outputs to this archive, each under its name.",
)
@click.option(
    "--save-all",
    type=OutputPath(),
    metavar="FILE.npz",
    help="Write all values that nodes of the model compute to this archive, in a separate run.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Run N times; the outputs are those of the first run, times are of all runs.",
)
@backend_options
@without_option
@binding_options
@size_options
def run(
    model: Path,
    inputs: tuple[str, ...],
    seed: int,
    save: Path | None,
    save_all: Path | None,
    repeat: int,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
    sizes: dict[str, Any],
) -> None:
    """Run MODEL and describe its outputs.

    MODEL is an ONNX file or IR text. Without --input, the inputs are seeded random numbers: normal
    floats, bytes of their full range, other integers and booleans 0 or 1. With --size or --hint,
    one program is compiled for all sizes, and random inputs have the sizes of the hints.
    """
    _check_save_path("--save", save)
    _check_save_path("--save-all", save_all)
    started = time.perf_counter()
    network, feeds = compile_with_inputs(model, inputs, bindings, backend, threads, without, sizes)
    compiled_seconds = time.perf_counter() - started
    origin = "from file" if feeds else f"random with seed {seed}"
    rng = np.random.default_rng(seed)
    types = example_types(network)
    feeds = feeds or {name: random_array(type, rng) for name, type in types.items()}
    used = count_of(network.threads, "thread")
    click.echo(f"model {model}: {backend.name}, {used}, ready in {compiled_seconds:.2f} s")
    debug_folder = program_of(network).debug_folder
    if debug_folder is not None:
        click.echo(f"debug folder {debug_folder}")
    for name, type in types.items():
        shown = type.with_shape(feeds[name].shape) if are_given(sizes) else type
        click.echo(f"input {format_name(name)}: {shown}, {origin}")
    outputs, seconds = _run_repeatedly(network, feeds, repeat)
    for line in _describe_outputs(network, outputs):
        click.echo(line)
    click.echo(_describe_times(seconds))
    if save is not None:
        save_npz(save, outputs)
        click.echo(f"saved {save}{_renamed(outputs)}")
    if save_all is not None:
        values = network.run(feeds, watch=network.value_names)
        save_npz(save_all, values)
        click.echo(f"saved {count_of(len(values), 'value')} to {save_all}{_renamed(values)}")


def _check_save_path(option: str, save: Path | None) -> None:
    if save is not None and save.suffix != ".npz":
        raise click.BadParameter(f"{save} is not named FILE.npz", param_hint=f"'{option}'")


def _run_repeatedly(
    network: Network, feeds: dict[str, Array], repeat: int
) -> tuple[dict[str, Array], list[float]]:
    """Return the outputs of the first run, and the seconds of each."""
    outputs: dict[str, Array] = {}
    seconds: list[float] = []
    for index in range(repeat):
        started = time.perf_counter()
        result = network.run(feeds)
        seconds.append(time.perf_counter() - started)
        outputs = result if index == 0 else outputs
    return outputs, seconds


def _describe_outputs(network: Network, outputs: dict[str, Array]) -> Iterator[str]:
    for name in network.outputs:
        type = TensorType.of(outputs[name])  # whose sizes a run may decide
        yield f"output {format_name(name)}: {type}, {describe_array(outputs[name])}"
        yield from best_classes(type, outputs[name])


def describe_array(array: Array) -> str:
    """Return the extremes and the mean of *array*, those of its finite elements."""
    if not array.size:
        return "empty"
    if array.dtype == bool:
        return f"{np.count_nonzero(array)} true of {array.size}"
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    odd = "" if finite.size == wide.size else f", not finite {wide.size - finite.size}"
    if not finite.size:
        return f"not finite {wide.size}"
    if array.dtype.kind in "iu":
        return f"min {array.min()}, max {array.max()}, mean {finite.mean():.6g}"
    return f"min {finite.min():.6g}, max {finite.max():.6g}, mean {finite.mean():.6g}{odd}"


def best_classes(type: TensorType, array: Array) -> Iterator[str]:
    """Yield a line with the five best classes of each row, if *array* looks like scores of classes.

    It does if it is of floats and ``[rows, classes]``, or that with trailing dimensions of 1.
    """
    shape = type.shape
    looks_like_scores = (
        type.kind.is_float
        and len(shape) >= 2
        and shape[1] >= FEWEST_CLASSES
        and all(size == 1 for size in shape[2:])
    )
    if not looks_like_scores:
        return
    rows = array.reshape(shape[:2]).astype(np.float64)
    for index, row in enumerate(rows[:MOST_ROWS]):
        best = np.argsort(-row, kind="stable")[:5]
        scores = ", ".join(f"{place} ({row[place]:.6g})" for place in best)
        yield f"  best of row {index}: {scores}"
    if len(rows) > MOST_ROWS:
        yield f"  and {len(rows) - MOST_ROWS} more rows"


def _describe_times(seconds: list[float]) -> str:
    milliseconds = sorted(1e3 * second for second in seconds)
    if len(milliseconds) == 1:
        return f"time {milliseconds[0]:.3f} ms, the first run"
    median = statistics.median(milliseconds)
    return f"time {milliseconds[0]:.3f} ms at best, {median:.3f} ms median of {len(seconds)} runs"


def _renamed(outputs: dict[str, Array]) -> str:
    renamed = [f"{format_name(n)} as {m}" for n, m in member_names(outputs).items() if n != m]
    return f" ({', '.join(renamed)})" if renamed else ""
