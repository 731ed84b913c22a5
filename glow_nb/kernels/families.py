"""Every kernel generator: importing this module registers all of them."""

from __future__ import annotations

from glow_nb.kernels import (
    arg_reduction,
    convolution,
    depthwise,
    elementwise,
    gather,
    layer_normalization,
    matmul,
    normalization,
    pad,
    pooling,
    reduction,
    scan,
    softmax,
    stacks,
    tile,
    top_k,
    transpose,
    winograd,
)

__all__ = [
    "arg_reduction",
    "convolution",
    "depthwise",
    "elementwise",
    "gather",
    "layer_normalization",
    "matmul",
    "normalization",
    "pad",
    "pooling",
    "reduction",
    "scan",
    "softmax",
    "stacks",
    "tile",
    "top_k",
    "transpose",
    "winograd",
]
