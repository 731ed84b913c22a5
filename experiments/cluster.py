"""What would a network do on ten, a hundred, a thousand devices?

On paper: plans are made by the cost model, and requests go through them in virtual time, so that
one core is enough. A network is cut for throughput over so many devices as answer most requests a
second in all, and each group of so many is a duplicate of it. Shown are requests a second, beside
what all devices could do if their work were even, the latency of a request alone, beside what no
plan over such a group can be below, the median and 99th percentile of the latency at 80 percent of
the pace, and how long planning took. Of several networks, each has devices by its share of the
arithmetic, and the latency alone is that of the slowest. The clusters are devices that are alike,
half of them at a third of the speed, slow links, one in twenty devices that takes twice as long,
and devices that fail::

    python -m experiments.cluster --devices 8 64 1000
    python -m experiments.cluster --only decoder --failures-per-hour 10
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from experiments.pages import replace_part
from experiments.twins import load_light
from glow_nb import load
from glow_nb.errors import PartitionError
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.cost import total_cost
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, Gelu, LayerNormalization, MatMul
from glow_nb.runtime import DeviceDescription, Link, Partitioning, partition
from glow_nb.runtime.planning.simulate import Load, Outage, Simulation, simulate
from glow_nb.runtime.planning.timing import latency, period

GROUPS = (1, 2, 4, 8, 16, 32, 64)
"""Sizes of a group of devices that answer requests together."""

REQUESTS, REQUESTS_EACH = 2_000, 50
"""How many come at least, and how many for each duplicate."""

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
        planning_seconds: What lowering and planning took of a processor, for all sizes of groups.
        throughput: Requests a second.
        bound: What no plan can exceed, all devices evenly at work.
        alone: Seconds of a request alone, the longest of all networks.
        least: Lower bound of that latency, on as many devices that hold everything.
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
    least: float
    median: float
    late: float
    repeated: int


Planned = tuple[list[Partitioning], int]
"""The duplicates of a network, and the devices of each."""


def plan_groups(function: Function, devices: Sequence[DeviceDescription]) -> Planned:
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
    devices, began = cluster.devices(count), time.process_time()
    shares = _shares(functions, devices)
    planned = [plan_groups(*pair) for pair in zip(functions, shares, strict=True)]
    planning = time.process_time() - began
    if not all(copies for copies, _ in planned):
        return None
    run = partial(_simulated, cluster, devices, planned, failures_per_hour)
    saturated = run(0.0)
    loaded = run(sum(map(len, saturated.latencies)) / _steady(saturated) / LOADED)
    latencies = [each for of_load in loaded.latencies for each in of_load]
    alone = [latency(copies[0]) for copies, _ in planned]
    slowest = alone.index(max(alone))
    return Row(
        cluster=cluster.name,
        devices=count,
        group="+".join(str(size) for _, size in planned),
        planning_seconds=planning,
        throughput=_steady(saturated),
        bound=sum(map(_most_a_second, functions, shares)),
        alone=alone[slowest],
        least=_least_latency(functions[slowest], shares[slowest][: planned[slowest][1]]),
        median=float(np.median(latencies)),
        late=float(np.percentile(latencies, 99)),
        repeated=saturated.repeated + loaded.repeated,
    )


def _steady(saturated: Simulation) -> float:
    """Return the requests a second that were answered behind the first tenth, before the last.

    All came at once. While pipelines are filled, and while the slowest device ends alone, others
    have nothing to do.
    """
    ends = np.concatenate(saturated.latencies)
    first, last = np.quantile(ends, (0.1, 0.9))
    return float(0.8 * len(ends) / (last - first))


def _simulated(
    cluster: Cluster,
    devices: Sequence[DeviceDescription],
    planned: Sequence[Planned],
    failures_per_hour: float,
    seconds: float,
) -> Simulation:
    """Return what comes of requests to all networks, by their paces, within so many *seconds*."""
    used = {name for copies, _ in planned for copy in copies for name in copy.devices}
    slowdown = {d.name: cluster.slowdown(n) for n, d in enumerate(devices) if d.name in used}
    paces = [sum(1 / period(copy) for copy in copies) for copies, _ in planned]
    total = max(REQUESTS, REQUESTS_EACH * sum(len(copies) for copies, _ in planned))
    loads = []
    for (copies, _), pace in zip(planned, paces, strict=True):
        requests = max(1, int(total * pace / sum(paces)))
        times = (seconds * number / requests for number in range(requests))
        loads.append(Load(tuple(copies), tuple(times)))
    outages: list[Outage] = []
    if cluster.fails:
        span = max(seconds, total / sum(paces))
        outages += _outages(sorted(used), span, failures_per_hour)
    return simulate(loads, slowdown=slowdown, outages=outages)


def _shares(
    functions: Sequence[Function], devices: Sequence[DeviceDescription]
) -> list[Sequence[DeviceDescription]]:
    """Return devices for each function, by its arithmetic; each gets one at least."""
    work = np.array([total_cost(function).flops for function in functions], float)
    ends = np.cumsum(1 + np.floor(work / work.sum() * (len(devices) - len(functions)))).astype(int)
    return [devices[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _most_a_second(function: Function, devices: Sequence[DeviceDescription]) -> float:
    """Return the requests a second of *devices* that hold everything and never wait."""
    roomy = _roomy(devices)
    alone = {device.multiply_adds_per_second: device for device in roomy}
    pace = {
        speed: 1 / sum(part.seconds for part in partition(function, [device]).parts)
        for speed, device in alone.items()
    }
    return sum(pace[device.multiply_adds_per_second] for device in roomy)


def _least_latency(function: Function, devices: Sequence[DeviceDescription]) -> float:
    """Return the lower bound of the seconds of a request on *devices* that hold everything."""
    return partition(function, _roomy(devices), objective="latency").lower_bound


def _roomy(devices: Sequence[DeviceDescription]) -> list[DeviceDescription]:
    return [dataclasses.replace(device, memory_bytes=1 << 40) for device in devices]


def _outages(devices: Sequence[str], seconds: float, per_hour: float) -> Iterator[Outage]:
    """Yield outages of a hundredth of the time, which come by chance at a rate for each device."""
    random = np.random.default_rng(0)
    for device in devices:
        if random.random() < per_hour * seconds / 3600:
            yield Outage(device, random.random() * seconds, seconds / 100)


COLUMNS = (
    *("network", "cluster", "devices", "group", "planning s", "requests/s", "of the bound"),
    *("alone ms", "bound ms", "median ms", "p99 ms", "repeated"),
)


def line(network: str, row: Row) -> str:
    """Return *row* as a line of a table in Markdown."""
    times = (row.alone, row.least, row.median, row.late)
    cells = (
        *(network, row.cluster, str(row.devices), row.group, f"{row.planning_seconds:.1f}"),
        *(f"{row.throughput:.0f}", f"{100 * row.throughput / row.bound:.0f} %"),
        *(f"{1e3 * time:.3g}" for time in times),
        str(row.repeated),
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each network that is asked for on each cluster."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", nargs="+", type=int, default=[8, 64, 1000])
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--failures-per-hour", type=float, default=3600.0, help="of each device")
    parser.add_argument("--page", type=Path, help="the page whose table is written anew")
    options = parser.parse_args(arguments)
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|---{'|---:' * (len(COLUMNS) - 2)}|"]
    print("\n".join(lines))
    for name in options.only:
        functions = NETWORKS[name]()
        for cluster in CLUSTERS:
            for count in options.devices:
                found = (
                    row(cluster, functions, count, options.failures_per_hour)
                    if count >= len(functions)
                    else None
                )
                if found is None:
                    print(f"{name}, {cluster.name}: {count} devices have no room", flush=True)
                    continue
                lines.append(line(name, found))
                print(lines[-1], flush=True)
    if options.page:
        replace_part(options.page, "cluster", "\n".join(lines))


if __name__ == "__main__":
    main()
