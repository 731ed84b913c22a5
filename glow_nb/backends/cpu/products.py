"""The products that the cpu backend chooses kernels for, and the sizes of convolutions."""

from __future__ import annotations

from collections.abc import Iterable

from glow_nb.base.schema import attributes_of, operands_of
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul
from glow_nb.kernels.products.convolution_shape import ConvolutionShape

Product = Convolution | FullyConnected | MatMul
PRODUCTS = (Convolution, FullyConnected, MatMul)


def shape_of(node: Convolution) -> ConvolutionShape:
    """Return the sizes of *node*."""
    return ConvolutionShape.of(
        node.input.type.shape,
        node.filter.type.shape[0],
        node.kernel,
        node.pads,
        stride=node.stride,
        dilation=node.dilation,
        group=node.group,
    )


def product_key(node: Product) -> str:
    """Return text that is the same for nodes whose kernels have the same choice."""
    operands = [value for value in operands_of(node) if isinstance(value, Value)]
    types = [f"{value.type}{' constant' * isinstance(value, Constant)}" for value in operands]
    return f"{node.opcode}({', '.join(types)}) {attributes_of(node)}"


def weight_bytes(products: Iterable[Product]) -> int:
    """Return what all constants take that *products* read, each counted once."""
    weights = {v for node in products for v in operands_of(node) if isinstance(v, Constant)}
    return sum(weight.type.size_bytes for weight in weights)
