"""Normalizations and softmax against ONNX's reference implementation, and their lowerings."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node
from tests.unit.hlir.ops.applying import (
    apply,
    channels_first,
    channels_last,
    check_close,
    check_lowering,
    floats,
    onnx_result,
    value,
)

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(st.data(), SHAPES)
def test_batch_normalization(data: st.DataObject, shape: list[int]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    vectors = [floats(shape[axis], seed=i) for i in range(1, 5)]
    vectors[3] = np.abs(vectors[3])
    x = floats(*shape)
    found = apply(ops.BatchNormalization, x, *vectors, epsilon=1e-3, channel_axis=axis)
    if len(shape) >= 2:
        front = onnx_result("BatchNormalization", np.moveaxis(x, axis, 1), *vectors, epsilon=1e-3)
        check_close(found, np.moveaxis(front, 1, axis), ulp=200)
    for dtype in (np.float32, np.float64):
        operands = [a.astype(dtype) for a in (x, *vectors)]
        check_lowering(ops.BatchNormalization, *operands, epsilon=1e-2, channel_axis=axis)


@given(st.data(), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_moments(data: st.DataObject, shape: list[int]) -> None:
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1))))
    x = floats(*shape) + np.float32(100)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of means of nothing
        wide = x.astype(np.float64)
        expected = [
            moment(wide, axis=axes, keepdims=True).astype(np.float32)
            for moment in (np.mean, np.var)
        ]
    found = apply(ops.Moments, x, axes=axes)
    for got, wanted in zip(found, expected, strict=True):
        check_close(got, wanted)
    check_lowering(ops.Moments, x.astype(np.float64), axes=axes)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(1, 7), st.integers(1, 6))
def test_local_response_normalization(outer: list[int], channels: int, size: int) -> None:
    x = floats(*outer, channels)
    found = apply(ops.LocalResponseNormalization, x, size=size, alpha=0.3, beta=0.75, bias=1.5)
    rows = np.zeros_like(x)
    for c in range(channels):
        low, high = max(0, c - (size - 1) // 2), min(channels, c + size // 2 + 1)
        total = (x[..., low:high] ** 2).sum(axis=-1)
        rows[..., c] = x[..., c] / (1.5 + 0.3 / size * total) ** 0.75
    check_close(found, rows)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_normalization_agrees_with_onnx(size: int) -> None:
    x = floats(6, 3, 3, 6)  # the reference takes the batch for the number of channels
    found = apply(ops.LocalResponseNormalization, x, size=size, alpha=0.3, beta=0.75, bias=1.5)
    expected = onnx_result("LRN", channels_first(x), size=size, alpha=0.3, beta=0.75, bias=1.5)
    check_close(found, channels_last(expected))


@given(st.data(), SHAPES, st.booleans())
def test_layer_normalization(data: st.DataObject, shape: list[int], has_bias: bool) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, scale = floats(*shape), floats(*shape[axis:], seed=1)
    bias = floats(*shape[axis:], seed=2) if has_bias else None
    found = apply(ops.LayerNormalization, x, scale, bias, axis=axis, epsilon=1e-2)
    expected = onnx_result("LayerNormalization", x, scale, bias, axis=axis, epsilon=1e-2)
    check_close(found, expected, ulp=100)
    check_lowering(ops.LayerNormalization, x, scale, bias, axis=axis, epsilon=1e-2)


def test_lowered_layer_normalization_does_not_cancel() -> None:
    x = (floats(4, 64) + 3000).astype(np.float32)
    one, zero = np.ones(64, np.float32), np.zeros(64, np.float32)
    expected = apply(ops.LayerNormalization, x, one, zero, axis=1, epsilon=1e-5)
    assert np.std(expected) == pytest.approx(1, abs=1e-3)
    wide = x.astype(np.float64)
    exact = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    check_close(expected, exact.astype(np.float32))


def test_lowered_layer_normalization_of_halves_does_not_overflow() -> None:
    x = (floats(2, 8) * 1000).astype(np.float16)
    check_lowering(ops.LayerNormalization, x, np.ones(8, np.float16), None, axis=1, epsilon=1e-5)


@given(st.data(), SHAPES, st.sampled_from([ops.Softmax, ops.LogSoftmax]))
def test_softmax(data: st.DataObject, shape: list[int], operator: type[Node]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = floats(*shape, scale=10)
    check_close(apply(operator, x, axis=axis), onnx_result(operator.__name__, x, axis=axis), ulp=60)


def test_softmax_of_infinities() -> None:
    inf, nan = math.inf, math.nan
    x = np.array([[0, -inf], [-inf, -inf], [inf, 0], [nan, 0], [1e30, 0]], np.float32)
    found = apply(ops.Softmax, x, axis=1)
    np.testing.assert_array_equal(found, [[1, 0], [nan, nan], [nan, nan], [nan, nan], [1, 0]])


@given(st.data(), SHAPES)
def test_lowered_log_softmax_keeps_the_result(data: st.DataObject, shape: list[int]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    check_lowering(ops.LogSoftmax, floats(*shape, scale=10), axis=axis)


def test_lowered_log_softmax_keeps_infinities() -> None:
    inf, nan = math.inf, math.nan
    x = np.array([[0, -inf], [-inf, -inf], [inf, 0], [nan, 0], [1e30, 0]], np.float32)
    check_lowering(ops.LogSoftmax, x, axis=1)


def test_softmax_of_nothing() -> None:
    assert apply(ops.Softmax, np.zeros((2, 0), np.float32), axis=1).shape == (2, 0)
    assert apply(ops.LogSoftmax, np.zeros((0, 2), np.float32), axis=1).shape == (0, 2)


def test_statistics_of_an_empty_batch_are_no_numbers() -> None:
    ones = np.ones(2, np.float32)
    x, c = value("float32<0 x 2>"), value("float32<2>")
    node = ops.BatchNormTraining(x, c, c, c, c, 1e-5, 1)
    result, mean, variance = node.evaluate(np.zeros((0, 2), np.float32), *4 * (ones,))
    assert result.shape == (0, 2)
    assert np.isnan(mean).all()
    assert np.isnan(variance).all()


def test_mistakes_are_named() -> None:
    x, c, d = value("float32<2 x 3>"), value("float32<3>"), value("float32<4>")
    with pytest.raises(VerifyError, match=r"'mean' is float32<4>.*float32<3>"):
        ops.BatchNormalization(x, c, c, d, c, 1e-5, 1)
    with pytest.raises(VerifyError, match=r"'bias' is float32<4>.*float32<3>"):
        ops.LayerNormalization(x, c, d, 1, 1e-5)
    with pytest.raises(VerifyError, match="axis 2"):
        ops.Softmax(x, 2)
    with pytest.raises(VerifyError, match="size is 0"):
        ops.LocalResponseNormalization(x, 0, 1.0, 1.0, 1.0)
    with pytest.raises(VerifyError, match="int32"):
        ops.LogSoftmax(value("int32<3>"), 0)
