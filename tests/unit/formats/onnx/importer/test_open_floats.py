"""Sizes that a model converts to floats, computes with, and converts back, or resizes by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.errors import GlowWarning
from glow_nb.hlir.evaluate import evaluate


def _node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def _model(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[str | int], opset: int = 17, **weights: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _check(model: onnx.ModelProto, shapes: Sequence[tuple[int, ...]]) -> None:
    """Hold the graph with open sizes against ONNX Runtime."""
    function = glow_nb.load(model, open_sizes=True)
    assert not function.guards
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for shape in shapes:
        feeds = {"x": np.random.default_rng(0).standard_normal(shape, np.float32)}
        (wanted,) = session.run(None, feeds)
        np.testing.assert_allclose(evaluate(function, feeds)["y"], wanted, atol=1e-6)


SIZE = [_node("Shape", "x", "shape"), _node("Cast", "shape", "n", to=TensorProto.FLOAT)]
INTEGER = {"to": TensorProto.INT64}


@pytest.mark.parametrize(
    "steps",
    [
        [_node("Mul", "n half", "m"), _node("Floor", "m", "z")],
        [_node("Div", "n three", "m"), _node("Ceil", "m", "z")],
        [_node("Mul", "n half", "m"), _node("Add", "m half", "z")],
        [
            _node("Div", "n three", "m"),
            _node("Neg", "m", "k"),
            _node("Floor", "k", "l"),
            _node("Neg", "l", "z"),
        ],
        [_node("Less", "n half", "is"), _node("Where", "is half n", "z")],
    ],
)
def test_a_float_that_is_made_of_a_size_is_a_size_again(steps: list[onnx.NodeProto]) -> None:
    ends = [
        _node("Cast", "z", "whole", **INTEGER),
        _node("Add", "whole one", "wanted"),
        _node("Expand", "number wanted", "y"),
    ]
    model = _model(
        [*SIZE, *steps, *ends],
        ("n",),
        half=np.array([0.5], np.float32),
        three=np.array([3], np.float32),
        one=np.array([1], np.int64),
        number=np.array([7], np.float32),
    )
    _check(model, [(1,), (2,), (3,), (7,), (48,), (101,)])


@pytest.mark.parametrize(("first", "step"), [(0.0, 1.0), (0.5, 1.0), (2.0, 0.25)])
def test_a_range_of_floats_ends_at_a_size(first: float, step: float) -> None:
    """Detectors write the places of their cells so."""
    nodes = [
        *SIZE,
        _node("Squeeze", "n", "end"),
        _node("Add", "end two", "later"),
        _node("Range", "first later step", "places"),
        _node("Identity", "places", "y"),
    ]
    numbers: dict[str, Any] = {
        "first": np.float32(first),
        "step": np.float32(step),
        "two": np.float32(2),
    }
    _check(_model(nodes, ("n",), **numbers), [(1,), (2,), (9,), (40,)])


@pytest.mark.parametrize("opset", [9, 10, 13])
def test_an_image_is_resized_by_the_quotient_of_two_sizes(opset: int) -> None:
    """Exporters of the older opsets write so that one map is to be as large as another one."""
    nodes = [
        _node("MaxPool", "x", "small", kernel_shape=[2, 2], strides=[2, 2]),
        _node("Shape", "x", "of_x"),
        _node("Shape", "small", "of_small"),
        _node("Cast", "of_x", "large_size", to=TensorProto.FLOAT),
        _node("Cast", "of_small", "small_size", to=TensorProto.FLOAT),
        _node("Div", "large_size small_size", "scales"),
    ]
    op = "Upsample" if opset == 9 else "Resize"
    how = {"mode": "linear"} if opset == 13 else {"mode": "nearest"}
    nodes.append(_node(op, "small roi scales" if opset == 13 else "small scales", "y", **how))
    weights = {"roi": np.zeros(0, np.float32)} if opset == 13 else {}
    _check(_model(nodes, (1, 2, "h", "w"), opset, **weights), [(1, 2, 8, 6), (1, 2, 9, 14)])


def test_a_float_with_rounding_makes_the_size_a_number() -> None:
    nodes = [
        *SIZE,
        _node("Mul", "n tenth", "z"),
        _node("Cast", "z", "wanted", **INTEGER),
        _node("Expand", "number wanted", "y"),
    ]
    model = _model(
        nodes, ("n",), tenth=np.array([0.1], np.float32), number=np.array([7], np.float32)
    )
    with pytest.warns(GlowWarning, match="size 'n' is made 32"):
        glow_nb.load(model, open_sizes=True)
