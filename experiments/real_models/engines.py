"""The engines in which a trained network runs: glow_nb in three precisions, and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import glow_nb
from experiments.real_models.task import Answer, Feeds, Run, Task, TrainedNetwork
from glow_nb import quant
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function

PRECISIONS = ("float32", "bfloat16", "int8")
PEER = "onnxruntime"


class Recorder:
    """Runs a network, and keeps what it was fed."""

    def __init__(self, run: Run) -> None:
        """Record the feeds of *run*."""
        self.feeds: list[dict[str, Array]] = []
        self._run = run

    def __call__(self, feeds: Feeds) -> Mapping[str, Array]:
        """Run, and keep a copy of *feeds*."""
        self.feeds.append({name: np.array(array) for name, array in feeds.items()})
        return self._run(feeds)


def opened_in_glow_nb(network: TrainedNetwork, precision: str = "float32", **options: Any) -> Run:
    """Return *network* compiled for float32 or bfloat16, with further *options* of ``compile``."""
    given = {"constants": network.constants, **network.options, **options}
    return glow_nb.compile(network.file.path(), precision=precision, **given).run


def opened_in_integers(
    network: TrainedNetwork, samples: list[dict[str, Array]], **options: Any
) -> Run:
    """Return *network* with products of 8-bit integers, calibrated on *samples*."""
    function = graph_of(network)
    ranges = quant.calibrate(function, samples)
    quantized = quant.quantize(function, ranges)
    return glow_nb.compile(quantized, **{**network.options, **options}).run


def graph_of(network: TrainedNetwork) -> Function:
    """Return the graph of *network*, with its sizes left open."""
    function = glow_nb.load(network.file.path(), open_sizes=True, constants=dict(network.constants))
    assert isinstance(function, Function)
    return function


def opened_in_onnxruntime(network: TrainedNetwork, threads: int = 1) -> Run:
    """Return *network* opened in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(
        network.file.path(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def run(feeds: Feeds) -> Mapping[str, Array]:
        outputs = session.run(names, {**feeds, **network.constants})
        return dict(zip(names, outputs, strict=True))

    return run


def solved_in_float32(task: Task, **options: Any) -> tuple[Answer, dict[str, Recorder]]:
    """Return the answer of *task* in float32, and what each of its networks was fed for it."""
    runs = {
        name: Recorder(opened_in_glow_nb(network, **options))
        for name, network in task.networks.items()
    }
    return task.solve(runs), runs
