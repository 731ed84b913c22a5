"""Import, export, import: meaning, names and constants are kept.

ONNX's own node tests are imported, exported, checked by ONNX's own checker, and must still give
what the suite expects: when they are imported again, and in ONNX Runtime where it has kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.backend.test.runner import Runner
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from typing_extensions import override

import glow_nb
from experiments.transformers import NETWORKS as TRANSFORMERS
from experiments.twins import NAMES, make_twin
from glow_nb.conformance import EXPLAINED
from glow_nb.distance import largest_distance
from glow_nb.duel.feeds import random_feeds
from glow_nb.errors import UnsupportedError
from glow_nb.exporters import export_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.importers.onnx import import_onnx
from glow_nb.onnx_backend import GlowBackendRep
from glow_nb.types import Array

SHARES = 10
"""Into how many parts the node tests are cut; the default run has one."""

Outputs = dict[str, Array]


class RoundTrip(GlowBackendRep):
    """Runs a model by ``evaluate``, after it was exported and imported again."""

    @override
    def _build(
        self, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, Array]
    ) -> tuple[Function, Callable[[Mapping[str, Array]], Outputs]]:
        function = import_onnx(self._model, shapes=shapes, constants=constants)
        exported = export_onnx(function)
        onnx.checker.check_model(exported, full_check=True)
        again = import_onnx(exported)
        assert [str(i) for i in again.inputs] == [str(i) for i in function.inputs]
        return again, partial(self._run, again, exported)

    def _run(
        self, function: Function, exported: onnx.ModelProto, feeds: Mapping[str, Array]
    ) -> Outputs:
        return evaluate(function, feeds)


class InOnnxRuntime(RoundTrip):
    """Runs the exported model in ONNX Runtime."""

    @override
    def _run(
        self, function: Function, exported: onnx.ModelProto, feeds: Mapping[str, Array]
    ) -> Outputs:
        try:
            session = session_of(exported)
        except ort_errors.NotImplemented as error:
            raise UnsupportedError(str(error)) from error
        names = [output.name for output in exported.graph.output]
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers)


def outcome_of(case: Any, kind: type[RoundTrip]) -> str:
    """Return what went wrong with a test, nothing if it passed, or that it is not supported."""
    try:
        network = kind(case.model, "evaluate", 1, False, 4)
        for inputs, expected in case.data_sets:
            outputs = network.run([_array(value) for value in inputs])
            wanted = [_array(value) for value in expected]
            Runner.assert_similar_outputs(wanted, list(outputs), case.rtol, case.atol)
    except UnsupportedError:
        return "unsupported"
    except AssertionError as error:
        return f"wrong: {error}"
    return ""


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value
