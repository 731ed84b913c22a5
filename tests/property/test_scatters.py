"""Random scatters mean what ONNX's reference implementation and onnxruntime make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

import glow_nb
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.in_turn import one_in
from tests.unit.formats.onnx.importer.models import one, value

REDUCTIONS = ("none", "add", "mul", "max", "min")
KINDS = (np.float32, np.int64, np.int32, np.float64)


def _draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model of one scatter at indices that a run gives, and what to feed it."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 5))))
    kind = KINDS[int(rng.integers(len(KINDS)))]
    attributes: dict[str, Any] = {"reduction": REDUCTIONS[int(rng.integers(5))]}
    if rng.integers(2):
        axis = int(rng.integers(len(shape)))
        wanted = [int(rng.integers(1, n + 1)) for n in shape]
        wanted[axis] = int(rng.integers(1, 9))
        places = rng.integers(-shape[axis], shape[axis], wanted)
        op, news = "ScatterElements", tuple(wanted)
        attributes["axis"] = axis - len(shape) * int(rng.integers(2))
    else:
        depth = int(rng.integers(1, len(shape) + 1))
        points = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 3))))
        places = rng.integers(-np.array(shape[:depth]), shape[:depth], (*points, depth))
        op, news = "ScatterND", (*points, *shape[depth:])
    feeds = {
        "x": rng.integers(-4, 5, shape).astype(kind),
        "i": places.astype(np.int64),
        "u": rng.integers(-4, 5, news).astype(kind),
    }
    inputs = [
        value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in feeds.items()
    ]
    model = one(op, ("x", "i", "u"), opset=18, inputs=inputs, **attributes)
    kind_code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", kind_code, shape))
    return model, feeds


def _reference(model: onnx.ModelProto, feeds: dict[str, Any]) -> Any:
    results: Any = ReferenceEvaluator(model).run(None, feeds)
    return results[0]


@settings(max_examples=150)
@given(st.integers(0, 1 << 32))
def test_scatters_mean_what_the_reference_makes_of_them(seed: int) -> None:
    model, feeds = _draw(seed)
    expected = _reference(model, feeds)
    found = evaluate(import_onnx(model), feeds)["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=60)
@given(st.integers(0, 1 << 32))
def test_combining_scatters_mean_what_onnxruntime_makes_of_them(seed: int) -> None:
    model, feeds = _draw(seed)
    if helper.get_node_attr_value(model.graph.node[0], "reduction") == b"none":
        return  # in what order updates of one place come is not said there
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, feeds)
    np.testing.assert_array_equal(evaluate(import_onnx(model), feeds)["y"], expected)


@pytest.mark.jit
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("seed", range(6))
def test_compiled_scatters_mean_the_same(seed: int, backend: str) -> None:
    model, feeds = _draw(seed)
    expected = _reference(model, feeds)
    network = glow_nb.compile(model, backend=backend, threads=2)
    np.testing.assert_array_equal(network.run(feeds)["y"], expected)


@pytest.mark.jit
@pytest.mark.parametrize("order", [("a", "y"), ("y", "a"), ("y", "x", "a")])
@pytest.mark.parametrize("seed", one_in(20, range(20), first=2, always=(3,)))
def test_a_result_lies_beside_its_own_data(seed: int, order: tuple[str, ...]) -> None:
    """Both are written where they are concatenated, at different places of one region."""
    model, feeds = _draw(seed)
    graph = model.graph
    graph.node[0].input[0] = "a"
    graph.node.insert(0, helper.make_node("Neg", ["x"], ["a"]))
    graph.node.append(helper.make_node("Concat", order, ["both"], axis=0))
    shape = [len(order) * feeds["x"].shape[0], *feeds["x"].shape[1:]]
    kind = graph.output[0].type.tensor_type.elem_type
    graph.output[0].CopyFrom(helper.make_tensor_value_info("both", kind, shape))
    found = glow_nb.compile(model).run(feeds)["both"]
    np.testing.assert_array_equal(found, _reference(model, feeds))
