"""``glow-nb profile``: where the time of a run goes, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from glow_nb.backends import Backend, BackendOptions, Cpu
from glow_nb.base.quantities import count_of, duration, scaled
from glow_nb.base.random_arrays import random_array
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.fed_networks import compile_with_inputs
from glow_nb.commands.json_text import json_text
from glow_nb.commands.machine import describe_limits
from glow_nb.commands.models import example_types
from glow_nb.commands.options import (
    ExampleCommand,
    backend_options,
    inputs_option,
    model_argument,
    seed_option,
    without_option,
)
from glow_nb.commands.outputs import OutputPath
from glow_nb.commands.pictures import require_drawing
from glow_nb.commands.size_ranges import size_options
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.network.network import Network
from glow_nb.network.profile import KernelTime, Profile, kernel_table
from glow_nb.system.replaced_files import replace_file

ORDERS: dict[str, Callable[[KernelTime], float]] = {
    "order": lambda _: 0.0,
    "time": lambda kernel: -kernel.median_seconds,
    "loss": lambda kernel: kernel.bound_seconds - kernel.min_seconds,
    "flops": lambda kernel: -kernel.cost.nominal.flops,
    "bytes": lambda kernel: -kernel.cost.bytes,
}
"""What ``--sort`` sorts by; a stable sort keeps the order of execution among equals."""

EXAMPLES = """\
glow-nb profile model.onnx --threads 1
glow-nb profile model.onnx --sort loss --top 10
glow-nb profile encoder.onnx --size length=1..512 --hint length=128
glow-nb profile model.onnx --trace trace.json --roofline roofline.png"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@model_argument
@inputs_option
@seed_option
@click.option(
    "--runs",
    type=click.IntRange(min=1, max=100_000),
    default=20,
    metavar="N",
    show_default=True,
    help="Runs with time stamps, after one that is not counted.",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(list(ORDERS)),
    default="order",
    show_default=True,
    help="Order of the kernels: as executed, or the largest first; loss is the time above the "
    "machine's limit.",
)
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help="Print only N kernels.  [default: all]"
)
@click.option(
    "--json",
    "json_file",
    type=OutputPath(allow_dash=True),
    metavar="FILE",
    help="Write everything as JSON to this file, or with - to standard output alone.",
)
@click.option(
    "--trace",
    type=OutputPath(),
    metavar="FILE",
    help="Write one run as a Chrome trace, for chrome://tracing or ui.perfetto.dev.",
)
@click.option(
    "--roofline",
    type=OutputPath(),
    metavar="FILE.png",
    help="Draw each kernel under the machine's limits (needs matplotlib).",
)
@backend_options
@without_option
@binding_options
@size_options
def profile(
    model: Path,
    inputs: tuple[str, ...],
    seed: int,
    runs: int,
    order: str,
    top: int | None,
    json_file: Path | None,
    trace: Path | None,
    roofline: Path | None,
    backend: Backend | BackendOptions,
    threads: int | None,
    without: tuple[str, ...],
    bindings: Bindings,
    sizes: dict[str, Any],
) -> None:
    """Show where the time of a run of MODEL goes.

    MODEL is an ONNX file or IR text. It runs with a time stamp before and after each kernel on each
    thread, in turn with ordinary runs. The time of a kernel is the time during which at least one
    thread executes it.

    The limit is the roofline: a kernel takes at least its arithmetic at the measured peak, or its
    bytes at the measured rate of the memory they lie in. GFLOP/s count the arithmetic of the
    operator. The algorithms of Winograd and Strassen need less, so their GFLOP/s may be above the
    peak. A kernel that exceeds a measured limit triggers one new measurement. A limit that is still
    exceeded is then raised to the observed rate; a peak of arithmetic is raised for all kernels.

    With --size or --hint, the program for all sizes is profiled, and random inputs have the sizes
    of the hints.
    """
    require_drawing("--roofline", roofline)
    network, feeds = compile_with_inputs(model, inputs, bindings, backend, threads, without, sizes)
    limits = backend.name == Cpu.name
    measured = measure(network, feeds, seed, runs, limits=limits)
    if trace is not None:
        measured.save_trace(trace)
        click.echo(f"wrote {trace}", err=True)
    if roofline is not None:
        _draw(measured, roofline, f"Roofline of {format_name(model.stem)}")
    if json_file is not None:
        text = json_text(measured.as_json())
        if str(json_file) == "-":
            click.echo(text)
            return
        replace_file(json_file, lambda place: place.write_text(text, encoding="utf-8"))
        click.echo(f"wrote {json_file}", err=True)
    print_profile(measured, order, top)


def measure(
    network: Network, feeds: Mapping[str, Array], seed: int, runs: int, *, limits: bool
) -> Profile:
    """Profile *network* on *feeds*, or on random inputs if there are none."""
    if not feeds:
        rng = np.random.default_rng(seed)
        feeds = {name: random_array(type, rng) for name, type in example_types(network).items()}
    return network.profile(feeds, runs=runs, limits=limits)


def print_profile(profile: Profile, order: str, top: int | None) -> None:
    """Print *profile*: a line a kernel, sorted by *order*, at most *top*; and totals."""
    console = make_console()
    kernels = sorted(profile.kernels, key=ORDERS[order])
    shown = kernels[:top]
    _print_kernels(console, shown)
    if len(shown) < len(kernels):
        share = sum(kernel.share for kernel in shown)
        click.echo(f"... {len(kernels) - len(shown)} more; those shown take {100 * share:.1f} %")
    click.echo()
    for line in totals(profile):
        click.echo(line)


def _print_kernels(console: Console, kernels: Sequence[KernelTime]) -> None:
    rows = kernel_table(kernels)
    table = make_table(console, "kernels", rows.columns)
    for row in rows.rows:
        table.add_row(*row)
    print_table(console, table)


def totals(profile: Profile) -> list[str]:
    """Return lines about whole runs: their times, what lies between kernels, and the limits."""
    summary = profile.as_json()
    cost = profile.cost
    whole = summary["run_median_seconds"]
    between = max(0.0, whole - profile.kernel_seconds)
    shortest = summary["run_min_seconds"] or 1.0
    lines = [
        f"run         min {duration(summary['run_min_seconds'])}, median {duration(whole)} over "
        f"{profile.runs} runs with time stamps, threads {profile.threads}",
        f"plain run   min {duration(summary['plain_run_min_seconds'])}, median "
        f"{duration(summary['plain_run_median_seconds'])}, without time stamps, the call included",
        f"kernels     {duration(profile.kernel_seconds)} of the median run; "
        f"{duration(between)} between them{', at barriers mostly' * (profile.threads > 1)}",
        f"arithmetic  {scaled(cost.nominal.flops, 'FLOP')}, {scaled(cost.executed.flops, 'FLOP')} "
        f"executed; {scaled(cost.nominal.flops / shortest, 'FLOP/s')} in the shortest run",
    ]
    if profile.limits:
        bound = sum(kernel.bound_seconds for kernel in profile.kernels)
        lines.append(
            f"limit       {duration(bound)} for all kernels at the machine's limits, "
            f"{min(100.0, 100 * bound / shortest):.0f} % of the shortest run"
        )
        raised = sum(kernel.is_raised for kernel in profile.kernels)
        if raised:
            lines.append(
                f"raised      {count_of(raised, 'limit')} to the observed rates: these kernels "
                "were faster than the measured limits, or their data were in a faster cache"
            )
        lines += [
            f"raised      the peak of {peak}, to the {scaled(rate, 'FLOP/s')} that a kernel reached"
            for peak, rate in raised_peaks(profile)
        ]
        lines += [f"machine     {line}" for line in describe_limits(profile.limits)]
    return lines


def raised_peaks(profile: Profile) -> list[tuple[str, float]]:
    """Return the peaks that a kernel raised, and their operations a second."""
    if profile.limits is None:
        return []
    rates = {"": ("float32", profile.limits.flop_rate)}
    rates |= {rate.dot: (rate.instruction, rate.operation_rate) for rate in profile.limits.dots}
    return [rates[name] for name in profile.raised]


def _draw(profile: Profile, picture: Path, title: str) -> None:
    from glow_nb.network.pictures.roofline import draw_roofline  # with matplotlib

    draw_roofline(profile, picture, title)
    click.echo(f"wrote {picture}", err=True)
