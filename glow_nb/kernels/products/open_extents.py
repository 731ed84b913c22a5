"""Matrix products of sizes that only the run knows: the example that they are planned for.

A plan must do for all sizes. Where tiles are cut for few rows, columns or steps, many take long; a
plan for many of them is good for few as well, whose tiles are cut when the kernel runs.
"""

from __future__ import annotations

from dataclasses import replace

from glow_nb.base.map_sizes import at_hints
from glow_nb.base.size import Size, hinted
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.unpacked_product import UnpackedProduct

MANY = 256
"""An open extent counts as this number of rows, columns or steps, or as that of the example if that
is larger, but never as more than its range allows."""


def example_size(size: int) -> int:
    """Return the number that a plan is made for of a *size* that may be open."""
    if not isinstance(size, Size):
        return size
    return max(hinted(size), min(size.bounds[1], MANY))


def example_shape(shape: MatMulShape) -> MatMulShape:
    """Return the sizes that a plan of *shape* is made for."""
    return MatMulShape(
        hinted(shape.batch),
        example_size(shape.rows),
        example_size(shape.inner),
        example_size(shape.depth),
    )


def example_product(product: UnpackedProduct) -> UnpackedProduct:
    """Return what a plan of *product* is made for; operands lie as those of the example."""
    return replace(at_hints(product), shape=example_shape(product.shape))


def example_nest(nest: ProductNest) -> ProductNest:
    """Return what a plan of *nest*, a matrix product where sizes are open, is made for."""
    shape = nest.shape
    sized = replace(
        shape,
        batch=hinted(shape.batch),
        channels=example_size(shape.channels),
        depth=example_size(shape.depth),
        input=tuple(map(example_size, shape.input)),
    )
    return replace(at_hints(nest), shape=sized, run=example_size(nest.run))
