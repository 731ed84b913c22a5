"""What would a network do on ten, a hundred, a thousand devices?

On paper: plans are made by the cost model, and requests go through them in virtual time, so that
one core is enough. A network is cut for throughput over so many devices as answer most requests a
second in all, and each group of so many is a duplicate of it. Shown are requests a second, beside
what all devices could do if their work were even, the median and 99th percentile of the latency at
80 percent of that pace, beside that of a request alone, and how long planning took. Of several
networks, each has devices by its share of the arithmetic. The clusters
are devices that are alike, half of them at a third of the speed, slow links, one in twenty devices
that takes twice as long, and devices that fail::

    python -m experiments.cluster --devices 8 64 1000
    python -m experiments.cluster --only decoder --failures-per-hour 10
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.twins import load_light
from glow_nb import load
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.errors import PartitionError
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.cost import total_cost
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, Gelu, LayerNormalization, MatMul
from glow_nb.runtime import DeviceDescription, Link, Partitioning, partition
from glow_nb.runtime.planning.simulate import Load, Outage, simulate
from glow_nb.runtime.planning.timing import latency, period

GROUPS = (1, 2, 4, 8, 16, 32, 64)
"""Sizes of a group of devices that answer requests together."""

REQUESTS = 2_000
LOADED = 0.8
"""The part of the pace at which latencies are looked at."""

FAST = DeviceDescription("fast", multiply_adds_per_second=1e12, memory_bytes_per_second=200e9)
LINK, SLOW_LINK = Link(10e9, 10e-6), Link(0.1e9, 200e-6)


def decoder(layers: int = 48, width: int = 256, tokens: int = 64) -> Function:
    """Return a stack of layers of a decoder's shape, without its attention's softmax."""
    b = Builder("decoder")
    random = np.random.default_rng(0)
    x: Value = b.input("x", f"float32<{tokens} x {width}>")
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    for index in range(layers):
        scale, shift = b.constant(f"scale{index}", ones), b.constant(f"shift{index}", zeros)
        y: Value = b.emit(LayerNormalization(x, scale, shift, axis=1, epsilon=1e-5))
        for name, columns in (("in", 3), ("out", 1), ("up", 4), ("down", 1)):
            weights = random.standard_normal((y.type.shape[1], columns * width), np.float32)
            y = b.emit(MatMul(y, b.constant(f"{name}{index}", weights)), name=f"{name}_{index}")
            if name == "up":
                y = b.emit(Gelu(y, approximate="tanh"))
        x = b.emit(Add(x, y))
    b.save(x, "y")
    return b.function()


def light(name: str) -> Function:
    """Return the light model *name* of the ``onnx`` package."""
    function = load(load_light(name))
    assert isinstance(function, Function)
    return function


def eight() -> list[Function]:
    """Return eight networks that share a cluster."""
    small = ("resnet50", "densenet121", "inception_v1", "inception_v2", "shufflenet", "squeezenet")
    return [*map(light, small), decoder(12), decoder(24)]


NETWORKS: Mapping[str, Callable[[], Sequence[Function]]] = {
    "resnet50": lambda: [light("resnet50")],
    "decoder": lambda: [decoder()],
    "eight": eight,
}


@dataclass(frozen=True)
class Cluster:
    """Devices, and what is wrong with them.

    Attributes:
        name: What is shown of it.
        devices: Makes so many of them.
        slowdown: Of some devices, by their number.
        fails: Whether devices fail.
    """

    name: str
    devices: Callable[[int], list[DeviceDescription]]
    slowdown: Callable[[int], float] = lambda _: 1.0
    fails: bool = False


def alike(count: int, link: Link = LINK) -> list[DeviceDescription]:
    """Return *count* devices of 64 MiB."""
    made = dataclasses.replace(FAST, memory_bytes=64 << 20, link=link)
    return [dataclasses.replace(made, name=f"d{index}") for index in range(count)]


def two_kinds(count: int) -> list[DeviceDescription]:
    """Return devices half of which have a third of the speed."""
    rates = (FAST.multiply_adds_per_second, FAST.multiply_adds_per_second / 3)
    return [
        dataclasses.replace(device, multiply_adds_per_second=rates[index % 2])
        for index, device in enumerate(alike(count))
    ]


CLUSTERS = (
    Cluster("alike", alike),
    Cluster("two kinds", two_kinds),
    Cluster("slow links", lambda count: alike(count, SLOW_LINK)),
    Cluster("stragglers", alike, slowdown=lambda number: 1.0 if number % 20 else 2.0),
    Cluster("failures", alike, fails=True),
)


@dataclass(frozen=True)
class Row:
    """What came of a network, or of several, on a cluster.

    Attributes:
        cluster: Its name.
        devices: How many there are.
        group: Devices of one duplicate, of each network.
        planning_seconds: How long lowering and planning took.
        throughput: Requests a second.
        bound: What no plan can exceed, all devices evenly at work.
        alone: Seconds of a request alone, the longest of all networks.
        median: The median of the latencies under load, in seconds.
        late: Their 99th percentile.
        repeated: Runs that were done again.
    """

    cluster: str
    devices: int
    group: str
    planning_seconds: float
    throughput: float
    bound: float
    alone: float
    median: float
    late: float
    repeated: int


def plan_groups(
    function: Function, devices: Sequence[DeviceDescription]
) -> tuple[list[Partitioning], int]:
    """Return the duplicates that answer most requests, and the devices of each.

    Groups whose devices are alike, place by place, have the same plan.
    """
    best: tuple[float, list[Partitioning], int] = (0.0, [], 0)
    for size in (size for size in GROUPS if size <= len(devices)):
        plans: dict[tuple[float, ...], Partitioning | None] = {}
        copies: list[Partitioning] = []
        for first in range(0, len(devices) - size + 1, size):
            group = devices[first : first + size]
            speeds = tuple(device.multiply_adds_per_second for device in group)
            if speeds not in plans:
                plans[speeds] = _planned(function, group)
            plan = plans[speeds]
            copies += [moved(plan, group)] if plan else []
        pace = sum(1 / period(copy) for copy in copies)
        if pace > best[0]:
            best = (pace, copies, size)
    return best[1], best[2]


def _planned(function: Function, devices: Sequence[DeviceDescription]) -> Partitioning | None:
    try:
        return partition(function, devices, objective="throughput")
    except PartitionError:
        return None  # a larger group may hold it


def moved(plan: Partitioning, devices: Sequence[DeviceDescription]) -> Partitioning:
    """Return *plan* on *devices*, which are like its own, place by place."""
    numbers = {name: number for number, name in enumerate(sorted(plan.devices, key=_number))}
    parts = [dataclasses.replace(p, device=devices[numbers[p.device]].name) for p in plan.parts]
    named = {device.name: device for device in devices}
    return dataclasses.replace(plan, parts=tuple(parts), devices=named)


def _number(name: str) -> int:
    return int(name.removeprefix("d"))


def row(
    cluster: Cluster, functions: Sequence[Function], count: int, failures_per_hour: float
) -> Row | None:
    """Return what comes of *functions* on *count* devices; None if one finds no room."""
    devices, began = cluster.devices(count), time.perf_counter()
    shares = _shares(functions, devices)
    planned = [plan_groups(*pair) for pair in zip(functions, shares, strict=True)]
    planning = time.perf_counter() - began
    if not all(copies for copies, _ in planned):
        return None
    used = {name for copies, _ in planned for copy in copies for name in copy.devices}
    slowdown = {d.name: cluster.slowdown(n) for n, d in enumerate(devices) if d.name in used}
    paces = [sum(1 / period(copy) for copy in copies) for copies, _ in planned]
    requests = [max(1, int(REQUESTS * pace / sum(paces))) for pace in paces]
    full = [
        Load(tuple(copies), (0.0,) * n) for (copies, _), n in zip(planned, requests, strict=True)
    ]
    spaced = [
        Load(tuple(copies), tuple(k / (LOADED * pace) for k in range(n)))
        for (copies, _), n, pace in zip(planned, requests, paces, strict=True)
    ]
    outages = list(
        _outages(sorted(used), max(load.arrivals[-1] for load in spaced), failures_per_hour)
    )
    outages = outages if cluster.fails else []
    saturated = simulate(full, slowdown=slowdown, outages=outages)
    loaded = simulate(spaced, slowdown=slowdown, outages=outages)
    latencies = [each for of_load in loaded.latencies for each in of_load]
    return Row(
        cluster=cluster.name,
        devices=count,
        group="+".join(str(size) for _, size in planned),
        planning_seconds=planning,
        throughput=saturated.throughput,
        bound=sum(map(_most_a_second, functions, shares)),
        alone=max(latency(copies[0]) for copies, _ in planned),
        median=float(np.median(latencies)),
        late=float(np.percentile(latencies, 99)),
        repeated=saturated.repeated + loaded.repeated,
    )


def _shares(
    functions: Sequence[Function], devices: Sequence[DeviceDescription]
) -> list[Sequence[DeviceDescription]]:
    """Return devices for each function, by its arithmetic; each gets one at least."""
    work = np.array([total_cost(function).flops for function in functions], float)
    ends = np.cumsum(1 + np.floor(work / work.sum() * (len(devices) - len(functions)))).astype(int)
    return [devices[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _most_a_second(function: Function, devices: Sequence[DeviceDescription]) -> float:
    """Return the requests a second of *devices* that hold everything and never wait."""
    roomy = [dataclasses.replace(device, memory_bytes=1 << 40) for device in devices]
    alone = {device.multiply_adds_per_second: device for device in roomy}
    pace = {
        speed: 1 / sum(part.seconds for part in partition(function, [device]).parts)
        for speed, device in alone.items()
    }
    return sum(pace[device.multiply_adds_per_second] for device in roomy)


def _outages(devices: Sequence[str], seconds: float, per_hour: float) -> Iterator[Outage]:
    """Yield outages of a hundredth of the time, which come by chance at a rate for each device."""
    random = np.random.default_rng(0)
    for device in devices:
        if random.random() < per_hour * seconds / 3600:
            yield Outage(device, random.random() * seconds, seconds / 100)


def table(console: Console, title: str, rows: Sequence[Row]) -> Table:
    """Return *rows* for people."""
    names = ("cluster", "#devices", "#group", "#planning s", "#requests/s", "#of the bound")
    made = make_table(console, title, [*names, "#alone ms", "#median ms", "#p99 ms", "#repeated"])
    for each in rows:
        made.add_row(
            each.cluster,
            str(each.devices),
            each.group,
            f"{each.planning_seconds:.2f}",
            f"{each.throughput:.0f}",
            f"{100 * each.throughput / each.bound:.1f} %",
            *(f"{1e3 * time:.3f}" for time in (each.alone, each.median, each.late)),
            str(each.repeated),
        )
    return made


def main() -> None:
    """Print a table for each network that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", nargs="+", type=int, default=[8, 64, 1000])
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--failures-per-hour", type=float, default=3600.0)
    arguments = parser.parse_args()
    console = make_console()
    for name in arguments.only:
        functions = NETWORKS[name]()
        rows = [
            row(cluster, functions, count, arguments.failures_per_hour)
            for cluster in CLUSTERS
            for count in arguments.devices
            if count >= len(functions)
        ]
        print_table(console, table(console, name, [each for each in rows if each is not None]))


if __name__ == "__main__":
    main()
