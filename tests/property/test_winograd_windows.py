"""NaN, infinity and huge numbers stay in the windows that hold them, whatever the tiles.

The truth is the direct sum in ``float64`` of the weights as they are, not of transformed ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.distance import distance
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function
from glow_nb.kernels import operators
from glow_nb.kernels.operators.panels import pack_bias, pack_filter
from glow_nb.kernels.target import Target

pytestmark = pytest.mark.jit

LARGEST = float(np.finfo(np.float32).max)

# spatial sizes, channels, depth, kernel, tile, pads, group; then stride and dilation, of 1 if
# they are left out
CASES: dict[str, tuple[Any, ...]] = {
    "4x4": ((11, 10), 5, 19, (3, 3), (4, 4), (1, 1, 1, 1), 1),
    "2x2": ((6, 7), 3, 8, (3, 3), (2, 2), (0, 2, 1, 0), 1),
    "mixed, groups": ((7, 10), 6, 36, (3, 3), (2, 4), (1, 0, 1, 0), 2),
    "many channels": ((6, 6), 70, 20, (3, 3), (4, 4), (1, 1, 1, 1), 1),
    "5x5": ((9, 9), 4, 6, (5, 5), (4, 4), (2, 2, 2, 2), 1),
    "small 5x5": ((8, 6), 4, 18, (5, 5), (2, 2), (2, 2, 2, 2), 1),
    "7x7": ((9, 8), 3, 5, (7, 7), (2, 2), (3, 3, 3, 3), 1),
    "row of 7": ((5, 14), 6, 9, (1, 7), (1, 2), (0, 3, 0, 3), 1),
    "column": ((14, 5), 6, 9, (3, 1), (4, 1), (1, 0, 1, 0), 1),
    "planes": ((2, 6, 7), 5, 12, (1, 3, 3), (1, 4, 4), (0, 1, 1, 0, 1, 1), 1),
    "depth": ((7, 2, 3), 5, 12, (3, 1, 1), (4, 1, 1), (1, 0, 0, 1, 0, 0), 1),
    "volume": ((3, 6, 7), 6, 12, (3, 3, 3), (1, 4, 2), (1, 1, 1, 1, 1, 1), 2),
    "rank 1": ((23,), 5, 12, (3,), (4,), (3, 1), 1),
    "stride": ((11, 12), 5, 19, (3, 3), (4, 3), (1, 1, 1, 1), 1, (2, 2)),
    "stride of rows, groups": ((9, 8), 6, 36, (3, 3), (2, 4), (1, 1, 1, 1), 2, (2, 1)),
    "dilated": ((13, 10), 5, 19, (3, 3), (4, 4), (2, 2, 2, 2), 1, (1, 1), (2, 2)),
    "dilated unevenly, groups": ((7, 11), 6, 36, (3, 3), (2, 4), (3, 0, 3, 2), 2, (1, 1), (3, 2)),
    "dilated beyond input": ((3, 4), 4, 9, (3, 3), (2, 4), (6, 6, 6, 6), 1, (1, 1), (6, 5)),
}


def build(name: str, *, winograd: bool) -> Function:
    """Return a convolution whose sums also go through an epilogue; a fifth of the taps are zero."""
    ones = (1,) * len(CASES[name][3])
    spatial, channels, depth, kernel, tile, pads, group, stride, dilation = (
        *CASES[name],
        ones,
        ones,
    )[:9]
    random = np.random.default_rng(len(name))
    b = Builder()
    x = b.input("x", f"float32<2 x {' x '.join(map(str, spatial))} x {channels}>")
    weights = random.integers(-2, 3, (depth, *kernel, channels // group)) / 2
    filter = b.constant("w", weights.astype(np.float32))
    bias = b.constant("b", random.normal(size=depth).astype(np.float32))
    made: ops.Convolution | operators.WinogradConvolution
    if winograd:
        block = 2 * Target.host().lanes
        packed = b.emit(
            operators.WinogradFilter(pack_filter(b, filter, group, block), tile, stride)
        )
        offsets = pack_bias(b, bias, group, block)
        made = operators.WinogradConvolution(
            x,
            packed,
            offsets,
            depth=depth,
            kernel=kernel,
            tile=tile,
            stride=stride,
            pads=pads,
            dilation=dilation,
            group=group,
            block=block,
            guarded=True,
        )
    else:
        made = ops.Convolution(
            x, filter, bias, kernel=kernel, stride=stride, pads=pads, dilation=dilation, group=group
        )
    sums = b.emit(made)
    b.save(sums, "sums")
    b.save(b.emit(ops.Add(sums, b.input("addend", sums.type))), "total")
    return b.function()


def feeds_of(function: Function) -> dict[str, Array]:
    random = np.random.default_rng(7)
    return {
        value.name: random.normal(size=value.type.shape).astype(np.float32)
        for value in function.inputs
    }


def results_of(name: str, feeds: dict[str, Array], threads: int) -> list[dict[str, Array]]:
    """Return what the kernel, the interpreter and the node's meaning make of *feeds*."""
    tiled = build(name, winograd=True)
    nets = [
        glow_nb.compile(tiled, threads=threads),
        glow_nb.compile(tiled, threads=1, backend="interpreter"),
    ]
    assert any(kernel.family == "winograd" for kernel in nets[0].kernels)
    return [*(net.run(feeds) for net in nets), evaluate(tiled, feeds)]


@given(
    st.sampled_from(sorted(CASES)),
    st.integers(1, 3),
    st.lists(
        st.tuples(st.sampled_from([np.nan, np.inf, -np.inf]), st.integers(0, 2**31)),
        min_size=1,
        max_size=4,
    ),
)
@settings(max_examples=max(1, settings().max_examples // 15))
def test_nan_and_infinity_stay_in_their_windows(
    name: str, threads: int, oddities: list[tuple[float, int]]
) -> None:
    plain = build(name, winograd=False)
    feeds = feeds_of(plain)
    for number, place in oddities:
        feeds["x"].flat[place % feeds["x"].size] = number
    expected = evaluate(plain, feeds)
    for found in results_of(name, feeds, threads):
        for key in ("sums", "total"):
            # assert_allclose holds NaN and infinities, with their signs, to the same places.
            np.testing.assert_allclose(found[key], expected[key], rtol=1e-4, atol=1e-4)


@given(st.sampled_from(sorted(CASES)), st.integers(1, 3), st.integers(90, 126))
@settings(max_examples=max(1, settings().max_examples // 15))
def test_sums_that_fit_are_finite(name: str, threads: int, exponent: int) -> None:
    plain = build(name, winograd=False)
    feeds = feeds_of(plain)
    feeds["x"] *= np.float32(2.0**exponent)
    sums, sizes = _sums(plain, feeds["x"]), _sums(plain, np.abs(feeds["x"]), magnitudes=True)
    fits = sizes < LARGEST  # no partial sum overflows in any order
    for found in results_of(name, feeds, threads):
        assert np.isfinite(found["sums"][fits]).all()
        largest = float(np.abs(sums).max())
        assert distance(sums[fits], found["sums"][fits], least=largest) <= 2e-5
        assert not np.isfinite(found["sums"][np.abs(sums) > 1.001 * LARGEST]).any()


def _sums(function: Function, x: Array, *, magnitudes: bool = False) -> Array:
    """Return the sums of the convolution of *function* in ``float64``."""
    (node,) = (node for node in function if isinstance(node, ops.Convolution))
    b = Builder()
    source = b.input("x", f"float64<{' x '.join(map(str, x.shape))}>")
    assert isinstance(node.filter, Constant)
    weights = node.filter.array.astype(float)
    bias = np.zeros(node.type.shape[-1])
    filter = b.constant("w", np.abs(weights) if magnitudes else weights)
    made = ops.Convolution(
        source,
        filter,
        b.constant("b", bias),
        kernel=node.kernel,
        stride=node.stride,
        pads=node.pads,
        dilation=node.dilation,
        group=node.group,
    )
    b.save(b.emit(made), "y")
    return evaluate(b.function(), {"x": x.astype(float)})["y"]
