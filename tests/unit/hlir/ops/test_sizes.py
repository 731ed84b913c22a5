"""Sizes as the numbers of a tensor, which a run tells."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.hlir.with_sizes import with_sizes

TABLE = np.arange(60, dtype=np.float32).reshape(20, 3)


def _model() -> onnx.ModelProto:
    """Return a model of its own shape: its numbers, a half of it, and a row that it chooses."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "past", 2])
    kinds = {"shape": TensorProto.INT64, "half": TensorProto.FLOAT, "row": TensorProto.FLOAT}
    outputs = [helper.make_tensor_value_info(name, k, None) for name, k in kinds.items()]
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "a_half"], ["half"]),
        helper.make_node("Gather", ["shape", "one"], ["past"], axis=0),
        helper.make_node("Gather", ["table", "past"], ["row"], axis=0),
    ]
    constants = {"a_half": np.float32(0.5), "one": np.array([1]), "table": TABLE}
    weights = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "own_shape", [x], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_model_computes_with_its_own_sizes(backend: str) -> None:
    net = glow_nb.compile(_model(), sizes={}, backend=backend, threads=1)
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert not net.specialized
    for batch, past in ((1, 1), (3, 19), (2, 7)):
        found = net.run({"x": np.zeros((batch, past, 2), np.float32)})
        np.testing.assert_array_equal(found["shape"], [batch, past, 2])
        np.testing.assert_array_equal(found["half"], [batch / 2, past / 2, 1])
        np.testing.assert_array_equal(found["row"], TABLE[[past]])
    assert len(net.variants) == 1


def test_known_sizes_are_constants_of_an_exported_model() -> None:
    function = glow_nb.load(_model(), open_sizes=True)
    assert isinstance(function, glow_nb.Function)
    model = glow_nb.export_onnx(with_sizes(function, {"batch": 4, "past": 5}))
    found = glow_nb.compile(model, backend="interpreter").run(np.zeros((4, 5, 2), np.float32))
    np.testing.assert_array_equal(found["shape"], [4, 5, 2])
