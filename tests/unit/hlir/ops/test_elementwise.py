"""Functions of one element, activations among them, against ONNX's reference implementation."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.base.schema import attribute_specs
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node
from glow_nb.hlir.ops.families import UnaryElementwise
from tests.unit.hlir.ops.applying import (
    Numbers,
    apply,
    check_close,
    check_lowering,
    floats,
    onnx_result,
    value,
)

SPECIAL = np.array([0.0, -0.0, 1, -1, math.inf, -math.inf, math.nan, 0.5, 1.5, 2.5, 90, -90])
PLAIN = [
    operator
    for operator in (getattr(ops, name) for name in ops.__all__ if name != "InverseErf")
    if issubclass(operator, UnaryElementwise) and not attribute_specs(operator)
]
"""The inverse error function is none of ONNX's; the tests of random numbers have it."""

WITH_ATTRIBUTES: list[tuple[type[Node], dict[str, Any]]] = [
    (ops.LeakyRelu, {"alpha": 0.2}),
    (ops.Elu, {"alpha": 1.5}),
    (ops.HardSigmoid, {"alpha": 0.25, "beta": 0.4}),
    (ops.Gelu, {"approximate": "none"}),
    (ops.Gelu, {"approximate": "tanh"}),
]
LOWERED: list[tuple[type[Node], dict[str, Any]]] = [
    *WITH_ATTRIBUTES,
    (ops.Relu, {}),
    (ops.Softplus, {}),
    (ops.HardSwish, {}),
    (ops.Swish, {}),
    (ops.Swish, {"alpha": 1.5}),
    (ops.Clip, {"minimum": -0.5, "maximum": 1.0}),
    (ops.Clip, {"minimum": 1.0, "maximum": -1.0}),
    (ops.Clip, {"minimum": 0.0}),
    (ops.Clip, {}),
]


def samples(scale: float = 1.0) -> Any:
    return np.concatenate([floats(500, scale=scale), SPECIAL.astype(np.float32)])


@pytest.mark.parametrize("operator", PLAIN)
def test_function_agrees_with_onnx(operator: type[Node]) -> None:
    x = samples(3)
    if operator is ops.Not:
        x = x > 0
    # The reference's softplus overflows, and its NaNs are not the same for all functions.
    usable = x < 80 if operator is ops.Softplus else x == x
    found = apply(operator, x)
    check_close(found[usable], onnx_result(operator.__name__, x)[usable])
    if found.dtype != np.bool_:
        assert np.isnan(found[np.isnan(x)]).all()


@pytest.mark.parametrize(("node_class", "attributes"), WITH_ATTRIBUTES)
def test_parametrised_activation_agrees_with_onnx(
    node_class: type[Node], attributes: dict[str, Any]
) -> None:
    x = floats(500, scale=3)
    expected = onnx_result(node_class.__name__, x, **attributes)
    check_close(apply(node_class, x, **attributes), expected)


def test_halves_round_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    np.testing.assert_array_equal(apply(ops.Round, x), [0, 2, 2, 0, -2])


def test_error_function_has_no_error_of_its_own() -> None:
    x = np.linspace(-4, 4, 101)
    np.testing.assert_array_equal(apply(ops.Erf, x), [math.erf(v) for v in x])


@pytest.mark.parametrize(
    ("positive", "negative", "expected"),
    [(True, True, [1, 1, 0, 0]), (True, False, [1, 0, 0, 0]), (False, True, [0, 1, 0, 0])],
)
def test_infinities_are_told_apart(positive: bool, negative: bool, expected: list[int]) -> None:
    x = np.array([math.inf, -math.inf, math.nan, 1], np.float32)
    found = apply(ops.IsInf, x, positive=positive, negative=negative)
    np.testing.assert_array_equal(found, np.array(expected, bool))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_other_floats_are_rounded_once(kind: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16) if kind == "bfloat16" else np.dtype(kind)
    x = floats(50).astype(dtype)
    found = apply(ops.Sigmoid, x)
    expected = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(dtype)
    np.testing.assert_array_equal(found, expected)


def test_least_integer_has_no_negation() -> None:
    x = np.array([-128, 5], np.int8)
    np.testing.assert_array_equal(apply(ops.Neg, x), np.array([-128, -5], np.int8))
    np.testing.assert_array_equal(apply(ops.Abs, x), np.array([-128, 5], np.int8))


@pytest.mark.parametrize(
    ("dtype", "low", "high", "expected"),
    [
        (np.int32, -1.5, 2.5, [-1, -1, 0, 2, 2]),
        (np.int8, -math.inf, 1e30, [-100, -1, 0, 3, 100]),
        (np.int64, 0.0, math.inf, [0, 0, 0, 3, 100]),
        (np.int8, -math.inf, -math.inf, [-128] * 5),
        (np.int16, math.inf, math.inf, [32767] * 5),
    ],
)
def test_clip_of_integers_keeps_their_kind(
    dtype: type, low: float, high: float, expected: list[int]
) -> None:
    x: Numbers = np.array([-100, -1, 0, 3, 100], dtype)
    np.testing.assert_array_equal(
        apply(ops.Clip, x, minimum=low, maximum=high), np.array(expected, dtype)
    )
    check_lowering(ops.Clip, x, minimum=low, maximum=high)


def test_clip_with_crossed_bounds_gives_the_maximum() -> None:
    x = floats(10)
    np.testing.assert_array_equal(apply(ops.Clip, x, minimum=1.0, maximum=-1.0), -np.ones(10))


def test_prelu_broadcasts_its_slope() -> None:
    x, slope = floats(2, 3, 4), floats(1, 1, 4, seed=1)
    np.testing.assert_array_equal(apply(ops.PRelu, x, slope), np.where(x >= 0, x, slope * x))
    check_lowering(ops.PRelu, x, slope)


COMPUTED = [kind for kind in ElementKind if not kind.is_storage]


@given(st.sampled_from(COMPUTED), st.sampled_from(COMPUTED))
def test_conversion_is_numpys(source: ElementKind, target: ElementKind) -> None:
    x = np.array([0, 1, 2, 100]).astype(source.dtype)
    found = apply(ops.ConvertTo, x, kind=target)
    np.testing.assert_array_equal(found, x.astype(target.dtype))


def test_conversion_to_integer_truncates_and_nan_is_true() -> None:
    x = np.array([1.9, -1.9], np.float32)
    np.testing.assert_array_equal(apply(ops.ConvertTo, x, kind=ElementKind.INT32), [1, -1])
    nan = np.array([math.nan, 0.0, 0.1], np.float32)
    found = apply(ops.ConvertTo, nan, kind=ElementKind.BOOL)
    np.testing.assert_array_equal(found, [True, False, True])


@pytest.mark.parametrize(("node_class", "attributes"), LOWERED)
def test_lowered_activation_keeps_the_result(
    node_class: type[Node], attributes: dict[str, Any]
) -> None:
    check_lowering(node_class, samples(4), **attributes)
    check_lowering(node_class, floats(2, 3).astype(np.float64), **attributes)


@pytest.mark.parametrize(
    ("operator", "type", "words"),
    [
        (ops.Exp, "int32<3>", ["'input'", "int32<3>", "float32"]),
        (ops.Not, "float32<3>", ["'input'", "float32<3>", "bool"]),
        (ops.Neg, "uint8<3>", ["uint8<3>", "int8"]),
        (ops.Relu, "int8<3, scale = 0.5, offset = 0>", ["quantized", "dequantize"]),
    ],
)
def test_wrong_kind_is_named(operator: type[Node], type: str, words: list[str]) -> None:
    with pytest.raises(VerifyError) as caught:
        operator(value(type))  # type: ignore[call-arg]
    assert all(word in str(caught.value) for word in words)


def test_bad_attributes_are_named() -> None:
    with pytest.raises(VerifyError, match="'tanh'"):
        ops.Gelu(value("float32<3>"), "sigmoid")
    with pytest.raises(VerifyError, match="NaN"):
        ops.Clip(value("float32<3>"), math.nan, 1.0)
    with pytest.raises(VerifyError, match="slope"):
        ops.PRelu(value("float32<1 x 3>"), value("float32<2 x 3>"))
