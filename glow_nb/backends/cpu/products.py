"""The products that the cpu backend chooses kernels for."""

from __future__ import annotations

from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul

Product = Convolution | FullyConnected | MatMul
PRODUCTS = (Convolution, FullyConnected, MatMul)
