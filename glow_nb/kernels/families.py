"""Every kernel generator: importing this module registers all of them."""

from __future__ import annotations

from glow_nb.kernels import (
    convolution,
    depthwise,
    elementwise,
    gather,
    matmul,
    pad,
    pooling,
    stacks,
    tile,
    transpose,
)

__all__ = [
    "convolution",
    "depthwise",
    "elementwise",
    "gather",
    "matmul",
    "pad",
    "pooling",
    "stacks",
    "tile",
    "transpose",
]
