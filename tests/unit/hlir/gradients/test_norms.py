"""Gradients of norms of zeros are 0, as in PyTorch, where those of the root alone are infinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.differentiate import differentiate

X = np.array([[0, 0, 0, 0], [3, 4, 0, 0]], np.float32).reshape(2, 1, 4)
Nodes = list[onnx.NodeProto]


def _node(operator: str, inputs: str = "x", result: str = "y", **attributes: Any) -> Nodes:
    return [helper.make_node(operator, inputs.split(), [result], **attributes)]


def _cosine() -> Nodes:
    """Return x . z / max(|x| |z|, 1e-6), by rows."""
    return [
        *_node("Mul", "x z", "xz"),
        *_node("ReduceSum", "xz axis", "dot"),
        *_node("ReduceL2", "x axis", "x_norm"),
        *_node("ReduceL2", "z axis", "z_norm"),
        *_node("Mul", "x_norm z_norm", "norms"),
        *_node("Max", "norms least", "divisor"),
        *_node("Div", "dot divisor"),
    ]


def _distance(root: str) -> Nodes:
    """Return the mean distance of x and the zeros, the square by a power."""
    return [
        *_node("Sub", "x zero", "away"),
        *_node("Pow", "away two", "square"),
        *_node("ReduceMean", "square axis", "mean"),
        *(_node("Sqrt", "mean") if root == "sqrt" else _node("Pow", "mean half")),
    ]


LP: dict[str, Callable[[], Nodes]] = {
    "LpNormalization 1": lambda: _node("LpNormalization", p=1, axis=2),
    "LpNormalization 2": lambda: _node("LpNormalization", p=2, axis=2),
    "ReduceL1": lambda: _node("ReduceL1", "x axis"),
    "ReduceL2": lambda: _node("ReduceL2", "x axis"),
    "LpPool 1": lambda: _node("LpPool", p=1, kernel_shape=[4]),
    "LpPool 2": lambda: _node("LpPool", p=2, kernel_shape=[2]),
    "LpPool 3": lambda: _node("LpPool", p=3, kernel_shape=[4]),
    "GlobalLpPool 2": lambda: _node("GlobalLpPool", p=2),
    "GlobalLpPool 3": lambda: _node("GlobalLpPool", p=3),
    "MeanVarianceNormalization": lambda: _node("MeanVarianceNormalization", axes=[2]),
    "cosine": _cosine,
    "distance": lambda: _distance("sqrt"),
    "distance by a power": lambda: _distance("pow"),
}
CONSTANTS: dict[str, Any] = {
    "axis": np.array([2]),
    "least": np.float32(1e-6),
    "two": np.float32(2),
    "half": np.float32(0.5),
    "zero": np.float32(0),
    "z": np.ones((2, 1, 4), np.float32),
}


def _slope(nodes: Nodes, x: Array) -> Array:
    """Return the gradient of the sum of 1.5 y in x."""
    used = {name for node in nodes for name in node.input}
    constants = {name: array for name, array in CONSTANTS.items() if name in used}
    tensors = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    factor = onnx.numpy_helper.from_array(np.array(1.5, np.float32), "factor")
    last = [*_node("Mul", "y factor", "scaled"), *_node("ReduceSum", "scaled", "loss", keepdims=0)]
    graph = helper.make_graph(
        [*nodes, *last],
        "norm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [*tensors, factor],
    )
    function = import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    return glow_nb.evaluate(differentiate(function, ["x"], "loss"), {"x": x})["d_x"]


@pytest.mark.parametrize("name", LP)
def test_the_gradient_of_a_norm_of_zeros_is_finite(name: str) -> None:
    make = LP[name]
    found = _slope(make(), X)
    alone = _slope(make(), np.concatenate([X[1:], X[1:]]))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[1], alone[1])
    if name.split()[0] in ("ReduceL1", "ReduceL2", "LpPool", "GlobalLpPool", "distance"):
        np.testing.assert_array_equal(found[0], 0)


def test_the_gradient_of_a_norm_is_the_direction() -> None:
    found = _slope(LP["ReduceL2"](), X)
    np.testing.assert_allclose(found[1, 0], [0.9, 1.2, 0, 0], rtol=1e-6)


def test_a_sum_of_powers_of_nothing_has_no_slope() -> None:
    x = np.array([[[-np.inf, -np.inf]], [[0, -np.inf]]], np.float32)
    found = _slope(_node("ReduceLogSumExp", "x axis"), x)
    np.testing.assert_array_equal(found, [[[0, 0]], [[1.5, 0]]])
