"""Which part ran when, and where? The paper's Figure 9 from what the executor did.

A network in five parts, of which two can run side by side, gets some requests at once; three
devices of one core share its parts::

    python -m experiments.figures.figure9_schedule --output docs

writes ``figure9.png``, the graph of the parts beside the schedule, and ``figure9.json``, the same
as a trace for chrome://tracing. Bars of one colour are one request: parts of one request run side
by side, and requests overlap.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.figures.served_networks import ACTIVATION, Block, draw_runs, plan
from glow_nb.network.pictures.style import FAINT, INK, PALETTE, own_style
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.tracer import TracedRun, Tracer

BLOCKS = (
    Block("A", ("x",), 12, "device 1"),
    Block("B", ("A",), 20, "device 2"),
    Block("C", ("A",), 16, "device 3"),
    Block("D", ("B", "C"), 8, "device 1"),
    Block("E", ("D",), 6, "device 2"),
)
PLACES = {"A": (0, 1), "B": (1, 0), "C": (1, 2), "D": (2, 1), "E": (3, 1)}


def schedule(requests: int) -> tuple[Tracer, list[TracedRun]]:
    """Run *requests* at once; return the trace, and the runs after those that warm up."""
    devices = {f"device {n}": DeviceDescription(f"device {n}") for n in (1, 2, 3)}
    tracer = Tracer()
    feed = {"x": np.ones(ACTIVATION.shape, np.float32)}
    with HostManager(list(devices.values()), tracer=tracer) as host:
        host.add_network("net", plan("net", BLOCKS, devices))
        for _ in range(3):
            host.run("net", feed)
        warm = len(tracer.runs)
        for request in [host.submit("net", feed) for _ in range(requests)]:
            request.result()
    return tracer, tracer.runs[warm:]


def draw_parts(axes: Axes) -> None:
    """Draw the graph of the parts, with the device of each."""
    for block in BLOCKS:
        column, row = PLACES[block.name]
        for read in block.reads:
            left, height = PLACES.get(read, (column - 1.05, row))
            arrow = {"arrowstyle": "->", "color": FAINT}
            axes.annotate("", (column - 0.38, row), (left + 0.38, height), arrowprops=arrow)
        axes.text(
            column, row, f"{block.name}\n{block.device}", ha="center", va="center", fontsize=8,
            bbox={"boxstyle": "round,pad=0.5", "fc": "white", "ec": INK},
        )  # fmt: skip
    axes.set(xlim=(-0.9, 3.5), ylim=(2.7, -0.7), title="parts, and where they run")
    axes.axis("off")


def draw(runs: Sequence[TracedRun], path: Path) -> None:
    """Draw the parts beside their schedule to the PNG file *path*."""
    numbers = sorted({run.execution for run in runs})
    colour: dict[object, str] = {
        number: PALETTE[place % len(PALETTE)] for place, number in enumerate(numbers)
    }
    with own_style():
        figure = Figure(figsize=(11, 3.9), layout="constrained")
        FigureCanvasAgg(figure)
        parts, bars = figure.subplots(1, 2, width_ratios=(1, 1.6))
        draw_parts(parts)
        draw_runs(bars, runs, sorted({run.device for run in runs}), colour)
        bars.set_title("schedule; the letter of a bar is the part")
        named = [Patch(color=colour[n], label=f"request {i}") for i, n in enumerate(numbers, 1)]
        figure.legend(handles=named, loc="outside lower right", ncols=len(named), frameon=False)
        figure.suptitle("A network in parts and its schedule, after Figure 9 of the Glow paper")
        figure.savefig(path, dpi=160)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, draw, and say how much overlapped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out"))
    parser.add_argument("--requests", type=int, default=5)
    options = parser.parse_args(arguments)
    tracer, runs = schedule(options.requests)
    options.output.mkdir(parents=True, exist_ok=True)
    draw(runs, options.output / "figure9.png")
    tracer.save(options.output / "figure9.json")
    busy = sum(run.ended - run.began for run in runs)
    wall = max(run.ended for run in runs) - min(run.began for run in runs)
    print(
        f"{options.requests} requests, {len(runs)} runs: devices at work {busy / wall:.2f} at once"
    )


if __name__ == "__main__":
    main()
