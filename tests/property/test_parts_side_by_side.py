"""Kernels that write neighbouring channels of one tensor, in any order and without a barrier.

A kernel that stored beyond its own channels would do no harm if its neighbour came later; so each
pair is computed in both orders.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Concat, Convolution, MaxPool, Relu
from glow_nb.hlir.ops.windows import Window
from tests.in_turn import in_turn

pytestmark = pytest.mark.jit

CHANNELS = 19
Part = Callable[[Builder, Value], Value]


def convolution(depth: int, taps: int, dilation: int = 1, group: int = 1) -> Part:
    """Return what adds a convolution that keeps the size of the map."""

    def add(builder: Builder, x: Value) -> Value:
        random = np.random.default_rng(depth + taps)
        shape = (depth, taps, taps, CHANNELS // group)
        weights = builder.constant("weights", random.standard_normal(shape, np.float32))
        bias = builder.constant("bias", random.standard_normal(depth, np.float32))
        pads = (taps // 2 * dilation,) * 4
        window = Window((taps, taps), (1, 1), pads, (dilation, dilation)).attributes
        return builder.emit(Convolution(x, weights, bias, **window, group=group))

    return add


PARTS: dict[str, Part] = {
    "product": convolution(13, 1),
    "winograd": convolution(21, 3),
    "direct": convolution(5, 3, dilation=2),
    "depthwise": convolution(CHANNELS, 3, group=CHANNELS),
    "pool": lambda builder, x: builder.emit(
        MaxPool(x, kernel=(3, 3), stride=(1, 1), pads=(1,) * 4, dilation=(1, 1))
    ),
    "elementwise": lambda builder, x: builder.emit(Relu(x)),
}


@pytest.mark.parametrize(("first", "second"), in_turn(PARTS, [*PARTS][3:] + [*PARTS][:3]))
def test_neighbours_keep_to_their_channels(first: str, second: str) -> None:
    """In the default run, each part is once the first and once the second."""
    builder = Builder()
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (1, 9, 10, CHANNELS)))
    earlier, later = PARTS[first](builder, x), PARTS[second](builder, x)
    builder.save(builder.emit(Concat((later, earlier), 3)), "y")
    function = builder.function()
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 9, 10, CHANNELS), np.float32)}
    wanted = glow_nb.evaluate(function, feeds)["y"]
    networks = [glow_nb.compile(function, threads=threads) for threads in (1, 3)]
    for network in networks:
        np.testing.assert_allclose(network.run(feeds)["y"], wanted, rtol=1e-4, atol=1e-4)
    if first != second and {first, second} <= {"product", "winograd", "direct"}:
        assert "match phase:" not in networks[1].source, "there is no barrier"
