"""What would a network do on ten, a hundred, a thousand devices?

On paper: plans are made by the cost model, and requests go through them in virtual time, so that
one core is enough. A network is cut so that most requests a second are answered in all, and each
part has copies by its work (:mod:`experiments.cluster_plans`). Shown are requests a second, beside
what no plan can exceed (:mod:`experiments.cluster_bound`), the latency of a request alone, beside
what no plan over so many devices can be below, the median and 99th percentile of the latency at 80
percent of the pace, and how long planning took, also on smaller clusters. Of several networks, each
has devices by its share of the arithmetic, and the latencies are those of the slowest. The clusters
are devices that are alike, half of them at a third of the speed, slow links, one in twenty
devices that takes twice as long, and devices that fail::

    python -m experiments.cluster --devices 10 100 1000
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
import onnx

from experiments import transformers
from experiments.cluster_bound import most_a_second
from experiments.cluster_plans import Deployment, deployed
from experiments.pages import replace_part
from experiments.transformers import Size
from experiments.twins import make_twin
from glow_nb import load
from glow_nb.hlir.cost import total_cost
from glow_nb.hlir.graph import Function
from glow_nb.runtime import DeviceDescription, Link
from glow_nb.runtime.planning.simulate import Load, Outage, Simulation, simulate
from glow_nb.runtime.planning.timing import latency

REQUESTS, REQUESTS_EACH = 2_000, 50
"""How many come at least, and how many for each way through the devices."""

LOADED = 0.8
"""The part of the pace at which latencies are looked at."""

FAST = DeviceDescription("fast", multiply_adds_per_second=1e12, memory_bytes_per_second=200e9)
LINK, SLOW_LINK = Link(10e9, 10e-6), Link(0.1e9, 200e-6)


def twin(name: str) -> Function:
    """Return the twin of the light model *name*: constant weights would be kept once."""
    return _loaded(make_twin(name))


def decoder(layers: int = 48, tokens: int = 128, heads: int = 8, depth: int = 64) -> Function:
    """Return a decoder like GPT-2 with so many layers."""
    return _loaded(transformers.decoder(f"decoder_{layers}", Size(layers, 1, tokens, heads, depth)))


def _loaded(model: onnx.ModelProto) -> Function:
    function = load(model)
    assert isinstance(function, Function)
    return function


def eight() -> list[Function]:
    """Return eight networks that share a cluster."""
    small = ("resnet50", "densenet121", "inception_v1", "inception_v2", "shufflenet", "squeezenet")
    return [*map(twin, small), decoder(12), decoder(24)]


NETWORKS: Mapping[str, Callable[[], Sequence[Function]]] = {
    "resnet50": lambda: [twin("resnet50")],
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
        parts: Devices that a request visits, of each network.
        planning_seconds: What lowering and planning took of a processor.
        throughput: Requests a second.
        bound: Requests a second that no plan exceeds; of several networks, on the same shares.
        alone: Seconds of a request alone; this and what follows are those of the slowest network.
        least: Lower bound of that latency.
        median: The median of the latencies under load, in seconds.
        late: Their 99th percentile.
        repeated: Runs that were done again.
    """

    cluster: str
    devices: int
    parts: str
    planning_seconds: float
    throughput: float
    bound: float
    alone: float
    least: float
    median: float
    late: float
    repeated: int


def row(
    cluster: Cluster, functions: Sequence[Function], count: int, failures_per_hour: float
) -> Row | None:
    """Return what comes of *functions* on *count* devices; None if one finds no room."""
    if count < len(functions):
        return None
    devices, began = cluster.devices(count), time.process_time()
    shares = _shares(functions, devices)
    found = [deployed(*pair) for pair in zip(functions, shares, strict=True)]
    planning = time.process_time() - began
    networks = [deployment for deployment in found if deployment]
    if len(networks) < len(functions):
        return None
    run = partial(_simulated, cluster, devices, networks, failures_per_hour)
    saturated = run(0.0)
    loaded = run(sum(map(len, saturated.latencies)) / _steady(saturated) / LOADED)
    alone = [latency(network.ways[0]) for network in networks]
    slowest = alone.index(max(alone))
    return Row(
        cluster=cluster.name,
        devices=count,
        parts="+".join(str(network.parts) for network in networks),
        planning_seconds=planning,
        throughput=_steady(saturated),
        bound=sum(map(most_a_second, functions, shares)),
        alone=alone[slowest],
        least=networks[slowest].least_latency,
        median=float(np.median(loaded.latencies[slowest])),
        late=float(np.percentile(loaded.latencies[slowest], 99)),
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
    networks: Sequence[Deployment],
    failures_per_hour: float,
    seconds: float,
) -> Simulation:
    """Return what comes of requests to all networks, by their paces, within so many *seconds*."""
    used = {name for network in networks for way in network.ways for name in way.devices}
    slowdown = {d.name: cluster.slowdown(n) for n, d in enumerate(devices) if d.name in used}
    pace = sum(network.pace for network in networks)
    total = max(REQUESTS, REQUESTS_EACH * sum(len(network.ways) for network in networks))
    loads = []
    for network in networks:
        requests = max(1, int(total * network.pace / pace))
        times = (seconds * number / requests for number in range(requests))
        loads.append(Load(network.ways, tuple(times)))
    outages: list[Outage] = []
    if cluster.fails:
        span = max(seconds, total / pace)
        outages += _outages(sorted(used), span, failures_per_hour)
    return simulate(loads, slowdown=slowdown, outages=outages)


def _shares(
    functions: Sequence[Function], devices: Sequence[DeviceDescription]
) -> list[Sequence[DeviceDescription]]:
    """Return devices for each function, by its arithmetic; each gets one at least."""
    work = np.array([total_cost(function).flops for function in functions], float)
    ends = np.cumsum(1 + np.floor(work / work.sum() * (len(devices) - len(functions)))).astype(int)
    return [devices[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _outages(devices: Sequence[str], seconds: float, per_hour: float) -> Iterator[Outage]:
    """Yield outages of a hundredth of the time, which come by chance at a rate for each device."""
    random = np.random.default_rng(0)
    for device in devices:
        if random.random() < per_hour * seconds / 3600:
            yield Outage(device, random.random() * seconds, seconds / 100)


COLUMNS = (
    *("network", "cluster", "devices", "parts", "planning s", "requests/s", "of the bound"),
    *("alone ms", "bound ms", "median ms", "p99 ms", "repeated"),
)


def line(network: str, row: Row) -> str:
    """Return *row* as a line of a table in Markdown."""
    times = (row.alone, row.least, row.median, row.late)
    cells = (
        *(network, row.cluster, str(row.devices), row.parts, f"{row.planning_seconds:.1f}"),
        *(f"{row.throughput:.0f}", f"{100 * row.throughput / row.bound:.0f} %"),
        *(f"{1e3 * time:.3g}" for time in times),
        str(row.repeated),
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each network that is asked for on each cluster."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", nargs="+", type=int, default=[10, 100, 1000])
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--failures-per-hour", type=float, default=3600.0, help="of each device")
    parser.add_argument("--page", type=Path, help="the page whose table is written anew")
    options = parser.parse_args(arguments)
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|---{'|---:' * (len(COLUMNS) - 2)}|"]
    print("\n".join(lines))
    for name in options.only:
        functions = NETWORKS[name]()
        for cluster in CLUSTERS:
            for count in options.devices if cluster is CLUSTERS[0] else options.devices[-1:]:
                found = row(cluster, functions, count, options.failures_per_hour)
                if found is None:
                    print(f"{name}, {cluster.name}: {count} devices have no room", flush=True)
                    continue
                lines.append(line(name, found))
                print(lines[-1], flush=True)
    if options.page:
        replace_part(options.page, "cluster", "\n".join(lines))


if __name__ == "__main__":
    main()
