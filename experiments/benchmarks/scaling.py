"""How does the time to compile grow with the size of a graph?

Graphs of one shape each (``experiments.networks.scaling_graphs``) are compiled in growing sizes.
The time of each step is shown with its exponent of growth: 1 if twice the size takes twice the
time, 2 if it takes four times as long. The exponent is that between the two largest sizes. The
first compile of each size counts, with a kernel cache of its own that is empty::

    python -m experiments.benchmarks.scaling
    python -m experiments.benchmarks.scaling --only concat chain --sizes 500 1000 --as model

Times are those of the processor, so that other work on the machine matters less; those of worker
processes that compile kernels are left out, but there are no more kernels in a larger graph.
``wall`` is the time that passed, with them.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import glow_nb
from experiments.networks.scaling_graphs import SHAPES, Shape, draw_function, draw_model
from glow_nb.base.errors import GlowWarning
from glow_nb.base.passes import PassRun
from glow_nb.hlir.graph import Function
from glow_nb.network.pictures.style import PALETTE, frame, own_style, plain_numbers
from glow_nb.system.cache_folder import CACHE_VARIABLE

SIZES = (500, 1000, 2000, 5000, 10_000)
LINES: tuple[dict[str, Any], ...] = (
    {"linestyle": "-", "marker": "o"},
    {"linestyle": "--", "marker": "s"},
    {"linestyle": ":", "marker": "^"},
)
"""How lines differ whose colours are the same."""

DRAWN: dict[str, Callable[[Shape, int], onnx.ModelProto | Function]]
DRAWN = {"model": draw_model, "function": draw_function}


@dataclass
class Times:
    """How long a graph took, step by step.

    Attributes:
        size: Of the graph.
        steps: Seconds of the processor by step.
        wall: Seconds that passed.
    """

    size: int
    steps: dict[str, float] = field(default_factory=dict)
    wall: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of all steps."""
        return sum(self.steps.values())

    def note(self, step: str, seconds: float) -> None:
        """Add the time of *step*."""
        self.steps[step] = self.steps.get(step, 0.0) + seconds


def measure(shape: Shape, size: int, drawn: str) -> Times:
    """Compile a new graph, run it once, and return how long each step took.

    ``code`` is all that comes after the arena is planned: its proof, kernels, entry and loading.
    """
    times = Times(size)
    graph = DRAWN[drawn](shape, size)
    last = time.process_time()

    def lap(step: str) -> None:
        nonlocal last
        now = time.process_time()
        times.note(step, now - last)
        last = now

    def observer(run: PassRun, /) -> None:
        lap(run.name)

    began = time.perf_counter()
    function = glow_nb.load(graph)
    lap("import")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GlowWarning)  # rounds of passes that hit their limit
        network = glow_nb.compile(function, observer=observer)
    lap("code")
    times.wall = time.perf_counter() - began
    assert isinstance(function, Function)
    feeds = {x.name: np.zeros(x.type.shape, np.float32) for x in function.inputs}
    last = time.process_time()
    network.run(feeds)
    lap("run")
    return times


def exponent(times: Sequence[Times], step: str | None = None) -> float:
    """Return the exponent of growth of *step*, of all if None, between the two largest sizes."""
    if len(times) < 2:
        return math.nan
    smaller, larger = times[-2:]
    before = smaller.total if step is None else smaller.steps.get(step, 0.0)
    after = larger.total if step is None else larger.steps.get(step, 0.0)
    if min(before, after) <= 0:
        return math.nan
    return math.log(after / before) / math.log(larger.size / smaller.size)


def table_of(name: str, times: Sequence[Times], most: int) -> Table:
    """Return the times of one shape of graph, its *most* expensive steps first."""
    table = Table(title=f"{name}: seconds", title_justify="left")
    table.add_column("step")
    for entry in times:
        table.add_column(f"{entry.size:,}", justify="right")
    table.add_column("exponent", justify="right")
    steps = sorted(times[-1].steps, key=times[-1].steps.__getitem__, reverse=True)[:most]
    for step in steps:
        cells = [f"{entry.steps.get(step, 0.0):.3f}" for entry in times]
        table.add_row(step, *cells, f"{exponent(times, step):.2f}")
    totals = [f"{entry.total:.3f}" for entry in times]
    table.add_row("all", *totals, f"{exponent(times):.2f}", style="bold")
    table.add_row("wall", *(f"{entry.wall:.3f}" for entry in times), "")
    return table


def draw(found: dict[str, list[Times]], path: Path) -> None:
    """Draw the time against the size of every shape of graph, both by powers of ten."""
    with own_style():
        figure = Figure(figsize=(10, 5.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for place, (name, times) in enumerate(found.items()):
            turn, colour = divmod(place, len(PALETTE))
            look = {"color": PALETTE[colour], "label": name.replace("_", " "), **LINES[turn]}
            axes.loglog([t.size for t in times], [t.total for t in times], **look)
        sizes = sorted({t.size for times in found.values() for t in times})
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xticks([], minor=True)
        plain_numbers(axes.yaxis)
        axes.set_xlabel("size of the graph")
        axes.set_ylabel("processor time to compile, seconds")
        axes.set_title("Time of the first compilation by size and shape of the graph", loc="left")
        frame(axes)
        axes.grid(color="white")
        figure.legend(loc="outside right upper", frameon=False, title="shape of the graph")
        figure.savefig(path, dpi=160)


def measure_shapes(
    shapes: Iterable[Shape], sizes: Sequence[int], drawn: str
) -> dict[str, list[Times]]:
    """Return the times of each shape in growing sizes; print each table when it is there."""
    console = Console()
    found: dict[str, list[Times]] = {}
    for shape in shapes:
        times = found[shape.__name__] = []
        for size in sorted(sizes):
            with tempfile.TemporaryDirectory() as folder:
                os.environ[CACHE_VARIABLE] = folder
                times.append(measure(shape, size, drawn))
        console.print(table_of(shape.__name__, times, 8))
    return found


def main() -> None:
    """Measure, print the tables, and draw the picture."""
    names = {shape.__name__: shape for shape in SHAPES}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=names, default=list(names))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--as", dest="drawn", choices=DRAWN, default="model", help="what is given")
    parser.add_argument("--plot", type=Path, help="a picture of the times against the sizes")
    arguments = parser.parse_args()
    chosen = [names[name] for name in arguments.only]
    measure(chosen[0], 10, arguments.drawn)  # what is imported at the first compile does not count
    found = measure_shapes(chosen, arguments.sizes, arguments.drawn)
    if arguments.plot:
        draw(found, arguments.plot)


if __name__ == "__main__":
    main()
