"""Winograd's operators mean what a convolution means."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.errors import VerifyError
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.kernels import operators
from glow_nb.kernels.operators.panels import pack_bias, pack_filter

# batch, input, channels, depth, kernel, tile, pads, group, block
CASES = {
    "4x4": (2, (9, 13), 5, 19, (3, 3), (4, 4), (1, 1, 1, 1), 1, 16),
    "2x2 one sided pads": (1, (6, 7), 3, 8, (3, 3), (2, 2), (0, 2, 1, 0), 1, 8),
    "mixed": (1, (7, 10), 6, 10, (3, 3), (2, 4), (1, 0, 1, 0), 2, 4),
    "5x5": (1, (8, 6), 4, 6, (5, 5), (2, 4), (2, 2, 2, 2), 2, 8),
    "row": (1, (5, 11), 4, 6, (1, 3), (1, 4), (0, 1, 0, 1), 1, 8),
    "rank 1": (2, (11,), 4, 6, (3,), (4,), (1, 1), 1, 8),
    "planes": (1, (2, 5, 6), 4, 6, (1, 3, 3), (1, 4, 2), (0, 1, 1, 1, 1, 1), 1, 8),
    "depth": (1, (6, 2, 3), 4, 6, (3, 1, 1), (4, 1, 1), (1, 0, 0, 1, 0, 0), 1, 8),
    "volume": (1, (3, 5, 6), 4, 6, (3, 3, 3), (1, 4, 2), (1, 1, 1, 2, 1, 0), 2, 8),
    "huge pads": (1, (2, 3), 2, 4, (3, 3), (4, 4), (4, 4, 4, 4), 1, 8),
}


def build(name: str, *, winograd: bool) -> Function:
    batch, spatial, channels, depth, kernel, tile, pads, group, block = CASES[name]
    random = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", f"float64<{' x '.join(map(str, (batch, *spatial, channels)))}>")
    filter = b.constant("w", random.normal(size=(depth, *kernel, channels // group)))
    bias = b.constant("b", random.normal(size=depth))
    ones = (1,) * len(kernel)
    if winograd:
        packed = b.emit(operators.WinogradFilter(pack_filter(b, filter, group, block), tile))
        offsets = pack_bias(b, bias, group, block)
        made = operators.WinogradConvolution(
            x, packed, offsets, depth, kernel, tile, pads, group, block, guarded=True
        )  # fmt: skip
        b.save(b.emit(made), "y")
    else:
        plain = ops.Convolution(
            x, filter, bias, kernel=kernel, stride=ones, pads=pads, dilation=ones, group=group
        )
        b.save(b.emit(plain), "y")
    return b.function()


@pytest.mark.parametrize("name", CASES)
def test_winograd_convolution_is_a_convolution(name: str) -> None:
    plain, tiled = build(name, winograd=False), build(name, winograd=True)
    feeds = {"x": np.random.default_rng(1).normal(size=plain.inputs[0].type.shape)}
    expected = evaluate(plain, feeds)["y"]
    for function in (tiled, lower(tiled)):
        found = evaluate(function, feeds)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    assert not any(isinstance(node, operators.WinogradFilter) for node in lower(tiled).nodes)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_stays_in_its_windows(name: str, number: float) -> None:
    plain, tiled = build(name, winograd=False), build(name, winograd=True)
    x = np.random.default_rng(1).normal(size=plain.inputs[0].type.shape)
    x.flat[x.size // 2] = number
    expected = evaluate(plain, {"x": x})["y"]
    assert not np.isfinite(expected).all()
    np.testing.assert_allclose(evaluate(tiled, {"x": x})["y"], expected, rtol=1e-9, atol=1e-9)


def test_tiles_without_an_algorithm_are_refused() -> None:
    b = Builder()
    filter = b.input("w", "float32<1 x 1 x 3 x 3 x 4 x 8>")
    with pytest.raises(VerifyError, match="no algorithm for 3 outputs of 3 taps"):
        operators.WinogradFilter(filter, (3, 3))
    with pytest.raises(VerifyError, match=r"not the dimensions of tile \[4\]"):
        operators.WinogradFilter(filter, (4,))
