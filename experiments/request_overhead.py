"""What does a request to a host cost beside the run itself?

A small network runs alone (``net.run``), on a device, and through a host on that device, in turn::

    python -m experiments.request_overhead --kinds local process

prints the median and the shortest microseconds of each way, and what it takes more than the network
alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

import glow_nb
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import MatMul, Relu
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.types import Array

ROWS, WIDTH = 32, 256


def layer() -> Function:
    """Return a dense layer that takes some 20 microseconds."""
    builder = glow_nb.Builder("layer")
    x = builder.input("x", f"float32<{ROWS} x {WIDTH}>")
    weight = np.random.default_rng(0).normal(size=(WIDTH, WIDTH)).astype(np.float32)
    product = builder.emit(MatMul(x, builder.constant("weight", weight)))
    builder.save(builder.emit(Relu(product)), "y")
    return builder.function()


def measure(ways: Mapping[str, Callable[[], object]], runs: int) -> dict[str, tuple[float, float]]:
    """Return median and shortest seconds of each way; they are timed in turn, in rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(runs // 100 + 2):
        for name, way in ways.items():
            for _ in range(100):
                began = time.perf_counter()
                way()
                if turn:  # the first round warms up
                    seconds[name].append(time.perf_counter() - began)
    return {name: (statistics.median(each), min(each)) for name, each in seconds.items()}


def submitted(host: HostManager, feed: Mapping[str, Array]) -> object:
    """Return the answer of a request that is waited for."""
    return host.submit("net", feed).result()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each kind of device and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=["local"])
    parser.add_argument("--runs", type=int, default=3000)
    options = parser.parse_args(arguments)
    function = layer()
    net = glow_nb.compile(function, threads=1)
    feed = {"x": np.ones((ROWS, WIDTH), np.float32)}
    for kind in options.kinds:
        with HostManager([DeviceDescription("device", kind)]) as host:
            host.add_network("net", function)
            ways: dict[str, Callable[[], object]] = {
                "net.run": lambda: net.run(feed),
                "host.run": partial(host.run, "net", feed),
                "with a deadline": partial(host.run, "net", feed, deadline=10.0),
                "submit, result": partial(submitted, host, feed),
            }
            times = measure(ways, options.runs)
        alone = times["net.run"][0]
        print(f"{kind}: microseconds, median and shortest")
        for name, (median, shortest) in times.items():
            more = 1e6 * (median - alone)
            print(f"  {name:16}{1e6 * median:8.1f}{1e6 * shortest:8.1f}  {more:+.1f}")


if __name__ == "__main__":
    main()
