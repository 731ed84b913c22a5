"""Models of one operator, compared with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate

RANDOM = np.random.default_rng(0)


def check(proto: onnx.ModelProto, *feeds: Any, tolerance: float = 1e-5) -> None:
    """Compare the evaluated function with onnxruntime on *feeds*, in the order of the inputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [entry.name for entry in session.get_inputs()]
    named = dict(zip(names, feeds, strict=True))
    expected = session.run(None, named)
    results = evaluate(import_onnx(proto), named)
    assert list(results) == [entry.name for entry in session.get_outputs()]
    for got, wanted in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
        assert got.dtype == wanted.dtype


def typed(proto: onnx.ModelProto, kind: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    """Declare the type of all outputs, as onnxruntime wants it."""
    for info in proto.graph.output:
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, None))
    return proto


def numbers(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)
