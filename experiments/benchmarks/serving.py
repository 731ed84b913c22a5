"""How many requests a second does the server answer, and the same server around ONNX Runtime?

Each engine serves the same models in a process of its own by the same code of ``glow_nb``; clients
send images as bytes over connections that stay open, one request at a time each, to one engine
after the other, in rounds::

    python -m experiments.benchmarks.serving --clients 8 --seconds 5 --rounds 3

prints requests a second, the median and the 99th percentile of the time of a request, and the ratio
to the better layout of ONNX Runtime: all threads on one request, or a request for each thread.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from typing_extensions import override

import glow_nb
from experiments.arguments import thread_count
from experiments.networks.mobile import mobilenet_v2
from experiments.networks.twins import make_twin
from glow_nb.base.feeds import Feeds
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.network_info import NetworkInfo
from glow_nb.runtime.hosting.network_source import Servable
from glow_nb.runtime.hosting.statistics import Statistics
from glow_nb.runtime.serve.model_server import Host, ModelServer
from glow_nb.runtime.serve.model_source import LoadOptions
from glow_nb.runtime.serve.repository import ModelRepository
from glow_nb.runtime.serve.server import listen, make_server, serve

GLOW, TOGETHER, APART = "glow_nb", "onnxruntime, threads together", "onnxruntime, threads apart"
ENGINES = (GLOW, TOGETHER, APART)
MODELS = {"mobilenet_v2": mobilenet_v2, "resnet50": lambda: make_twin("resnet50")}
JSON_LENGTH = "Inference-Header-Content-Length"


class OrtHost(Host):
    """Networks that ONNX Runtime runs, behind the interface of a host."""

    def __init__(self, folder: Path, workers: int, threads: int) -> None:
        """Run models of *folder*, *workers* requests at a time on *threads* threads each."""
        self._folder, self._threads = folder, threads
        self._pool = ThreadPoolExecutor(workers)
        self._sessions: dict[str, Any] = {}
        self._networks: dict[str, NetworkInfo] = {}

    @override
    def add_network(
        self,
        name: str,
        network: Servable,
        *,
        duplicates: int | None = 1,
        max_batch: int = 1,
        max_delay: float = 0.0,
    ) -> None:
        """Load the file of the model whose graph is *network*; no copies, no batches."""
        import onnxruntime

        function = cast(Function, network)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        path = self._folder / f"{name.partition('/')[0]}.onnx"
        self._sessions[name] = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self._networks[name] = NetworkInfo(
            name,
            {value.name: value.type for value in function.inputs},
            {value.name: value.type for value in function.outputs},
            1,
            True,
            (1,),
            {},
        )

    @override
    def remove_network(self, name: str) -> None:
        """Forget the network *name*."""
        del self._sessions[name], self._networks[name]

    @override
    def networks(self) -> Mapping[str, NetworkInfo]:
        """Return what each network is."""
        return self._networks

    @override
    def submit(
        self, name: str, inputs: Feeds, *, priority: int = 0, deadline: float | None = None
    ) -> Future[dict[str, Array]]:
        """Let *name* run when a worker is free."""
        return self._pool.submit(self._run, name, inputs)

    def _run(self, name: str, inputs: Feeds) -> dict[str, Array]:
        names = list(self._networks[name].outputs)
        return dict(zip(names, self._sessions[name].run(names, inputs), strict=True))

    @override
    def statistics(self) -> Statistics:
        """Return that nothing is counted."""
        return Statistics({}, {})

    @override
    def close(self, timeout: float | None = None) -> None:
        """End the workers."""
        self._pool.shutdown()


def open_host(engine: str, folder: Path, threads: int) -> Host:
    """Return the host of *engine* on so many *threads*."""
    if engine == TOGETHER:
        return OrtHost(folder, 1, threads)
    if engine == APART:
        return OrtHost(folder, threads, 1)
    return HostManager([DeviceDescription(f"core {n}", cores=1) for n in range(threads)])


def run_server(engine: str, folder: Path, threads: int) -> None:
    """Serve the models in *folder* until SIGTERM; print the port."""
    host = open_host(engine, folder, threads)
    models = ModelServer(host, ModelRepository([folder]), LoadOptions(duplicates=threads))
    for error in models.load_all():
        raise error
    listening = listen("127.0.0.1", 0)
    print(listening.getsockname()[1], flush=True)
    serve(make_server(models), listening)
    host.close()


@dataclass
class Load:
    """What clients saw.

    Attributes:
        seconds: The time of each request.
        elapsed: How long they asked.
    """

    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0


def request_of(model: str, folder: Path) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a request to *model*: random numbers, in bytes."""
    function = glow_nb.load(str(folder / f"{model}.onnx"))
    (given,) = function.inputs
    image = np.random.default_rng(0).normal(size=given.type.shape).astype(np.float32)
    tensor = {
        "name": given.name,
        "shape": list(image.shape),
        "datatype": "FP32",
        "parameters": {"binary_data_size": image.nbytes},
    }
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return head + image.tobytes(), {JSON_LENGTH: str(len(head))}


def ask(port: int, model: str, request: tuple[bytes, dict[str, str]], until: float) -> list[float]:
    """Send *request* again and again until that time; return the seconds of each."""
    body, headers = request
    connection = http.client.HTTPConnection("127.0.0.1", port, 60)
    seconds = []
    while (began := time.perf_counter()) < until:
        connection.request("POST", f"/v2/models/{model}/infer", body, headers)
        reply = connection.getresponse()
        answer = reply.read()
        if reply.status != http.HTTPStatus.OK:
            raise RuntimeError(answer.decode())
        seconds.append(time.perf_counter() - began)
    connection.close()
    return seconds


def crowd(
    port: int, model: str, request: tuple[bytes, dict[str, str]], clients: int, seconds: float
) -> Load:
    """Let so many *clients* ask *model* for so many *seconds*."""
    load, began = Load(), time.perf_counter()
    until = began + seconds

    def client() -> None:
        load.seconds += ask(port, model, request, until)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.elapsed = time.perf_counter() - began
    return load


def measure(
    ports: Mapping[str, int], model: str, folder: Path, options: argparse.Namespace
) -> dict[str, list[Load]]:
    """Return what clients of *model* saw of each engine in each round; the first one warms up."""
    request = request_of(model, folder)
    loads: dict[str, list[Load]] = {engine: [] for engine in ports}
    for turn in range(options.rounds + 1):
        for engine, port in ports.items():
            load = crowd(port, model, request, options.clients, options.seconds if turn else 0.5)
            if turn:
                loads[engine].append(load)
    return loads


def show(model: str, loads: Mapping[str, Sequence[Load]]) -> None:
    """Print a table for *model*."""
    rates = {
        engine: statistics.median(len(load.seconds) / load.elapsed for load in each)
        for engine, each in loads.items()
    }
    best = max(rate for engine, rate in rates.items() if engine != GLOW)
    print(f"{model}: requests a second, median and 99th percentile in milliseconds, ratio")
    for engine, each in loads.items():
        seconds = sorted(second for load in each for second in load.seconds)
        late = seconds[int(0.99 * (len(seconds) - 1))]
        print(
            f"  {engine:30}{rates[engine]:8.1f}{1e3 * statistics.median(seconds):9.2f}"
            f"{1e3 * late:9.2f}{rates[engine] / best:8.2f}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve, ask, and print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--threads", type=thread_count, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        run_server(options.serve[0], Path(options.serve[1]), options.threads)
        return
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        for model in options.models:
            onnx.save(MODELS[model](), str(folder / f"{model}.onnx"))
        ports = {}
        for engine in options.engines:
            module = "experiments.benchmarks.serving"
            command = [sys.executable, "-m", module, "--serve", engine, place]
            server = stack.enter_context(
                subprocess.Popen(
                    [*command, "--threads", str(options.threads)], stdout=subprocess.PIPE, text=True
                )
            )
            stack.callback(server.terminate)
            assert server.stdout is not None
            ports[engine] = int(server.stdout.readline())
        for model in options.models:
            show(model, measure(ports, model, folder, options))


if __name__ == "__main__":
    main()
