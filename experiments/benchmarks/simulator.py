"""Does the simulator say what process devices do?

Networks run on process devices of one core each, in three ways: whole on one device, a copy on each
of them, and cut into parts for throughput. Measured are the latency of a request alone and the
requests a second when many wait. The simulator says the same, and is told nothing of that: it knows
a profile of the network on one thread, what a tensor takes to a device and back, and how much less
a core does while the others work (the machine's limits). The ratio is measured over simulated::

    python -m experiments.benchmarks.simulator
    python -m experiments.benchmarks.simulator model.onnx --rounds 10 --page docs/runtime.md

The last form puts the table between the marks of a page. Without models it takes three
convolutional networks and an encoder. All ways are asked in turn, in rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import onnx

import glow_nb
from experiments.benchmarks.devices import median_seconds
from experiments.benchmarks.printing import processor, replace_part
from experiments.networks.transformers import NETWORKS
from experiments.networks.twins import make_twin
from glow_nb.base.types import Array
from glow_nb.commands.arrays import random_array
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Relu
from glow_nb.network.profile import Profile
from glow_nb.runtime import DeviceDescription, HostManager, Link, Partitioning, partition
from glow_nb.runtime.deploy import compile_part
from glow_nb.runtime.devices.open_device import open_device
from glow_nb.runtime.hosting.request import Request
from glow_nb.runtime.planning.costs import kernel_seconds, measured
from glow_nb.runtime.planning.efficiency import efficiencies
from glow_nb.runtime.planning.partitioning import Part
from glow_nb.runtime.planning.simulate import Load, Machine, simulate
from glow_nb.system.host_caches import available_processors

MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": lambda: make_twin("resnet50"),
    "vgg19": lambda: make_twin("vgg19"),
    "squeezenet": lambda: make_twin("squeezenet"),
    "bert_128": NETWORKS["bert_128"],
}
SMALL, LARGE = 16, 1 << 20
"""Elements of the tensors that show what a link takes."""

LINK_RUNS, PAUSE_SECONDS = 200, 0.003
WAITING = 4
"""Requests that wait for each device when many do."""

ALONE_RUNS = 8
"""Requests alone, in each round."""

REQUESTS = 300
"""That are simulated to see how many there are in a second."""


def processes(count: int, link: Link) -> list[DeviceDescription]:
    """Return *count* process devices with a processor each, and the rates of this machine.

    What goes from one to another goes through the host, which takes it out and hands it in.
    """
    names = [f"process {number}" for number in range(count)]
    twice = Link(link.bytes_per_second / 2, 2 * link.latency_seconds)
    made = DeviceDescription("", "process", memory_bytes=8 << 30, link=link)
    return [
        measured(
            dataclasses.replace(
                made,
                name=name,
                links=dict.fromkeys(names, twice),
                options={"processors": [available_processors()[number]]},
            )
        )
        for number, name in enumerate(names)
    ]


def measure_link() -> Link:
    """Return what tensors take to a process device and back, half of it for each way."""
    (description,) = processes(1, Link(1e9))
    seconds: list[float] = []
    device = open_device(description)
    try:
        for size in (SMALL, LARGE):
            function = _handed_through(size)
            feeds = {"x": np.ones(size, np.float32)}
            own = glow_nb.compile(function, threads=1).profile(feeds, runs=50).kernel_seconds
            device.add(str(size), compile_part(function, description))
            run = partial(device.run, str(size), list(feeds.values()))
            seconds.append(_seconds_after_pauses(run) - own)
    finally:
        device.close()
    near, far = seconds
    return Link(2 * 4 * (LARGE - SMALL) / (far - near), near / 2)


def _seconds_after_pauses(run: Callable[[], object]) -> float:
    """Return the median seconds of *run* after pauses: threads sleep, as they do in long runs."""
    seconds = []
    for _ in range(LINK_RUNS):
        time.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _handed_through(size: int) -> Function:
    builder = glow_nb.Builder("handed_through")
    builder.save(builder.emit(Relu(builder.input("x", f"float32<{size}>"))), "y")
    return builder.function()


@dataclass
class Way:
    """A network on some devices in one way.

    Attributes:
        plans: A plan for each duplicate.
        latencies: Seconds of a request alone in each round, measured and simulated.
        rates: Requests a second in each round, when many wait, measured and simulated.
    """

    plans: tuple[Partitioning, ...]
    latencies: list[tuple[float, float]] = field(default_factory=list)
    rates: list[tuple[float, float]] = field(default_factory=list)

    def add(self, host: Hosted, machine: Machine, profile: Profile) -> None:
        """Measure once, and simulate with the times of the kernels in *profile*."""
        plans = tuple(_timed(plan, profile) for plan in self.plans)
        used = {name for plan in plans for name in plan.devices}
        machines = [machine] if used.issuperset(machine.devices) else []
        alone = simulate([Load(plans, (0.0,))], machines=machines)
        self.latencies.append((host.seconds_alone(), alone.seconds))
        many = simulate([Load(plans, (0.0,) * REQUESTS)], machines=machines)
        self.rates.append((host.rate(), many.throughput))


def ways_of(
    function: Function, devices: Sequence[DeviceDescription], profile: Profile
) -> dict[str, Way]:
    """Return the ways to run *function* on *devices*."""
    whole = partition(function, devices[:1], profile=profile)
    copies = tuple(_on_device(whole, device) for device in devices)
    parts = partition(function, devices, objective="throughput", profile=profile)
    return {"one device": Way(copies[:1]), "copies": Way(copies), "parts": Way((parts,))}


def _on_device(plan: Partitioning, device: DeviceDescription) -> Partitioning:
    """Return *plan*, which has one device, on another one that is like it."""
    parts = tuple(dataclasses.replace(part, device=device.name) for part in plan.parts)
    return dataclasses.replace(plan, parts=parts, devices={device.name: device})


def _timed(plan: Partitioning, profile: Profile) -> Partitioning:
    """Return *plan* with the seconds that *profile* shows for its parts."""
    parts = [
        dataclasses.replace(part, seconds=_seconds(part, plan.devices[part.device], profile))
        for part in plan.parts
    ]
    return dataclasses.replace(plan, parts=tuple(parts))


def _seconds(part: Part, device: DeviceDescription, profile: Profile) -> float:
    known = efficiencies(profile)
    return kernel_seconds(map(known.work_of, part.program.work), device)


def machine_of(
    devices: Sequence[DeviceDescription], whole: Partitioning, profile: Profile
) -> Machine:
    """Return the machine of *devices*, by how much longer the kernels of *whole* take if all work.

    That follows from the rates of the machine when so many cores work.
    """
    (part,) = whole.parts
    busy = measured(devices[0], busy_cores=len(devices))
    slowdown = _seconds(part, busy, profile) / _seconds(part, devices[0], profile)
    return Machine(tuple(device.name for device in devices), max(1.0, slowdown))


@dataclass(frozen=True)
class Hosted:
    """A network on a host, and what is asked of it.

    Attributes:
        host: The host.
        name: The network.
        feeds: What it is fed.
        waiting: How many requests wait when many do.
        seconds: How long its rate is measured.
    """

    host: HostManager
    name: str
    feeds: Mapping[str, Array]
    waiting: int
    seconds: float

    def seconds_alone(self) -> float:
        """Return the median seconds of a request alone."""
        return median_seconds(lambda: self.host.run(self.name, self.feeds), ALONE_RUNS)

    def rate(self) -> float:
        """Return how many requests a second are answered when others always wait.

        The clock begins when as many were answered as wait: then all devices are at work.
        """
        requests = deque(self._submit() for _ in range(2 * self.waiting))
        for _ in range(self.waiting):
            requests.popleft().result()
        answered, began = 0, time.perf_counter()
        while time.perf_counter() < began + self.seconds:
            requests.append(self._submit())
            requests.popleft().result()
            answered += 1
        elapsed = time.perf_counter() - began
        for request in requests:
            request.result()
        return answered / elapsed

    def _submit(self) -> Request:
        return self.host.submit(self.name, self.feeds)


def compare(
    function: Function, devices: Sequence[DeviceDescription], rounds: int, seconds: float
) -> dict[str, Way]:
    """Return the ways to run *function*, measured and simulated in some *rounds*.

    Each rate is measured for some *seconds*. The profile is another one in each round: the clock of
    the processor drifts.
    """
    net = glow_nb.compile(function, threads=1)
    rng = np.random.default_rng(7)
    types = {value.name: value.type for value in function.inputs}
    feeds = {name: random_array(type, rng) for name, type in types.items()}
    alone = median_seconds(lambda: net.run(feeds), ALONE_RUNS)
    profiled = partial(net.profile, feeds, runs=max(3, int(seconds / alone / 2)))
    profile = profiled()
    ways = ways_of(function, devices, profile)
    machine = machine_of(devices, ways["one device"].plans[0], profile)
    with HostManager(devices) as host:
        for name, way in ways.items():
            host.add_network(name, way.plans[0], duplicates=len(way.plans))
            host.run(name, feeds)
        for _ in range(rounds):
            profile = profiled()
            for name, way in ways.items():
                hosted = Hosted(host, name, feeds, WAITING * len(devices), seconds)
                way.add(hosted, machine, profile)
    return ways


def rows(network: str, ways: Mapping[str, Way]) -> Iterator[tuple[str, float]]:
    """Yield a row of the table for each number, and its ratio, measured over simulated."""
    for name, way in ways.items():
        for what, scale, pairs, best in (
            ("ms alone", 1e3, way.latencies, min),
            ("requests/s", 1.0, way.rates, max),
        ):
            if name == "copies" and what == "ms alone":
                continue  # a request alone is answered by one of them
            found, said = zip(*pairs, strict=True)
            ratio = statistics.median(real / paper for real, paper in pairs)
            numbers = (statistics.median(found), best(found), statistics.median(said))
            shown = " | ".join(f"{scale * number:.2f}" for number in numbers)
            yield f"| {network} | {name}, {what} | {shown} | {ratio:.2f} |", ratio


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, simulate, and print both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", help=f"files, or of {', '.join(MODELS)}")
    parser.add_argument("--devices", type=int, default=len(available_processors()))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each rate in a round")
    parser.add_argument("--page", type=Path, help="the page whose table is written anew")
    options = parser.parse_args(arguments)
    if options.devices > (most := len(available_processors())):
        parser.error(f"--devices {options.devices}: each has a processor, and there are {most}")
    link = measure_link()
    rate, latency = link.bytes_per_second, link.latency_seconds
    lines = [
        f"{processor()}; a tensor takes {1e6 * latency:.0f} us and "
        f"{rate / 1e9:.1f} GB/s to a device or back.",
        "",
        "| network | what | median | best | simulated | ratio |\n|---|---|---:|---:|---:|---:|",
    ]
    print("\n".join(lines))
    ratios: list[float] = []
    for name in options.models or MODELS:
        function = glow_nb.load(MODELS[name]() if name in MODELS else name)
        if not isinstance(function, Function):
            parser.error(f"{name}: it is a program; give a model or a graph")
        devices = processes(options.devices, link)
        ways = compare(function, devices, options.rounds, options.seconds)
        for line, ratio in rows(Path(name).stem, ways):
            lines.append(line)
            ratios.append(ratio)
            print(line, flush=True)
    far = max(max(ratio, 1 / ratio) for ratio in ratios)
    print(f"the largest difference is {100 * (far - 1):.0f} %")
    if options.page:
        replace_part(options.page, "simulator", "\n".join(lines))


if __name__ == "__main__":
    main()
