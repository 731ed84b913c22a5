"""Short convolutions are convolutions, and their matrices have the form that kernels rely on."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind
from glow_nb.numerics.cook_toom import (
    POINTS,
    WHOLE_POINTS,
    WholeDivision,
    is_known,
    row_pairs,
    scale_of,
    short_convolution,
    tap_noise,
)

SIZES = [(n - r + 1, r) for n in POINTS for r in range(2, n) if n - r + 1 > 1]


@pytest.mark.parametrize(("outputs", "taps"), [(1, 1), *SIZES])
def test_products_of_transforms_make_a_convolution(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps)
    random = np.random.default_rng(outputs * 10 + taps)
    d, g = random.normal(size=each.size), random.normal(size=taps)
    found = each.output @ ((each.filter @ g) * (each.input @ d))
    np.testing.assert_allclose(found, np.correlate(d, g), rtol=1e-11, atol=1e-11)


def test_textbook_matrices_of_two_outputs() -> None:
    each = short_convolution(2, 3)
    np.testing.assert_array_equal(each.output, [[1, 1, 1, 0], [0, 1, -1, 1]])
    np.testing.assert_array_equal(each.filter * [[-1], [1], [1], [1]], [
        [1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]
    ])  # fmt: skip


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_pairs_differ_in_the_signs_of_every_second_element(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps)
    pairs = [group for group in each.groups[1:] if len(group) == 2]
    assert len(pairs) == (each.size - 2) // 2
    for pair in pairs:
        is_even = each.size % 2 == 0  # an odd number of inputs leaves one point alone
        for rows in (each.input, each.output.T) if is_even else (each.output.T,):
            plus, minus = rows[list(pair)]
            np.testing.assert_array_equal(np.abs(plus), np.abs(minus))
            assert (np.sign(plus * minus) != 0).any()


@pytest.mark.parametrize(("outputs", "taps"), [(1, 1), (4, 1), (6, 1), *SIZES])
def test_taps_are_had_back(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps)
    np.testing.assert_allclose(each.recovery @ each.filter, np.eye(taps), rtol=0, atol=1e-12)
    if each.size > 1:  # the outer taps are exact: each stands alone in one row, up to a power of 2
        assert (np.count_nonzero(each.recovery, axis=1)[[0, -1]] == 1).all()
        powers = np.log2(np.abs(each.recovery).max(axis=1)[[0, -1]])
        np.testing.assert_array_equal(powers, np.round(powers))


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_errors_of_recovered_taps_stay_below_the_noise(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps)
    g = np.random.default_rng(taps).normal(size=(1000, taps, taps))
    u = (each.filter @ g @ each.filter.T).astype(np.float32)
    found = each.recovery.astype(np.float32) @ u @ each.recovery.T.astype(np.float32)
    errors = np.abs(found - g).max(axis=(1, 2)) / np.abs(g).max(axis=(1, 2))
    noise = tap_noise([each, each], ElementKind.FLOAT32)
    assert errors.max() < noise < 1e-3


def test_sizes_without_points_are_unknown() -> None:
    assert is_known(4, 3)
    assert is_known(3, 3)
    assert not is_known(5, 3)
    assert not is_known(0, 4)
    assert is_known(4, 5)
    assert not is_known(4, 5, whole=True)


STRIDED = [(1, 3, 2), (2, 3, 2), (3, 3, 2), (4, 3, 2), (2, 5, 2), (4, 5, 2), (2, 4, 2), (2, 3, 3),
           (3, 7, 3)]  # fmt: skip
"""Outputs, taps and strides."""


@pytest.mark.parametrize(("outputs", "taps", "stride"), STRIDED)
def test_products_of_strided_transforms_make_a_strided_convolution(
    outputs: int, taps: int, stride: int
) -> None:
    assert is_known(outputs, taps, stride)
    each = short_convolution(outputs, taps, stride)
    assert each.size == (outputs - 1) * stride + taps
    assert sorted(row for group in each.groups for row in group) == list(range(each.size))
    random = np.random.default_rng(outputs * 10 + taps)
    d, g = random.normal(size=each.size), random.normal(size=taps)
    found = each.output @ ((each.filter @ g) * (each.input @ d))
    np.testing.assert_allclose(found, np.correlate(d, g)[::stride], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(each.recovery @ each.filter, np.eye(taps), rtol=0, atol=1e-12)


def test_three_taps_with_a_stride_of_two_are_two_taps_and_one() -> None:
    each = short_convolution(2, 3, 2)
    np.testing.assert_array_equal(each.output, [[1, 1, 0, 1, 0], [0, 1, 1, 0, 1]])
    np.testing.assert_array_equal(each.filter[3:], [[0, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(each.input[3:], [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0]])


def test_strides_that_leave_no_tap_to_a_phase_are_unknown() -> None:
    assert not is_known(2, 1, 2)
    assert not is_known(2, 2, 3)
    assert not is_known(2, 3, 10**11)  # and nothing is made for each of them
    assert not is_known(2, 3, 2, whole=True)
    assert is_known(1, 2, 3)
    assert not is_known(2, 3, 0)


WHOLE_SIZES = [(n - r + 1, r) for n in WHOLE_POINTS for r in range(2, n) if n - r + 1 > 1]


@pytest.mark.parametrize(("outputs", "taps"), [(1, 3), *WHOLE_SIZES])
def test_whole_matrices_make_a_multiple_of_a_convolution(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps, whole=True)
    for matrix in (each.input, each.filter, each.output):
        np.testing.assert_array_equal(matrix, np.rint(matrix))
    random = np.random.default_rng(outputs * 10 + taps)
    d, g = random.integers(-255, 256, each.size), random.integers(-128, 128, taps)
    found = each.output @ ((each.filter @ g) * (each.input @ d))
    np.testing.assert_array_equal(found, each.scale * np.correlate(d, g))
    np.testing.assert_allclose(each.recovery @ each.filter, np.eye(taps), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("outputs", "taps"), WHOLE_SIZES)
@pytest.mark.parametrize("kind", [ElementKind.INT8, ElementKind.UINT8])
def test_transformed_bytes_fit_into_16_bits(outputs: int, taps: int, kind: ElementKind) -> None:
    matrix = short_convolution(outputs, taps, whole=True).input
    coefficients = np.kron(matrix, matrix)
    positive, negative = np.maximum(coefficients, 0), np.minimum(coefficients, 0)
    low, high = kind.limits
    assert (high * positive + low * negative).sum(axis=1).max() <= 32767
    assert (low * positive + high * negative).sum(axis=1).min() >= -32768


@pytest.mark.parametrize(("outputs", "taps"), WHOLE_SIZES)
def test_pairs_of_rows_are_an_even_part_and_an_odd_one(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps, whole=True)
    pairs = row_pairs(each.size)
    assert sorted(row for pair in pairs for row in pair) == list(range(each.size))
    for first, second in pairs[1:]:
        for matrix in (each.input, each.filter):
            sums, differences = matrix[first] + matrix[second], matrix[first] - matrix[second]
            assert not (sums * differences).any()


def test_any_number_of_rows_is_cut_into_pairs() -> None:
    assert [row_pairs(size) for size in (1, 2, 3)] == [[(0,)], [(0, 1)], [(0, 2), (1,)]]
    assert row_pairs(5) == [(0, 4), (1, 2), (3,)]


def test_four_outputs_of_three_taps_take_26_bits() -> None:
    assert [scale_of((m, m), (3, 3)) for m in (1, 2, 4)] == [1, 4, 576]
    assert WholeDivision.by(576).limit == 1 << 25


@pytest.mark.parametrize("divisor", [1, 2, 4, 48, 576, 7])
def test_multiples_that_wrap_around_are_divided(divisor: int) -> None:
    divided = WholeDivision.by(divisor)
    last = divided.limit - 1
    quotients: Array = np.array([0, 1, -1, 12345, last, -last - 1])
    np.testing.assert_array_equal(divided(quotients * divisor), quotients)
    assert (divided.limit * divisor) >> 31 >= 1  # one more would not do
    assert divided(np.array([divided.limit * divisor])) == -divided.limit
