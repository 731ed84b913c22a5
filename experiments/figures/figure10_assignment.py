"""Four networks on five devices: which parts are where, and what did the devices do?

The paper's Figure 10 from what the provisioner and the executor did: the networks A and B are in
parts, and each part of B is on two devices::

    python -m experiments.figures.figure10_assignment --output docs

writes ``figure10.png``: for each device its memory with the parts that it holds, and what it ran
while all networks got requests.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from experiments.figures.served_networks import ACTIVATION, Block, draw_runs, plan
from glow_nb.network.pictures.style import INK, PALETTE, frame, ink_on, own_style
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.tracer import TracedRun, Tracer

MEBIBYTE = 1 << 20
DEVICES = {
    name: DeviceDescription(name, memory_bytes=20 * MEBIBYTE)
    for name in (f"device {number}" for number in range(1, 6))
}
NETWORKS = {
    "A": (
        Block("0", ("x",), 12, "device 1"),
        Block("1", ("0",), 16, "device 2"),
        Block("2", ("1",), 10, "device 3"),
    ),
    "B": (Block("0", ("x",), 14, "device 2"), Block("1", ("0",), 12, "device 1")),
    "C": (Block("0", ("x",), 18, "device 4"),),
    "D": (Block("0", ("x",), 15, "device 3"),),
}
DUPLICATES = {"B": 2}


@dataclass(frozen=True)
class Held:
    """A part on a device."""

    network: str
    part: str
    memory_bytes: int


def serve(requests: int) -> tuple[dict[str, list[Held]], list[TracedRun]]:
    """Load all networks and send *requests* to each; return what devices hold, and their runs."""
    plans = {name: plan(name, blocks, DEVICES) for name, blocks in NETWORKS.items()}
    memory = {part.name: part.memory_bytes for each in plans.values() for part in each.parts}
    held: dict[str, list[Held]] = {name: [] for name in DEVICES}
    tracer = Tracer()
    feed = {"x": np.ones(ACTIVATION.shape, np.float32)}
    with HostManager(list(DEVICES.values()), tracer=tracer) as host:
        for name, each in plans.items():
            host.add_network(name, each, duplicates=DUPLICATES.get(name, 1))
            for part, places in host.networks()[name].places.items():
                for device in places:
                    held[device].append(Held(name, part, memory[part]))
            host.run(name, feed)
        warm = len(tracer.runs)
        sent = [host.submit(name, feed) for _ in range(requests) for name in NETWORKS]
        for request in sent:
            request.result()
    return held, tracer.runs[warm:]


def draw_memory(
    axes: Axes, held: Mapping[str, Sequence[Held]], colour: Mapping[object, str]
) -> None:
    """Draw what each device holds beside the limit of its memory."""
    for row, (device, parts) in enumerate(held.items()):
        begin = 0.0
        for part in parts:
            size = part.memory_bytes / MEBIBYTE
            shade = colour[part.network]
            axes.barh(row, size, left=begin, height=0.7, color=shade, ec="white")
            axes.text(
                begin + size / 2, row, part.part, ha="center", va="center", color=ink_on(shade)
            )
            begin += size
        limit = DEVICES[device].memory_bytes / MEBIBYTE
        axes.plot([limit, limit], [row - 0.4, row + 0.4], color=INK, lw=2)
    axes.set_yticks(range(len(held)), list(held))
    axes.invert_yaxis()
    axes.set(xlabel="memory, MiB", title="parts on each device (network.part)")
    frame(axes)


def draw(held: Mapping[str, Sequence[Held]], runs: Sequence[TracedRun], path: Path) -> None:
    """Draw memory and runs of the devices to the PNG file *path*."""
    colour: dict[object, str] = dict(zip(NETWORKS, PALETTE, strict=False))
    with own_style():
        figure = Figure(figsize=(12, 4.1), layout="constrained")
        FigureCanvasAgg(figure)
        memory, bars = figure.subplots(1, 2, width_ratios=(1, 1.5))
        draw_memory(memory, held, colour)
        draw_runs(bars, runs, list(held), colour)
        bars.set_title("runs; the number of a bar is the part")
        named: list[Artist] = [Patch(color=colour[n], label=f"network {n}") for n in NETWORKS]
        named.append(Line2D([], [], color=INK, lw=2, label="limit of the device's memory"))
        figure.legend(handles=named, loc="outside lower center", ncols=len(named), frameon=False)
        figure.suptitle("Four networks on five devices, after Figure 10 of the Glow paper")
        figure.savefig(path, dpi=160)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve, draw, and print what each device holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out"))
    parser.add_argument("--requests", type=int, default=4)
    options = parser.parse_args(arguments)
    held, runs = serve(options.requests)
    options.output.mkdir(parents=True, exist_ok=True)
    draw(held, runs, options.output / "figure10.png")
    for device, parts in held.items():
        used = sum(part.memory_bytes for part in parts)
        print(f"{device}: {', '.join(part.part for part in parts)}; {used} bytes")


if __name__ == "__main__":
    main()
