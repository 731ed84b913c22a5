"""Clip and Softmax of every opset: their defaults changed, and what they take."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from glow_nb.base.errors import ModelError
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import one, value, weight
from tests.unit.formats.onnx.importer.reference import check, numbers, typed


@pytest.mark.parametrize(
    ("opset", "bounds"),
    [
        (7, {}),
        (10, {"max": 1.0}),
        (11, {}),
        (12, {"min": -1.0}),
        (13, {"max": 1.0}),
        (13, {}),
        (21, {"min": -1.0, "max": 1.0}),
    ],
)
def test_clip_without_a_bound_leaves_no_infinity(opset: int, bounds: dict[str, Any]) -> None:
    shape, weights = (5,), [weight(name, np.float32(bound)) for name, bound in bounds.items()]
    if opset < 11:
        proto = one("Clip", opset=opset, inputs=[value("x", shape)], **bounds)
    else:
        names = ["x", *(name if name in bounds else "" for name in ("min", "max"))]
        proto = one("Clip", names, opset=opset, inputs=[value("x", shape)], weights=weights)
    check(typed(proto), np.array([np.inf, -np.inf, np.nan, 2, -3], np.float32), tolerance=0)


def test_clip_with_a_bound_of_run_time_leaves_no_infinity() -> None:
    inputs = [value("x", (3,)), value("low", ())]
    proto = typed(one("Clip", ("x", "low"), opset=13, inputs=inputs))
    check(proto, np.array([np.inf, -np.inf, 2], np.float32), np.array(1, np.float32), tolerance=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("opset", [10, 13])
def test_clip_without_a_bound_knows_the_largest_of_its_kind(dtype: str, opset: int) -> None:
    kind = ElementKind(dtype).dtype
    code = helper.np_dtype_to_tensor_dtype(kind)
    function = import_onnx(one("Clip", opset=opset, inputs=[value("x", (2,), code)]))
    got = evaluate(function, {"x": np.array([np.inf, -np.inf], kind)})["y"]
    largest = ml_dtypes.finfo(kind).max  # type: ignore[no-untyped-call]
    assert got.tolist() == [largest, -largest]


@pytest.mark.parametrize("opset", [7, 10, 11, 12])
@pytest.mark.parametrize(
    ("op", "expected"), [("Softmax", 1.0), ("LogSoftmax", 0.0), ("Hardmax", 1.0)]
)
def test_softmax_of_a_vector_is_by_default_that_of_a_column(
    op: str, expected: float, opset: int
) -> None:
    function = import_onnx(one(op, opset=opset, inputs=[value("x", (3,))]))
    got = evaluate(function, {"x": np.array([1, 2, 3], np.float32)})["y"]
    assert got.tolist() == [expected] * 3


@pytest.mark.parametrize("opset", [7, 11, 12, 13])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_of_a_vector_along_itself(op: str, axis: int, opset: int) -> None:
    check(typed(one(op, opset=opset, inputs=[value("x", (4,))], axis=axis)), numbers(4))


@pytest.mark.parametrize(("opset", "axis"), [(11, 1), (12, 1), (13, 1), (10, 2), (7, -2)])
def test_softmax_along_an_axis_that_is_not_there(opset: int, axis: int) -> None:
    with pytest.raises(ModelError, match=f"axis {axis} is outside a tensor of rank 1"):
        import_onnx(one("Softmax", opset=opset, inputs=[value("x", (4,))], axis=axis))
