"""How near to their bounds are plans where memory is short, and how long does planning take?

Each network is cut for 2, 4 and 8 devices that are alike, with 30, 60 and 100 percent of the memory
that the whole of it needs on one. Shown are, for each network and objective, the plan that is
farthest above its lower bound, and the longest time that planning took of a processor, lowering
included; with ``--all``, every plan. Left out are devices so small that no plan fits: the fullest
one would need more than it has, by the lower bound of its memory::

    python -m experiments.partition_gaps FOLDER/*.onnx --objectives latency throughput
    python -m experiments.partition_gaps FOLDER/*.onnx --all --devices 3 --shares 0.5
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path

from experiments.pages import replace_part
from glow_nb import load
from glow_nb.errors import PartitionError
from glow_nb.hlir.graph import Function
from glow_nb.runtime import DeviceDescription, partition
from glow_nb.runtime.planning.timing import VALUES, Objective

COLUMNS = ("network", "objective", "plans", "farthest above the bound", "slowest planning s")
ALL_COLUMNS = ("network", "objective", "devices", "memory", "parts", "above the bound", "s")

ROOMY = 1 << 40
"""Bytes of a device that holds anything."""


@dataclass(frozen=True)
class Planned:
    """What came of a network on some devices.

    Attributes:
        network: Its name.
        objective: What the plan is made for.
        devices: How many there are.
        share: The memory of each, over what the whole network needs on one.
        seconds: What planning took of a processor.
        parts: How many parts the plan has; None if there is no plan.
        gap: How far above its lower bound the plan is.
    """

    network: str
    objective: Objective
    devices: int
    share: float
    seconds: float
    parts: int | None = None
    gap: float = 0.0

    @property
    def memory(self) -> str:
        """The memory of the devices, as it is shown."""
        return f"{self.devices} x {100 * self.share:.0f} %"


def planned(
    name: str, function: Function, objective: Objective, devices: int, share: float, room: int
) -> Planned:
    """Return what comes of *function* on so many *devices*, each with the *share* of *room*."""
    made = alike(devices, int(share * room))
    began = time.process_time()
    try:
        plan = partition(function, made, objective=objective)
    except PartitionError:
        return Planned(name, objective, devices, share, time.process_time() - began)
    seconds = time.process_time() - began
    return Planned(name, objective, devices, share, seconds, len(plan.parts), plan.gap)


def sweep(
    name: str,
    function: Function,
    objectives: Sequence[Objective],
    devices: Sequence[int],
    shares: Sequence[float],
) -> Iterator[Planned]:
    """Yield what comes of *function*, for one objective after the other.

    Devices that have less than the lower bound of the fullest one are left out.
    """
    room = sum(part.memory_bytes for part in partition(function, alike(1, ROOMY)).parts)
    least = {
        count: partition(function, alike(count, ROOMY), objective="memory").lower_bound
        for count in devices
    }
    for objective, count, share in product(objectives, devices, shares):
        if share * room >= least[count]:
            yield planned(name, function, objective, count, share, room)


def alike(count: int, memory_bytes: int) -> list[DeviceDescription]:
    """Return *count* devices that are alike, as descriptions are by default."""
    return [DeviceDescription(f"d{n}", memory_bytes=memory_bytes) for n in range(count)]


def lines(found: Sequence[Planned]) -> Iterator[str]:
    """Yield a row of the table for each network and objective."""
    for (network, objective), group in groupby(found, lambda one: (one.network, one.objective)):
        tried = list(group)
        plans = [one for one in tried if one.parts]
        worst = max(plans, key=lambda one: one.gap, default=None)
        slowest = max(tried, key=lambda one: one.seconds)
        gap = f"{100 * worst.gap:.1f} % ({worst.memory})" if worst else ""
        time = f"{slowest.seconds:.1f} ({slowest.memory})"
        yield _row(network, objective, f"{len(plans)} of {len(tried)}", gap, time)


def line(one: Planned) -> str:
    """Return *one* as a row of the table of all."""
    gap = f"{100 * one.gap:.1f} %" if one.parts else "none"
    memory = f"{100 * one.share:.0f} %"
    parts = str(one.parts or "")
    cells = (one.network, one.objective, str(one.devices), memory, parts, gap)
    return _row(*cells, f"{one.seconds:.1f}")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each network and objective, or for each plan."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument(
        "--objectives", nargs="+", choices=VALUES, default=["latency", "throughput"]
    )
    parser.add_argument("--devices", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.3, 0.6, 1.0])
    parser.add_argument("--all", action="store_true", help="show every plan")
    parser.add_argument("--page", type=Path, help="the page whose table is written anew")
    options = parser.parse_args(arguments)
    columns = ALL_COLUMNS if options.all else COLUMNS
    table = [_row(*columns), f"|---|---{'|---:' * (len(columns) - 2)}|"]
    print("\n".join(table))
    for path in options.models:
        function = load(path)
        if not isinstance(function, Function):
            raise SystemExit(f"{path}: it has several functions; give a model with one")
        found = []
        for one in sweep(path.stem, function, options.objectives, options.devices, options.shares):
            found.append(one)
            if options.all:
                print(line(one), flush=True)
        if not options.all:
            table += lines(found)
            print("\n".join(table[-len(options.objectives) :]), flush=True)
    if options.page:
        replace_part(options.page, "partitions", "\n".join(table))


if __name__ == "__main__":
    main()
