"""A convolution whose plans tests choose and list."""

from __future__ import annotations

from typing import Any

import numpy as np

import glow_nb
from glow_nb.backends.cpu.algorithms.explain import LayerPlans, explain
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import Convolution
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels.operators import (
    DepthwiseConvolution,
    PackedConvolution,
    PackedMatMul,
    StrassenMatMul,
    UnpackedMatMul,
    WinogradConvolution,
)
from tests.targets import SMALL_CORE

RNG = np.random.default_rng(3)


def convolution(channels: int = 64, taps: int = 3, size: int = 28, *, group: int = 1) -> Function:
    """Return a convolution called ``conv1`` of an image."""
    builder = glow_nb.Builder("network")
    x = builder.input("x", f"float32<1 x {size} x {size} x {channels}>")
    shape = (channels, taps, taps, channels // group)
    filter = builder.constant("w", RNG.normal(scale=0.1, size=shape).astype(np.float32))
    bias = builder.constant("b", RNG.normal(size=channels).astype(np.float32))
    pads = (taps // 2,) * 4
    window = Window((taps, taps), (1, 1), pads, (1, 1)).attributes
    convolution = Convolution(x, filter, bias, **window, group=group)
    builder.save(builder.emit(convolution, name="conv1"), "y")
    return builder.function()


def chosen(function: Function, **options: Any) -> list[type[Node]]:
    """Return the operators that compute the products of *function*, on a small core."""
    kinds = (
        *(DepthwiseConvolution, PackedConvolution, PackedMatMul),
        *(StrassenMatMul, UnpackedMatMul, WinogradConvolution),
    )
    made = select_packed_operators(function, target=SMALL_CORE, **options)
    return [type(node) for node in made if isinstance(node, kinds)]


def plans_of(function: Function, said: Any = None) -> LayerPlans:
    """Return the candidates of the layer ``conv1`` if *said* is said of it."""
    return explain(function, SMALL_CORE, CpuOptions(plan=said))["conv1"]
