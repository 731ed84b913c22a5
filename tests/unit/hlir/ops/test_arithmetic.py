"""Arithmetic, logic, comparisons and choice."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node
from tests.unit.hlir.ops.applying import Numbers, apply, check_close, floats, onnx_result, value

NAMES: dict[type[Node], str] = {
    ops.Add: "Add",
    ops.Sub: "Sub",
    ops.Mul: "Mul",
    ops.Div: "Div",
    ops.Equal: "Equal",
    ops.Less: "Less",
    ops.LessEqual: "LessOrEqual",
    ops.Greater: "Greater",
    ops.GreaterEqual: "GreaterOrEqual",
}
COMPARISONS = [ops.Equal, ops.Less, ops.LessEqual, ops.Greater, ops.GreaterEqual]
SHAPES = arrays.mutually_broadcastable_shapes(num_shapes=2, min_dims=3, max_dims=3, max_side=4)


@given(st.sampled_from(list(NAMES)), SHAPES)
def test_operands_broadcast(operator: type[Node], shapes: arrays.BroadcastableShapes) -> None:
    left, right = shapes.input_shapes
    x = floats(*left).reshape((1,) * (3 - len(left)) + left)
    y = floats(*right, seed=1).reshape((1,) * (3 - len(right)) + right)
    check_close(apply(operator, x, y), onnx_result(NAMES[operator], x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32])
def test_blocks_of_elements_are_computed_like_single_ones(dtype: type) -> None:
    """Both operands are larger than one block, one is transposed and the other one repeated."""
    x: Array = (10 * floats(90, 70, 3)).astype(dtype).transpose(1, 0, 2)
    y: Array = (10 * floats(70, 90, 1, seed=1)).astype(dtype)
    found = apply(ops.Mul, x, y)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, x * y)
    np.testing.assert_array_equal(apply(ops.Less, x, y), x < y)


@given(
    st.lists(st.tuples(st.integers(-128, 127), st.integers(-128, 127)), min_size=1),
    st.sampled_from([np.int8, np.int64]),
)
def test_integer_division_truncates(pairs: list[tuple[int, int]], dtype: type) -> None:
    x, y = np.array(pairs).T.astype(dtype)
    expected = [math.trunc(a / b) if b else 0 for a, b in pairs]
    np.testing.assert_array_equal(apply(ops.Div, x, y), np.array(expected).astype(dtype))


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-9, 9)), min_size=1), st.booleans())
def test_modulo_takes_the_sign_it_should(pairs: list[tuple[int, int]], fmod: bool) -> None:
    x, y = np.array(pairs).T.astype(np.int32)
    by_hand = [(int(math.fmod(a, b)) if fmod else a % b) if b else 0 for a, b in pairs]
    np.testing.assert_array_equal(apply(ops.Modulo, x, y, fmod=fmod), by_hand)
    a, b = floats(20), floats(20, seed=1)
    check_close(apply(ops.Modulo, a, b, fmod=True), np.fmod(a, b))


def test_power_of_integers() -> None:
    x = np.array([2, 3, 1, -1, -1, 0, 5, -2], np.int64)
    y = np.array([10, 0, -5, -3, -2, -1, -1, 3], np.int64)
    np.testing.assert_array_equal(apply(ops.Pow, x, y), [1024, 1, 1, -1, 1, 0, 0, -8])
    small = np.array([255, 2], np.uint8)
    np.testing.assert_array_equal(apply(ops.Pow, small, small), np.power(small, small))


def test_power_of_floats() -> None:
    x, y = np.abs(floats(50)), floats(50, seed=1)
    check_close(apply(ops.Pow, x, y), onnx_result("Pow", x, y))


@pytest.mark.parametrize(("operator", "name"), [(ops.Maximum, "Max"), (ops.Minimum, "Min")])
def test_extremes_propagate_nan(operator: type[Node], name: str) -> None:
    x = np.array([1, math.nan, 3, -math.inf], np.float32)
    y = np.array([2, 1, math.nan, math.inf], np.float32)
    found = apply(operator, x, y)
    np.testing.assert_array_equal(found, onnx_result(name, x, y))
    np.testing.assert_array_equal(np.isnan(found), [False, True, True, False])


@pytest.mark.parametrize("operator", [ops.BitwiseAnd, ops.BitwiseOr, ops.BitwiseXor])
def test_bitwise(operator: type[Node]) -> None:
    x, y = np.arange(256, dtype=np.uint8), np.full(256, 0b1010_0110, np.uint8)
    np.testing.assert_array_equal(apply(operator, x, y), onnx_result(operator.__name__, x, y))


@pytest.mark.parametrize("direction", ["left", "right"])
def test_shift(direction: str) -> None:
    x, y = np.array([1, 200, 255, 255], np.uint8), np.array([3, 1, 7, 8], np.uint8)
    expected = [8, 144, 128, 0] if direction == "left" else [0, 100, 1, 0]
    np.testing.assert_array_equal(apply(ops.BitShift, x, y, direction=direction), expected)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [(ops.And, [0, 0, 0, 1]), (ops.Or, [0, 1, 1, 1]), (ops.Xor, [0, 1, 1, 0])],
)
def test_logic(operator: type[Node], expected: list[int]) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    np.testing.assert_array_equal(apply(operator, x, y), np.array(expected, bool))


@pytest.mark.parametrize("operator", COMPARISONS)
def test_nan_compares_false(operator: type[Node]) -> None:
    x = np.array([math.nan, 1], np.float32)
    assert not apply(operator, x, np.full(2, math.nan, np.float32)).any()


def test_select_broadcasts_three_operands() -> None:
    condition: Numbers = np.array([[True], [False]])
    x, y = floats(2, 3), np.zeros((1, 1), np.float32)
    np.testing.assert_array_equal(apply(ops.Select, condition, x, y), np.where(condition, x, y))
    many = np.array([2**62 + 1, 3])
    np.testing.assert_array_equal(apply(ops.Select, np.array([True, False]), many, many), many)


@pytest.mark.parametrize(
    ("lhs", "rhs", "words"),
    [
        ("float32<2 x 3>", "float32<3>", ["'lhs'", "2 x 3", "float32<3>", "reshape"]),
        ("float32<2 x 3>", "float32<2 x 4>", ["2 x 3", "2 x 4", "broadcast"]),
        ("float32<2>", "int32<2>", ["float32<2>", "int32<2>", "convert"]),
        ("bool<2>", "bool<2>", ["bool<2>", "float32"]),
    ],
)
def test_operands_that_do_not_fit_are_named(lhs: str, rhs: str, words: list[str]) -> None:
    with pytest.raises(VerifyError) as caught:
        ops.Add(value(lhs), value(rhs))
    assert all(word in str(caught.value) for word in words)


def test_bad_direction_and_condition_are_named() -> None:
    with pytest.raises(VerifyError, match="'left' or 'right'"):
        ops.BitShift(value("uint8<2>"), value("uint8<2>"), "up")
    with pytest.raises(VerifyError, match="condition"):
        ops.Select(value("int8<2>"), value("int8<2>"), value("int8<2>"))
