"""Every kernel generator: importing this module registers all of them."""

from __future__ import annotations

from glow_nb.kernels import convolution, depthwise, elementwise, matmul, pooling, stacks, transpose

__all__ = ["convolution", "depthwise", "elementwise", "matmul", "pooling", "stacks", "transpose"]
