"""Operators whose places are counted along axes of open sizes, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.hlir.evaluate import evaluate

ONE = numpy_helper.from_array(np.array([1], np.float32))
LENGTH = [
    helper.make_node("Shape", ["x"], ["batch"], start=0, end=1),
    helper.make_node("Shape", ["x"], ["length"], start=1, end=2),
]
SQUARE = [
    helper.make_node("Concat", ["length", "length"], ["square"], axis=0),
    helper.make_node("ConstantOfShape", ["square"], ["ones"], value=ONE),
]
WEIGHTS: dict[str, Any] = {
    "four": np.array([4], np.int64),
    "rest": np.array([-1], np.int64),
    "off_on": np.array([0, 1], np.float32),
    "step": np.int64(3),
    "frame": np.int64(8),
}
CASES: list[tuple[list[onnx.NodeProto], tuple[str | int, ...], list[tuple[int, ...]]]] = [
    (
        [
            helper.make_node("ArgMax", ["x"], ["most"], axis=2, keepdims=0),
            helper.make_node("OneHot", ["most", "length", "off_on"], ["y"], axis=-1),
        ],
        ("b", "n", 8),
        [(1, 8), (2, 13), (3, 1)],
    ),
    (
        [
            *SQUARE,
            helper.make_node("EyeLike", ["ones"], ["eye"], k=1),
            helper.make_node("MatMul", ["eye", "x"], ["y"]),
        ],
        ("b", "n", 8),
        [(1, 8), (2, 13), (3, 1)],
    ),
    (
        [helper.make_node("STFT", ["x", "step", "", "frame"], ["y"])],
        ("b", "n", 1),
        [(1, 8), (2, 13), (3, 40)],
    ),
    (
        [
            helper.make_node("Div", ["length", "four"], ["blocks"]),
            helper.make_node("Concat", ["batch", "blocks", "four", "rest"], ["cut"], axis=0),
            helper.make_node("Reshape", ["x", "cut"], ["parts"]),
            helper.make_node("ReduceMax", ["parts"], ["y"], axes=[2], keepdims=0),
        ],
        ("b", "n", 8),
        [(1, 4), (2, 12), (3, 100)],
    ),
]


@pytest.mark.parametrize(("nodes", "shape", "sizes"), CASES, ids=["hot", "eye", "stft", "blocks"])
def test_places_along_open_axes_are_counted(
    nodes: Sequence[onnx.NodeProto], shape: tuple[str | int, ...], sizes: list[tuple[int, ...]]
) -> None:
    graph = helper.make_graph(
        [*LENGTH, *nodes],
        "counting",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in WEIGHTS.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    function = glow_nb.load(model, open_sizes=True)  # warns if a size is made a number
    assert isinstance(function, glow_nb.Function)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for batch, length in sizes:
        x = np.random.default_rng(0).standard_normal((batch, length, int(shape[2])), np.float32)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_allclose(evaluate(function, {"x": x})["y"], wanted, atol=1e-5)


def test_functions_of_the_standard_are_expanded_for_open_sizes() -> None:
    """ONNX is told the type of the operands, and writes the body that it has for these."""
    length = helper.make_node("Shape", ["x"], ["length"], start=2)
    nodes = [
        helper.make_node("Slice", ["length", "first", "second"], ["tokens"]),
        helper.make_node("Slice", ["cosines", "first", "tokens", "second"], ["turns"]),
        helper.make_node("RotaryEmbedding", ["x", "turns", "turns"], ["y"]),
    ]
    weights: dict[str, Any] = {
        "first": np.array([0], np.int64),
        "second": np.array([1], np.int64),
        "cosines": np.random.default_rng(0).random((1, 40, 4), np.float32),
    }
    graph = helper.make_graph(
        [length, *nodes],
        "turned",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, "n", 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 23)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    function = glow_nb.load(model, open_sizes=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for size in (1, 7, 40):
        x = np.random.default_rng(0).standard_normal((1, 2, size, 8), np.float32)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_allclose(evaluate(function, {"x": x})["y"], wanted, atol=1e-6)


def test_edges_of_one_element_need_no_guard() -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode="edge")
    graph = helper.make_graph(
        [node],
        "edges",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("h", "w"))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([2, 1, 0, 3], np.int64), "pads")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net = glow_nb.compile(model, sizes={}, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert not net.variants[0].guards
    x = np.arange(3, dtype=np.float32).reshape(1, 3)
    assert np.array_equal(net.run(x=x)["y"], np.pad(x, ((2, 0), (1, 3)), mode="edge"))
