"""The products that the cpu backend chooses kernels for, and the sizes of convolutions."""

from __future__ import annotations

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


def undilated_shape(node: Convolution) -> ConvolutionShape:
    """Return the sizes of *node*; a dilated line may be seen as an image."""
    return shape_of(node).undilated()
