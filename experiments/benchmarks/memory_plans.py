"""How much memory do activations need, and could it be less?

For each network: what its activations would take if none shared memory, the lower bound for its
schedule (the most bytes live at one time), and the arena that the compiler plans. The twins of
``experiments.networks.twins`` have the nodes and shapes of the light models inside the ``onnx``
package, which are read here. The other three networks, made in code, are those of Pisarchyk & Lee,
*Efficient Memory Management for Deep Neural Net Inference* (arXiv 2001.03288), whose lower bounds
are printed beside ours, in MiB::

    python -m experiments.benchmarks.memory_plans --plot plans.png
    python -m experiments.benchmarks.memory_plans model.onnx
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import glow_nb
from experiments.networks.published import NETWORKS
from experiments.networks.twins import NAMES, load_light
from glow_nb.backends import backend_named
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.graph import Function
from glow_nb.llir.allocate import allocate
from glow_nb.llir.check_placement import check_placement
from glow_nb.network import compilation as compiler
from glow_nb.network.pictures.style import BLUE, INK, frame, own_style

MIB = 1 << 20
PUBLISHED_MIB = {"mobilenet_v1": 4.594, "mobilenet_v2": 5.742, "inception_v3": 7.914}
"""Lower bounds of Pisarchyk & Lee, to three decimals as printed there."""


@dataclass(frozen=True)
class Plan:
    """The memory of one network.

    Attributes:
        name: The network.
        buffers: Number of activations.
        unshared_bytes: Sum of their sizes.
        bound_bytes: The most bytes live at one time.
        arena_bytes: What the plan takes.
        seconds: How long planning took.
    """

    name: str
    buffers: int
    unshared_bytes: int
    bound_bytes: int
    arena_bytes: int
    seconds: float


def plan(name: str, function: Function) -> Plan:
    """Compile *function* for the CPU up to the memory plan, and prove that the plan is right."""
    cpu = backend_named("cpu")
    program = compiler.build_program(compiler.lower_for(function, cpu), cpu)
    started = time.perf_counter()
    arena = allocate(program).arena
    seconds = time.perf_counter() - started
    check_placement(program)
    assert arena is not None
    sizes = [activation.type.size_bytes for activation in program.activations]
    bound, size = arena.lower_bound_bytes, arena.size_bytes
    return Plan(name, len(sizes), sum(sizes), bound, size, seconds)


def make_plans(models: Sequence[Path]) -> Iterator[Plan]:
    """Yield the plans of *models*, or of the twins and the published networks if there are none."""
    for model in models:
        yield plan(model.stem, glow_nb.load(model))
    if models:
        return
    for name in NAMES:
        yield plan(name, import_onnx(load_light(name)))
    for network in NETWORKS:
        yield plan(network.__name__, network())


def print_plans(plans: Sequence[Plan]) -> None:
    """Print one line for each plan."""
    table = Table(title="Activations, MiB")
    table.add_column("network", no_wrap=True)
    titles = ("buffers", "unshared", "bound", "arena", "published", "planned in")
    for title in titles:
        table.add_column(title, justify="right")
    for p in plans:
        published = PUBLISHED_MIB.get(p.name)
        table.add_row(
            *(p.name, str(p.buffers), f"{p.unshared_bytes / MIB:.3f}"),
            *(f"{p.bound_bytes / MIB:.3f}", f"{p.arena_bytes / MIB:.3f}"),
            *(f"{published:.3f}" if published else "", f"{p.seconds * 1e3:.1f} ms"),
        )
    Console().print(table)


def draw_plans(plans: Sequence[Plan], path: Path) -> None:
    """Draw the three sizes of each plan as bars to the PNG file *path*."""
    with own_style():
        figure = Figure(figsize=(9, 0.5 * len(plans) + 2), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        places = range(len(plans))
        bars = {
            "all activations apart": ([p.unshared_bytes / MIB for p in plans], "#c9ccd1", 0.8),
            "arena": ([p.arena_bytes / MIB for p in plans], BLUE, 0.5),
        }
        for label, (sizes, colour, height) in bars.items():
            axes.barh(places, sizes, height, color=colour, label=label)
        bounds = [p.bound_bytes / MIB for p in plans]
        axes.plot(bounds, places, "|", color=INK, markersize=16, mew=2, label="lower bound")
        for place, p in enumerate(plans):
            text = f"  {p.unshared_bytes / p.arena_bytes:.1f}x smaller"
            axes.text(p.unshared_bytes / MIB, place, text, va="center", fontsize=8)
        axes.set_yticks(places, [p.name for p in plans])
        axes.invert_yaxis()
        axes.margins(x=0.13)
        axes.set_xlabel("MiB of activations")
        frame(axes)
        axes.grid(axis="x", color="white")
        axes.set_title("The arena that is planned for the activations of a network", loc="left")
        figure.legend(loc="outside lower left", ncols=3, frameon=False)
        figure.savefig(path, format="png", dpi=160)


def find_failures(plans: Sequence[Plan]) -> list[str]:
    """Return what is larger than it should be, as text."""
    found = [
        f"{p.name}: arena {p.arena_bytes} above its bound {p.bound_bytes}"
        for p in plans
        if p.arena_bytes > p.bound_bytes
    ]
    for p in plans:
        published = PUBLISHED_MIB.get(p.name)
        if published and round(p.arena_bytes / MIB, 3) > published:
            found.append(f"{p.name}: arena {p.arena_bytes / MIB:.3f} above {published} MiB")
    return found


def main() -> None:
    """Plan the networks that the command line asks for."""
    assert __doc__
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, help="ONNX files; default: see above")
    parser.add_argument("--plot", type=Path, help="PNG file to draw")
    options = parser.parse_args()
    plans = list(make_plans(options.models))
    print_plans(plans)
    if options.plot:
        draw_plans(plans, options.plot)
    failures = find_failures(plans)
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
