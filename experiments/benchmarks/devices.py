"""What does a device cost, and what do two of them bring?

A run on a device takes longer than the network itself: it goes to another thread, process or actor
and back. And two devices should do twice as many runs as one. Both are asked side by side, in
rounds, so that all see the same drift of the clock::

    python -m experiments.benchmarks.devices
    python -m experiments.benchmarks.devices --kinds local process ray --rounds 10

The first table has the median of what a run of a small network takes beside the network. The second
one has the runs of resnet50 in a second by one device of one core, and by two; process devices have
a processor each. The third one says what two cores can do beside one at best: multiply-adds of
registers, which share nothing but the clock, and reading from each level of the memory. No two
devices do more than that.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np

from experiments.benchmarks.timing import times_in_turn
from experiments.networks.twins import make_twin
from glow_nb import Builder, Cpu, Function, load
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.base.errors import GlowError
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.types import Array
from glow_nb.codegen.load_native import load as load_native
from glow_nb.codegen.measure_limits import measure_limits
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.hlir.ops import MatMul, Relu
from glow_nb.kernels.target import Target
from glow_nb.network.compilation import build_program, lower_for
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device import Device
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device
from glow_nb.system.host_caches import available_processors

KINDS = ("local", "process")
MODEL = "resnet50"
RUNS = 300
OUTSTANDING = 2
"""Runs that each device has at a time: the next one is there when one ends."""


def deploy(function: Function) -> Deployable:
    """Return *function* compiled for one core, as data."""
    backend = Cpu().make(threads=1)
    program = build_program(lower_for(function, backend), backend)
    made = backend.compile(program, threads=1)
    assert isinstance(made, CpuExecutable)
    bound = (*program.inputs, *program.outputs)
    arena = program.arena.size_bytes if program.arena else 0
    return Deployable(
        name=function.name,
        inputs=tuple((buffer.name, buffer.type) for buffer in program.inputs),
        outputs=tuple((buffer.name, buffer.type) for buffer in program.outputs),
        program=made.native,
        constant_bytes=made.constant_bytes,
        run_bytes=arena + made.scratch_bytes + sum(buffer.type.size_bytes for buffer in bound),
    )


def small_network(size: int = 256) -> Function:
    """Return two matrix products with a ReLU between them: some ten microseconds."""
    rng = np.random.default_rng(0)
    builder = Builder("small")
    x = builder.input("x", f"float32<8 x {size}>")
    first, second = (
        builder.constant(name, rng.normal(size=(size, size)).astype(np.float32) / size**0.5)
        for name in ("first", "second")
    )
    hidden = builder.emit(Relu(builder.emit(MatMul(x, first))))
    builder.save(builder.emit(MatMul(hidden, second)), "y")
    return builder.function()


@contextmanager
def opened(kind: str, count: int) -> Iterator[list[Device]]:
    """Yield *count* devices of one core each; processes have a processor each if there are enough.

    Actors take nothing of Ray's CPUs, so that as many are placed as are asked for.
    """
    processors = available_processors()
    with ExitStack() as stack:
        devices = []
        for number in range(count):
            options: dict[str, object] = {"num_cpus": 0} if kind == "ray" else {}
            if kind == "process" and count <= len(processors):
                options = {"processors": [processors[number]]}
            device = open_device(DeviceDescription(f"{kind} {number}", kind=kind, options=options))
            stack.callback(device.close)
            devices.append(device)
        yield devices


def inputs_of(network: Deployable) -> list[Array]:
    """Return normal numbers for the inputs of *network*, which are floats."""
    rng = np.random.default_rng(7)
    return [rng.normal(size=type.shape).astype(type.kind.dtype) for _, type in network.inputs]


def median_seconds(run: Callable[[], object], runs: int) -> float:
    """Return the median time of *runs* runs, which follow some that are not counted."""
    (times,) = times_in_turn([run], runs, unmeasured=runs // 10)
    return statistics.median(times)


def overheads(kinds: Sequence[str], network: Deployable, *, rounds: int, runs: int) -> list[str]:
    """Return the rows of the first table: microseconds of a run, and beside the network."""
    inputs = inputs_of(network)
    with ExitStack() as stack:
        calls: dict[str, Callable[[], object]] = {}
        for kind in kinds:
            (device,) = stack.enter_context(opened(kind, 1))
            device.add("net", network)
            calls[f"{kind}, run"] = partial(device.run, "net", inputs)
            calls[f"{kind}, submit"] = partial(_submit_and_wait, device, inputs)
        assert isinstance(network.program, NativeProgram)
        calls["the network"] = partial(load_native(network.program).run, inputs)
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                times[name].append(median_seconds(call, runs))
    medians = {name: statistics.median(found) * 1e6 for name, found in times.items()}
    own = medians.pop("the network")
    return [f"| {name} | {time:.1f} | {time - own:.1f} |" for name, time in medians.items()]


def _submit_and_wait(device: Device, inputs: Sequence[Array]) -> list[Array]:
    return device.submit("net", inputs).result()


def runs_per_second(devices: Sequence[Device], inputs: Sequence[Array], seconds: float) -> float:
    """Return how many runs all *devices* together do in a second, each with runs that wait."""
    is_over = threading.Event()
    counts = [0] * len(devices)

    def ask(number: int) -> None:
        device = devices[number]
        waiting = deque(device.submit("net", inputs) for _ in range(OUTSTANDING))
        while not is_over.is_set():
            waiting.popleft().result()
            counts[number] += 1
            waiting.append(device.submit("net", inputs))
        for future in waiting:
            future.result()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(devices))]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    is_over.wait(seconds)
    is_over.set()
    elapsed, done = time.perf_counter() - began, sum(counts)
    for thread in threads:
        thread.join()
    return done / elapsed


def throughput(
    kinds: Sequence[str], network: Deployable, *, rounds: int, seconds: float
) -> list[str]:
    """Return the rows of the second table: runs in a second by one device and by two."""
    inputs, rows = inputs_of(network), []
    for kind in kinds:
        with opened(kind, 2) as devices:
            for device in devices:
                device.add("net", network)
                device.run("net", inputs)
            rates: list[tuple[float, float]] = []
            for number in range(rounds):
                alone = devices[number % 2 : number % 2 + 1]
                one = runs_per_second(alone, inputs, seconds)
                rates.append((one, runs_per_second(devices, inputs, seconds)))
        one, two = (statistics.median(found) for found in zip(*rates, strict=True))
        ratio = statistics.median(both / single for single, both in rates)
        rows.append(f"| {kind} | {one:.1f} | {two:.1f} | {ratio:.2f} |")
    return rows


def machine(*, rounds: int) -> list[str]:
    """Return the rows of the third table: what one core and two of this machine can do at best."""
    target = Target.host()
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        one, two = (_rates(measure_limits(threads, target)) for threads in (1, 2))
        for name, rate in one.items():
            found.setdefault(name, []).append((rate, two[name]))
    rows = []
    for name, rates in found.items():
        alone, both = (statistics.median(each) / 1e9 for each in zip(*rates, strict=True))
        ratio = statistics.median(both / one for one, both in rates)
        rows.append(f"| {name} | {alone:.1f} | {both:.1f} | {ratio:.2f} |")
    return rows


def _rates(limits: MachineLimits) -> dict[str, float]:
    reading = {f"bytes read, {level.name}": level.read_rate for level in limits.levels}
    return {"multiply-adds of registers": limits.flop_rate / 2, **reading}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=KINDS, help="kinds of devices")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=RUNS, help="of the small network in a round")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each rate in a round")
    parser.add_argument("--model", help="a model whose inputs are floats, instead of resnet50")
    options = parser.parse_args(arguments)
    try:
        model = load(options.model or make_twin(MODEL))
    except GlowError as error:
        parser.error(f"--model {options.model}: {error}")
    print("| call | us | beside the network |\n|---|---|---|")
    small = deploy(small_network())
    for row in overheads(options.kinds, small, rounds=options.rounds, runs=options.runs):
        print(row)
    large = deploy(model)
    print("\n| kind | one device, runs/s | two | ratio |\n|---|---|---|---|")
    for row in throughput(options.kinds, large, rounds=options.rounds, seconds=options.seconds):
        print(row)
    print("\n| the machine, 1e9/s | one core | two | ratio |\n|---|---|---|---|")
    for row in machine(rounds=options.rounds):
        print(row)


if __name__ == "__main__":
    main()
