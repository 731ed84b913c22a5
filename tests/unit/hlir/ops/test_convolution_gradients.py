"""The gradients of convolutions and pools against sums over windows written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from glow_nb.base.errors import VerifyError
from glow_nb.hlir import ops
from glow_nb.hlir.ops.transposed_convolution import MOST_PHASES
from tests.unit.hlir.ops.applying import (
    Numbers,
    apply,
    check_close,
    check_lowering,
    floats,
    value,
)
from tests.unit.hlir.ops.test_windows import Window, at, windows

CHANNELS = st.sampled_from(
    [(1, 2, 3), (2, 2, 1), (3, 1, 1), (3, 1, 2), (1, 1, 4), (1, 0, 2), (2, 2, 0)]
)
"""Groups, and channels of input and result in each."""


def spread_by_hand(w: Window, gradient: Numbers, filter: Numbers, group: int) -> Numbers:
    """Add what each element of *gradient* gives to the cells of its window."""
    depth, inner = filter.shape[0], filter.shape[-1]
    result = np.zeros((gradient.shape[0], *w.size, group * inner))
    for place in np.ndindex(*w.out):
        for k in range(depth):
            first = k // (depth // group) * inner
            for tap, source in w.cells(place):
                taps = filter[(k, *tap)].astype(np.float64)
                cell = at(result, source)[:, first : first + inner]
                cell += np.multiply.outer(at(gradient, place)[:, k], taps)
    return result.astype(np.float32)


@given(windows(), CHANNELS)
@settings(max_examples=50)
def test_transposed_convolution(w: Window, channels: tuple[int, int, int]) -> None:
    group, inner, outer = channels
    gradient = floats(2, *w.out, group * outer)
    filter = floats(group * outer, *w.kernel, inner, seed=1)
    attributes: dict[str, Any] = {**w.attributes, "size": w.size, "group": group}
    found = apply(ops.TransposedConvolution, gradient, filter, **attributes)
    check_close(found, spread_by_hand(w, gradient, filter, group))
    check_lowering(ops.TransposedConvolution, gradient, filter, **attributes)


@pytest.mark.parametrize(
    "w",
    [
        Window((8, 8), (2, 2), (2, 2), (0,) * 4, (1, 1)),  # one convolution for all phases
        Window((5, 5), (1, 1), (2, 2), (0,) * 4, (1, 1)),  # phases without taps
        Window((7,), (2,), (3,), (4, 4), (4,)),  # a dilation and a stride without common factor
        Window((9,), (3,), (4,), (1, 3), (2,)),  # and with one
        Window((3,), (2,), (1,), (9, 9), (1,)),  # most of the input reaches padding alone
        Window((40, 30), (11, 9), (9, 8), (3, 2, 1, 0), (1, 1)),  # too many phases
        Window((150,), (3,), (66,), (5, 5), (7,)),  # too many, and a dilation
        Window((1, 0), (1, 1), (1, 1), (1, 1, 0, 1), (1, 1)),  # nothing to spread it over
    ],
)
@pytest.mark.parametrize("group", [1, 2])
def test_every_form_of_the_lowering(w: Window, group: int) -> None:
    gradient, filter = floats(2, *w.out, 2 * group), floats(2 * group, *w.kernel, 3)
    attributes: dict[str, Any] = {**w.attributes, "size": w.size, "group": group}
    found = apply(ops.TransposedConvolution, gradient, filter, **attributes)
    check_close(found, spread_by_hand(w, gradient, filter, group))
    lowered = check_lowering(ops.TransposedConvolution, gradient, filter, **attributes)
    convolutions = [node for node in lowered if isinstance(node, ops.Convolution)]
    assert len(convolutions) <= min(math.prod(w.stride), MOST_PHASES)


def test_what_nothing_reaches_is_zero_whatever_the_filter_holds() -> None:
    w = Window((5,), (1,), (2,), (0, 0), (1,))
    filter = np.full((1, 1, 1), math.inf, np.float32)
    attributes: dict[str, Any] = {**w.attributes, "size": w.size}
    gradient = np.ones((1, 3, 1), np.float32)
    found = apply(ops.TransposedConvolution, gradient, filter, **attributes)
    np.testing.assert_array_equal(found.ravel(), [math.inf, 0, math.inf, 0, math.inf])
    check_lowering(ops.TransposedConvolution, gradient, filter, **attributes)


@given(windows(), CHANNELS, st.integers(0, 2))
@settings(max_examples=50)
def test_convolution_filter_gradient(w: Window, channels: tuple[int, int, int], batch: int) -> None:
    group, inner, outer = channels
    x, gradient = floats(batch, *w.size, group * inner), floats(batch, *w.out, group * outer)
    expected = np.zeros((group * outer, *w.kernel, inner))
    for place in np.ndindex(*w.out):
        for k in range(group * outer):
            first = k // outer * inner
            for tap, source in w.cells(place):
                cell = at(x, source)[:, first : first + inner].astype(np.float64)
                expected[(k, *tap)] += at(gradient, place)[:, k] @ cell
    attributes: dict[str, Any] = {**w.attributes, "group": group}
    found = apply(ops.ConvolutionFilterGradient, x, gradient, **attributes)
    check_close(found, expected.astype(np.float32), ulp=64)
    check_lowering(ops.ConvolutionFilterGradient, x, gradient, **attributes)


@given(windows(), st.integers(0, 2))
@settings(max_examples=50)
def test_max_pool_gradient(w: Window, batch: int) -> None:
    x = np.random.default_rng(0).integers(0, 3, (batch, *w.size, 3)).astype(np.float32)
    gradient = floats(batch, *w.out, 3)
    expected = np.zeros(x.shape)
    for n, *place, c in np.ndindex(*gradient.shape):
        sources = [(n, *source, c) for _, source in w.cells(tuple(place))]
        if sources:  # the first of equal elements
            expected[max(sources, key=lambda source: x[source])] += gradient[(n, *place, c)]
    found = apply(ops.MaxPoolGradient, x, gradient, **w.attributes)
    check_close(found, expected.astype(np.float32))
    check_lowering(ops.MaxPoolGradient, x, gradient, **w.attributes)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([-math.inf, -math.inf, -math.inf], [2, 1, 1]),  # never the padding
        ([math.nan, 5, math.nan], [2, 0, 2]),
        ([math.nan, math.nan, math.inf], [1, 2, 1]),  # of several NaN the last
    ],
)
def test_max_pool_gradient_of_what_is_not_finite(x: list[float], expected: list[int]) -> None:
    w = Window((3,), (2,), (1,), (1, 1), (1,))
    image = np.array(x, np.float32).reshape(1, 3, 1)
    gradient = np.ones((1, 4, 1), np.float32)
    found = apply(ops.MaxPoolGradient, image, gradient, **w.attributes)
    np.testing.assert_array_equal(found.ravel(), expected)
    check_lowering(ops.MaxPoolGradient, image, gradient, **w.attributes)


@given(windows(), st.booleans(), st.booleans())
@settings(max_examples=50)
def test_avg_pool_gradient(w: Window, count_padding: bool, is_cut: bool) -> None:
    rank = len(w.size)
    uncounted = tuple(end // 2 for end in w.pads[rank:]) if is_cut else ()
    gradient = floats(2, *w.out, 3)
    attributes: dict[str, Any] = {
        **w.attributes,
        "count_padding": count_padding,
        "uncounted": uncounted,
    }
    x = np.ones((1, *w.size, 1), np.float32)
    means = apply(ops.AvgPool, x, **attributes)
    assume(not np.isnan(means).any())
    expected = np.zeros((2, *w.size, 3))
    for place in np.ndindex(*w.out):
        sources = [source for _, source in w.cells(place)]
        for source in sources:
            share = at(means, place) / len(sources)
            at(expected, source)[...] += at(gradient, place) * share
    found = apply(ops.AvgPoolGradient, gradient, **attributes, size=w.size)
    check_close(found, expected.astype(np.float32))
    check_lowering(ops.AvgPoolGradient, gradient, **attributes, size=w.size)


def test_no_channels_share_out_nothing() -> None:
    w = Window((3,), (2,), (1,), (0, 0), (1,))
    check_lowering(ops.AvgPoolGradient, np.zeros((1, 2, 0), np.float32), **w.attributes, size=(3,))


def test_a_window_without_counted_cells_shares_out_nothing() -> None:
    w = Window((1,), (1,), (1,), (1, 0), (1,))
    gradient = np.array([5, 3], np.float32).reshape(1, 2, 1)
    found = apply(ops.AvgPoolGradient, gradient, **w.attributes, size=(1,))
    np.testing.assert_array_equal(found.ravel(), [3])
    check_lowering(ops.AvgPoolGradient, gradient, **w.attributes, size=(1,))


def test_nor_does_it_where_zeros_are_put_among_many_taps() -> None:
    taps, stride = MOST_PHASES + 2, MOST_PHASES + 4
    w = Window((stride,), (taps,), (stride,), (taps, taps), (1,))
    gradient = np.array([5, 36, 7], np.float32)[: w.out[0]].reshape(1, -1, 1)
    found = apply(ops.AvgPoolGradient, gradient, **w.attributes, size=w.size)
    np.testing.assert_array_equal(found.ravel(), [0, 0] + [2] * taps)
    check_lowering(ops.AvgPoolGradient, gradient, **w.attributes, size=w.size)


@pytest.mark.parametrize(
    ("node_class", "operands", "changes", "words"),
    [
        (
            ops.TransposedConvolution,
            ("float32<1 x 4 x 4 x 6>", "float32<6 x 3 x 3 x 2>"),
            {"size": (8, 9)},
            ["'input'", "1 x 4 x 4 x 6", "1 x 3 x 4 x 6"],
        ),
        (
            ops.TransposedConvolution,
            ("float32<1 x 4 x 4 x 6>", "float32<6 x 3 x 3 x 2>"),
            {"size": (9,)},
            ["size (9,)", "spatial sizes"],
        ),
        (
            ops.TransposedConvolution,
            ("float32<1 x 4 x 4 x 6>", "float32<6 x 3 x 2 x 2>"),
            {"size": (9, 9)},
            ["'filter'", "6 x 3 x 2 x 2", "6 x 3 x 3 x 2"],
        ),
        (
            ops.TransposedConvolution,
            ("float32<1 x 4 x 4 x 6>", "float32<6 x 3 x 3 x 2>"),
            {"size": (9, 9), "group": 4},
            ["6 channels", "group = 4"],
        ),
        (
            ops.ConvolutionFilterGradient,
            ("float32<1 x 9 x 9 x 4>", "float32<1 x 3 x 4 x 6>"),
            {},
            ["'gradient'", "1 x 3 x 4 x 6", "1 x 4 x 4 x 6"],
        ),
        (
            ops.ConvolutionFilterGradient,
            ("float32<1 x 9 x 9 x 4>", "float32<1 x 4 x 4 x 6>"),
            {"group": 4},
            ["4 channels", "and 6 of", "group = 4"],
        ),
        (
            ops.MaxPoolGradient,
            ("float32<1 x 9 x 9 x 4>", "float32<1 x 4 x 4 x 6>"),
            {},
            ["'gradient'", "1 x 4 x 4 x 6", "1 x 4 x 4 x 4"],
        ),
        (
            ops.AvgPoolGradient,
            ("float32<1 x 4 x 4 x 6>",),
            {"size": (9, 9), "uncounted": (1, 0)},
            ["uncounted (1, 0)", "(0, 0)"],
        ),
    ],
)
def test_operands_that_do_not_fit_are_named(
    node_class: Any, operands: tuple[str, ...], changes: dict[str, Any], words: list[str]
) -> None:
    attributes = Window((9, 9), (3, 3), (2, 2), (0,) * 4, (1, 1)).attributes
    with pytest.raises(VerifyError) as caught:
        node_class(*map(value, operands), **attributes, **changes)
    assert all(word in str(caught.value) for word in words)
