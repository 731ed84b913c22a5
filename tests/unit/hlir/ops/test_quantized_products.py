"""Products of quantized tensors beside ONNX's reference, and lowered to products of integers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.hlir.lower import lower
from tests.unit.hlir.ops.applying import (
    Numbers,
    as_arguments,
    channels_first,
    channels_last,
    onnx_result,
    value,
)

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16
FLOAT32 = ElementKind.FLOAT32
BYTES = st.sampled_from((INT8, UINT8))
SEEDS = st.integers(0, 2**32 - 1)
WINDOW: dict[str, Any] = {
    "kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 1, 1), "dilation": (1, 2),
}  # fmt: skip


class Draw:
    """Random operands of a product: integers of all sizes, and the extremes more often."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def integers(self, kind: ElementKind, *shape: int) -> Numbers:
        low, high = kind.limits
        numbers = self.random.integers(low, high + 1, shape)
        extremes = self.random.choice([low, high], shape)
        return np.where(self.random.random(shape) < 0.5, extremes, numbers).astype(kind.dtype)

    def offset(self, kind: ElementKind) -> int:
        return int(self.random.integers(kind.limits[0], kind.limits[1] + 1))

    def scales(self, *shape: int) -> Numbers:
        return (2.0 ** self.random.uniform(-8, 0, shape)).astype(np.float32)


def check_rounding(found: Numbers, expected: Numbers, ratio: Any) -> None:
    """Check for equality, but where the exact *ratio* is so close to a half that rounding decides.

    ONNX's reference multiplies in float64, and adds the offset before it rounds.
    """
    is_half = np.abs(np.abs(ratio - np.floor(ratio)) - 0.5) < 1e-6 * np.maximum(1, np.abs(ratio))
    apart = np.abs(found.astype(int) - expected.astype(int))
    assert apart.max(initial=0) <= 1
    np.testing.assert_array_equal(np.where(is_half, expected, found), expected)


def on_arrays(node_class: Any, arrays: dict[str, Any], types: Any, **attributes: Any) -> Any:
    """Return the result of a product, the same before and after lowering and with constants."""
    expected = None
    for constants in ((), ("filter", "filter_offset", "rhs", "rhs_offset", "weights", "bias")):
        builder = Builder()
        operands: dict[str, Value] = {}
        for name, array in arrays.items():
            if name in constants and name not in types:
                operands[name] = builder.constant(name, array)
            else:
                operands[name] = builder.input(name, types.get(name, TensorType.of(array)))
        builder.save(builder.emit(node_class(**operands, **attributes)), "y")
        function = builder.function()
        feeds = {v.name: arrays[v.name] for v in function.inputs}
        found = evaluate(function, feeds)["y"]
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(evaluate(lower(function), feeds)["y"], expected)
    return expected


@given(SEEDS, BYTES, BYTES, BYTES, st.booleans(), st.sampled_from((1, 2)))
def test_convolution_is_that_of_onnx(
    seed: int, kind: ElementKind, weights: ElementKind, target: ElementKind, each: bool, group: int
) -> None:
    draw = Draw(seed)
    x, filter = draw.integers(kind, 2, 5, 6, 4), draw.integers(weights, 6, 3, 2, 4 // group)
    count = 6 if each else 1
    scale, out_scale = draw.scales(1)[0], np.float32(draw.scales(1)[0] * 64)
    zero, out_zero = draw.offset(kind), draw.offset(target)
    filter_scale, filter_offset = draw.scales(count), draw.integers(weights, count)
    bias = draw.random.integers(-(2**12), 2**12, 6).astype(np.int32)
    arrays = {
        "input": x, "filter": filter, "bias": bias, "filter_scale": filter_scale,
        "filter_offset": filter_offset.astype(np.int32),
    }  # fmt: skip
    types = {"input": TensorType(kind, x.shape, float(scale), zero)}
    goal = {"kind": target, "scale": float(out_scale), "offset": out_zero}
    found = on_arrays(ops.QuantizedConvolution, arrays, types, **WINDOW, **goal, group=group)
    expected = channels_last(
        onnx_result(
            "QLinearConv",
            channels_first(x), scale, np.array(zero, kind.dtype),
            channels_first(filter), filter_scale if each else filter_scale[0],
            filter_offset if each else filter_offset[0],
            out_scale, np.array(out_zero, target.dtype), bias,
            strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2], group=group,
        )
    )  # fmt: skip
    real = on_arrays(ops.QuantizedConvolution, arrays, types, **WINDOW, kind=FLOAT32, group=group)
    check_rounding(found, expected, real.astype(np.float64) / out_scale)


@given(SEEDS, BYTES, BYTES, BYTES, st.booleans(), st.booleans())
def test_mat_mul_is_that_of_onnx(
    seed: int, kind: ElementKind, weights: ElementKind, target: ElementKind, each: bool, batch: bool
) -> None:
    draw = Draw(seed)
    lhs, rhs = draw.integers(kind, 2, 3, 40), draw.integers(weights, *((2,) * batch), 40, 5)
    count = 5 if each and not batch else 1
    scale, out_scale = draw.scales(1)[0], np.float32(draw.scales(1)[0] * 64)
    zero, out_zero = draw.offset(kind), draw.offset(target)
    rhs_scale, rhs_offset = draw.scales(count), draw.integers(weights, count)
    arrays = {
        "lhs": lhs, "rhs": rhs, "rhs_scale": rhs_scale, "rhs_offset": rhs_offset.astype(np.int32)
    }  # fmt: skip
    types = {"lhs": TensorType(kind, lhs.shape, float(scale), zero)}
    goal = {"kind": target, "scale": float(out_scale), "offset": out_zero}
    found = on_arrays(ops.QuantizedMatMul, arrays, types, **goal)
    is_row = count > 1
    expected = onnx_result(
        "QLinearMatMul",
        lhs, scale, np.array(zero, kind.dtype),
        rhs, rhs_scale if is_row else rhs_scale[0], rhs_offset if is_row else rhs_offset[0],
        out_scale, np.array(out_zero, target.dtype),
    )  # fmt: skip
    real = on_arrays(ops.QuantizedMatMul, arrays, types, kind=FLOAT32)
    check_rounding(found, expected, real.astype(np.float64) / out_scale)


@given(SEEDS, BYTES, BYTES)
def test_a_dense_layer_is_a_product_and_a_row(
    seed: int, kind: ElementKind, weights: ElementKind
) -> None:
    draw = Draw(seed)
    x, w, bias = draw.integers(kind, 3, 7), draw.integers(weights, 7, 4), np.arange(4, dtype="i4")
    zero, offsets = draw.offset(kind), draw.integers(weights, 4).astype(np.int32)
    scale, scales = float(draw.scales(1)[0]), draw.scales(4)
    arrays = {
        "input": x, "weights": w, "bias": bias, "weight_scale": scales, "weight_offset": offsets
    }  # fmt: skip
    types = {"input": TensorType(kind, x.shape, scale, zero)}
    found = on_arrays(ops.QuantizedFullyConnected, arrays, types, kind=FLOAT32)
    sums = (x.astype(int) - zero) @ (w.astype(int) - offsets) + bias
    factor = np.float32(scale) * scales
    np.testing.assert_array_equal(found, sums.astype(np.float32) * factor)


@given(SEEDS, BYTES, BYTES, st.sampled_from((1, 2)), st.booleans())
def test_a_transposed_convolution_is_that_of_the_distances(
    seed: int, kind: ElementKind, weights: ElementKind, group: int, each: bool
) -> None:
    draw, window = Draw(seed), {**WINDOW, "dilation": (1, 1), "size": (5, 5), "group": group}
    x, filter = draw.integers(kind, 1, 3, 5, 4), draw.integers(weights, 4, 3, 2, 4 // group)
    count, zero, scale = 4 if each else 1, draw.offset(kind), float(draw.scales(1)[0])
    offsets, scales = draw.integers(weights, count).astype(np.int32), draw.scales(count)
    arrays = {
        "input": x, "filter": filter, "bias": np.arange(4, dtype="i4"), "filter_scale": scales,
        "filter_offset": offsets,
    }  # fmt: skip
    types = {"input": TensorType(kind, x.shape, scale, zero)}
    found = on_arrays(ops.QuantizedTransposedConvolution, arrays, types, **window, kind=FLOAT32)
    inner = filter.shape[-1]
    spread = np.broadcast_to(offsets, 4).reshape(group, 1, 1, 1, inner)
    centred = filter.astype(int).reshape(group, -1, 3, 2, inner) - spread
    shapes = (f"float64<{' x '.join(map(str, a.shape))}>" for a in (x, filter))
    operands: list[Any] = list(map(value, shapes))
    plain = ops.TransposedConvolution(*operands, **window)
    sums = plain.evaluate(
        x.astype(np.float64) - zero, centred.reshape(filter.shape).astype(np.float64)
    )
    expected = (sums + np.arange(4)).astype(np.float32) * (np.float32(scale) * scales)
    np.testing.assert_array_equal(found, expected)


WHOLE_WINDOW = {"kernel": (5, 5), "stride": (1, 1), "pads": (0, 0, 0, 0)}
"""The only window of 5 x 5 pixels, whose sums are no convolution."""


@given(SEEDS, BYTES, st.booleans(), st.sampled_from([WINDOW, WHOLE_WINDOW]))
def test_an_average_is_that_of_the_distances(
    seed: int, kind: ElementKind, count: bool, sizes: dict[str, Any]
) -> None:
    draw, window = Draw(seed), {**sizes, "dilation": (1, 1)}
    x, zero = draw.integers(kind, 2, 5, 5, 3), draw.offset(kind)
    types = {"input": TensorType(kind, x.shape, 0.5, zero)}
    goal = {"kind": INT16, "scale": 0.001, "offset": 5, "count_padding": count}
    found = on_arrays(ops.QuantizedAveragePool, {"input": x}, types, **window, **goal)
    input = value("float64<2 x 5 x 5 x 3>")
    mean = ops.AvgPool(input, **window, count_padding=count).evaluate(x.astype(np.float64) - zero)
    expected = np.clip(np.rint(mean * 500) + 5, -(2**15), 2**15 - 1)
    assert np.abs(found - expected).max() <= 1
    assert np.mean(found == expected) > 0.9


@pytest.mark.parametrize(("pads", "is_sum"), [((0, 0, 0, 0), True), ((1, 0, 0, 1), False)])
def test_a_mean_of_all_pixels_is_a_sum(pads: tuple[int, ...], is_sum: bool) -> None:
    builder, random = Builder(), np.random.default_rng(0)
    x = builder.input("x", TensorType(UINT8, (1, 4, 5, 3), 0.5, 9))
    window: dict[str, Any] = {"kernel": (4, 5), "stride": (1, 1), "pads": pads, "dilation": (1, 1)}
    goal: dict[str, Any] = {"kind": UINT8, "scale": 0.25, "offset": 3}
    builder.save(builder.emit(ops.QuantizedAveragePool(x, **window, **goal)), "y")
    function = builder.function()
    made = lower(function)
    assert any(isinstance(node, ops.ReduceSum) for node in made) == is_sum
    assert any(isinstance(node, ops.Convolution) for node in made) != is_sum
    feeds = {"x": random.integers(0, 256, (1, 4, 5, 3), np.uint8)}
    np.testing.assert_array_equal(evaluate(made, feeds)["y"], evaluate(function, feeds)["y"])


def test_sums_of_the_extremes_are_exact() -> None:
    """The longest sum that int32 holds: float32 would have lost its last bits."""
    length = (2**31 - 1) // (255 * 255)
    lhs = np.full((1, length), 255, np.uint8)
    rhs = np.full((length, 1), 255, np.uint8)
    one = {"rhs_scale": np.ones(1, np.float32), "rhs_offset": np.zeros(1, np.int32)}
    types = {"lhs": TensorType(UINT8, lhs.shape, 1.0, 0)}
    for less in range(3):
        lhs[0, :less] = 254
        goal = {"kind": INT16, "scale": float(2**17), "offset": 0}
        found = on_arrays(ops.QuantizedMatMul, {"lhs": lhs, "rhs": rhs, **one}, types, **goal)
        exact = int(lhs.astype(np.int64).sum()) * 255
        assert found == np.rint(np.float32(exact) / np.float32(2**17))


@given(st.sampled_from((ops.QuantizedAdd, ops.QuantizedSub, ops.QuantizedMul)), SEEDS)
def test_arithmetic_is_that_of_real_numbers(operator: Any, seed: int) -> None:
    draw = Draw(seed)
    x, y = draw.integers(INT8, 4, 1), draw.integers(UINT8, 1, 5)
    types = {"lhs": TensorType(INT8, x.shape, 0.1, 3), "rhs": TensorType(UINT8, y.shape, 0.02, 90)}
    goal = {"kind": INT8, "scale": 0.07, "offset": -4}
    found = on_arrays(operator, {"lhs": x, "rhs": y}, types, **goal)
    a = (x.astype(np.float32) - 3) * np.float32(0.1)
    b = (y.astype(np.float32) - 90) * np.float32(0.02)
    real = operator.function(a, b) / np.float32(0.07)
    np.testing.assert_array_equal(found, np.clip(np.rint(real) - 4, -128, 127))


def convolution(**changes: Any) -> Node:
    operands = {
        "input": value("uint8<1 x 5 x 5 x 4, scale = 0.5, offset = 3>"),
        "filter": value("int8<6 x 3 x 3 x 4>"),
        "bias": value("int32<6>"),
        "filter_scale": value("float32<6>"),
        "filter_offset": value("int32<1>"),
    }
    window = {"kernel": (3, 3), "stride": (1, 1), "pads": (0,) * 4, "dilation": (1, 1)}
    attributes = {"kind": UINT8, "scale": 0.5, "offset": 0}
    return ops.QuantizedConvolution(**{**operands, **window, **attributes, **changes})


def test_a_filter_with_an_offset_stays_of_bytes() -> None:
    filter = Constant.of("w", np.arange(6 * 36).reshape(6, 3, 3, 4).astype(np.uint8))
    offset = Constant.of("o", np.array([128], np.int32))
    node = convolution(filter=filter, filter_offset=offset)
    builder = Builder()
    input = builder.input("x", node.input.type)  # type: ignore[attr-defined]
    names = {n: builder.input(n, getattr(node, n).type) for n in ("bias", "filter_scale")}
    builder.save(
        builder.emit(convolution(input=input, filter=filter, filter_offset=offset, **names)), "y"
    )
    (product,) = (n for n in lower(builder.function()).nodes if isinstance(n, ops.Convolution))
    assert (product.input.type.kind, product.filter.type.kind) == (UINT8, INT8)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"input": "uint8<1 x 5 x 5 x 4>"}, "must have a quantized type; quantize it"),
        ({"filter_scale": "float32<5>"}, "must be float32<1>, or float32<6> with one number"),
        ({"filter_offset": "int8<6>"}, "must be int32<1>, or int32<6>"),
        ({"filter": "float32<6 x 3 x 3 x 4>"}, "its kind must be one of"),
        ({"bias": "float32<6>"}, "'bias' is float32<6>, but filter"),
        ({"scale": 0.0}, "scale 0.0 must be positive and finite"),
        ({"offset": -1}, "offset -1 is outside uint8"),
        ({"kind": FLOAT32}, "scale 0.5 and offset 0 mean nothing to a plain result of float32"),
        (
            {"filter_scale": np.zeros(6, np.float32)},
            "holds [0.0]; every scale must be positive and finite",
        ),
        (
            {"filter_offset": np.array([200], np.int32)},
            "holds [200], which is outside int8, the kind of the weights",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(problem)):
        convolution(**as_arguments(changes))
