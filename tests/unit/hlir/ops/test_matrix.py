"""Matrix products and dense layers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.hlir import ops
from tests.unit.hlir.ops.applying import apply, check_close, check_lowering, floats, value

SIZES = st.integers(1, 6)


@given(st.lists(SIZES, max_size=2), SIZES, SIZES, SIZES, st.booleans())
def test_product_sums_over_the_inner_axis(
    batch: list[int], m: int, k: int, n: int, is_shared: bool
) -> None:
    x = floats(*batch, m, k)
    y = floats(*(() if is_shared else batch), k, n, seed=1)
    expected = (x[..., :, :, None].astype(np.float64) * y[..., None, :, :]).sum(axis=-2)
    check_close(apply(ops.MatMul, x, y), expected.astype(np.float32))


def test_product_of_integers_wraps() -> None:
    x = np.full((1, 2), 2**31 - 1, np.int32)
    found = apply(ops.MatMul, x, np.full((2, 1), 2, np.int32))
    np.testing.assert_array_equal(found, [[-4]])


@pytest.mark.parametrize("kinds", [("int8", "uint8"), ("int16", "int8"), ("uint16", "uint16")])
def test_short_integers_are_summed_up_in_int32(kinds: tuple[str, str]) -> None:
    left, right = (np.iinfo(kind).max for kind in kinds)
    x, y = np.full((1, 3), left, kinds[0]), np.full((3, 1), right, kinds[1])
    found = apply(ops.MatMul, x, y)
    np.testing.assert_array_equal(found, np.array([[3 * left * right]]).astype(np.int32))
    assert found.dtype == np.int32


def test_bias_of_short_integers_is_int32() -> None:
    x, y = np.array([[-128, 127]], np.int8), np.array([[255], [1]], np.uint8)
    found = apply(ops.FullyConnected, x, y, np.array([7], np.int32))
    np.testing.assert_array_equal(found, [[-128 * 255 + 127 + 7]])
    with pytest.raises(VerifyError, match=r"int8<1>.*int32<1>"):
        ops.FullyConnected(value("int8<1 x 2>"), value("uint8<2 x 1>"), value("int8<1>"))


def test_empty_inner_axis_gives_zeros() -> None:
    found = apply(ops.MatMul, floats(2, 0), floats(0, 3))
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


@given(SIZES, SIZES, SIZES)
def test_lowered_dense_layer_keeps_the_result(m: int, k: int, n: int) -> None:
    x, weights, bias = floats(m, k), floats(k, n, seed=1), floats(n, seed=2)
    check_close(apply(ops.FullyConnected, x, weights, bias), x @ weights + bias)
    lowered = check_lowering(ops.FullyConnected, x, weights, bias)
    assert [node.opcode for node in lowered] == ["mat_mul", "reshape", "add", "save"]


@pytest.mark.parametrize(
    ("lhs", "rhs", "words"),
    [
        ("float32<2 x 3>", "float32<4 x 5>", ["inner", "2 x 3", "4 x 5"]),
        ("float32<3>", "float32<3 x 5>", ["matrices", "float32<3>"]),
        ("float32<2 x 2 x 3>", "float32<3 x 3 x 5>", ["batch", "2 x 2 x 3", "3 x 3 x 5"]),
        ("float32<2 x 3>", "float64<3 x 5>", ["float32<2 x 3>", "float64"]),
        ("int8<2 x 3>", "int64<3 x 5>", ["int8<2 x 3>", "int64"]),
        ("bool<2 x 3>", "bool<3 x 5>", ["bool<2 x 3>", "float32"]),
    ],
)
def test_operands_that_do_not_fit_are_named(lhs: str, rhs: str, words: list[str]) -> None:
    with pytest.raises(VerifyError) as caught:
        ops.MatMul(value(lhs), value(rhs))
    assert all(word in str(caught.value) for word in words)


def test_bad_bias_is_named() -> None:
    with pytest.raises(VerifyError, match=r"float32<4>.*float32<5>"):
        ops.FullyConnected(value("float32<2 x 3>"), value("float32<3 x 5>"), value("float32<4>"))
