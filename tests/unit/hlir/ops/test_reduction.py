"""Reductions, positions of extremes, running sums and the largest elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node
from glow_nb.hlir.lower import lower
from tests.unit.hlir.ops.applying import (
    Numbers,
    apply,
    check_close,
    check_lowering,
    floats,
    onnx_result,
    value,
)

REDUCTIONS = [ops.ReduceSum, ops.ReduceMean, ops.ReduceMax, ops.ReduceMin, ops.ReduceProd]
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(st.data(), st.sampled_from(REDUCTIONS), SHAPES, st.booleans())
def test_reduction_agrees_with_onnx(
    data: st.DataObject, operator: type[Node], shape: list[int], keep_dims: bool
) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    x = floats(*shape)
    found = apply(operator, x, axes=tuple(axes), keep_dims=keep_dims)
    axes_array = np.array(axes, np.int64)
    expected = onnx_result(operator.__name__, x, axes_array, keepdims=int(keep_dims))
    check_close(found, np.asarray(expected))


def test_no_axes_reduce_nothing() -> None:
    x = floats(2, 3)
    np.testing.assert_array_equal(apply(ops.ReduceSum, x, axes=()), x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("count", [41, 49, 70_000])  # reciprocals of the first two are rounded down
def test_mean_of_ones_is_one_in_every_form(dtype: type, count: int) -> None:
    ones: Numbers = np.ones(count, dtype)
    builder = glow_nb.Builder()
    x = builder.input("x", TensorType.of(ones))
    builder.save(builder.emit(ops.ReduceMean(x, axes=(0,), keep_dims=False)), "y")
    function = builder.function()
    for form in (function, lower(function)):
        assert glow_nb.evaluate(form, {"x": ones})["y"] == 1


@pytest.mark.parametrize(
    ("operator", "dtype", "expected"),
    [
        (ops.ReduceSum, np.float32, 0),
        (ops.ReduceProd, np.float32, 1),
        (ops.ReduceMax, np.float32, -math.inf),
        (ops.ReduceMin, np.int8, 127),
        (ops.ReduceMax, np.int64, -(2**63)),
        (ops.ReduceMean, np.float32, math.nan),
    ],
)
def test_reduction_of_nothing(operator: type[Node], dtype: type, expected: float) -> None:
    x: Numbers = np.zeros((2, 0), dtype)
    found = apply(operator, x, axes=(1,), keep_dims=False)
    np.testing.assert_array_equal(found, np.full(2, expected, dtype))


def test_integers_wrap_in_their_own_kind() -> None:
    x = np.full(3, 100, np.int8)
    assert apply(ops.ReduceSum, x, axes=(0,), keep_dims=False) == np.int8(300 - 256)


@given(st.data(), SHAPES, st.booleans(), st.sampled_from([np.float32, np.float16]))
def test_lowered_mean_keeps_the_result(
    data: st.DataObject, shape: list[int], keep_dims: bool, dtype: type
) -> None:
    axes = tuple(data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True)))
    check_lowering(ops.ReduceMean, floats(*shape).astype(dtype), axes=axes, keep_dims=keep_dims)


def test_lowered_mean_of_halves_does_not_overflow() -> None:
    x = np.full((4, 100), 60000, np.float16)
    lowered = check_lowering(ops.ReduceMean, x, axes=(1,))
    assert lowered.nodes[-2].type.kind.value == "float16"
    check_lowering(ops.ReduceMean, np.zeros((2, 0), np.float32), axes=(1,))


@given(st.data(), st.sampled_from([ops.ArgMax, ops.ArgMin]), SHAPES, st.booleans(), st.booleans())
def test_position_agrees_with_onnx(
    data: st.DataObject, operator: type[Node], shape: list[int], keep: bool, last: bool
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = np.random.default_rng(0).integers(0, 3, shape).astype(np.float32)
    found = apply(operator, x, axis=axis, keep_dims=keep, select_last=last)
    attributes: dict[str, Any] = {"keepdims": int(keep), "select_last_index": int(last)}
    expected = onnx_result(operator.__name__, x, axis=axis, **attributes)
    np.testing.assert_array_equal(found, expected)


@given(st.data(), SHAPES, st.booleans(), st.booleans())
def test_running_sum(data: st.DataObject, shape: list[int], exclusive: bool, reverse: bool) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    found = apply(ops.CumSum, x, axis=axis, exclusive=exclusive, reverse=reverse)
    expected = np.zeros_like(x)
    places = np.arange(shape[axis])
    for i in places:
        taken = places[i:] if reverse else places[: i + 1]
        taken = taken[taken != i] if exclusive else taken
        target = np.moveaxis(expected, axis, 0)
        target[i] = np.take(x, taken, axis=axis).sum(axis=axis)
    np.testing.assert_array_equal(found, expected)


@given(st.data(), SHAPES, st.booleans())
def test_top_k(data: st.DataObject, shape: list[int], largest: bool) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(0, shape[axis]))
    x = np.random.default_rng(0).integers(0, 4, shape).astype(np.float32)
    values, indices = apply(ops.TopK, x, k=k, axis=axis, largest=largest)
    rows = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
    signed = -rows if largest else rows
    expected = [sorted(zip(row, range(row.size), strict=True))[:k] for row in signed]
    found = np.moveaxis(indices, axis, -1).reshape(len(rows), k)
    places = [[i for _, i in row] for row in expected]
    np.testing.assert_array_equal(found, np.array(places).reshape(len(rows), k))
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, axis))


def test_largest_of_extreme_integers() -> None:
    x = np.array([-(2**63), 2**63 - 1, 0], np.int64)
    values, indices = apply(ops.TopK, x, k=2, axis=0)
    np.testing.assert_array_equal(values, [2**63 - 1, 0])
    np.testing.assert_array_equal(indices, [1, 2])


def test_bad_axes_are_named() -> None:
    x = value("float32<2 x 3>")
    with pytest.raises(VerifyError, match=r"axis 2 .*rank 2.*0 to 1"):
        ops.ReduceSum(x, (2,))
    with pytest.raises(VerifyError, match=r"\(1, 1\)"):
        ops.ReduceSum(x, (1, 1))
    with pytest.raises(VerifyError, match=r"axis -1"):
        ops.CumSum(x, -1)
    with pytest.raises(VerifyError, match=r"k = 4 .*0\.\.3"):
        ops.TopK(x, 4, 1)
    with pytest.raises(VerifyError, match="empty"):
        ops.ArgMax(value("float32<0>"), 0)
