"""The inner blocks of the sum of a product."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from glow_nb.base.size import surely
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.reduction import Reduction

IMAGE_CHANNELS, IMAGE_CHAIN = 4, 96
"""The most products that are added up one after the other where a convolution has so few channels:
it reads an image. A longer sum is added up from chains of as many rows of taps, in the same tile.
If a row is longer, sums wait in scratch between its pieces.

Its rounding goes through all layers that follow: with its 147 products in one chain, ResNet50 is
up to 3.8e-5 of its largest output from its results in float64, with chains of four rows and of
three 2.0e-5 (without Winograd's algorithm).
"""


def reduction_of(nest: ProductNest, limit: int, lanes: int) -> Reduction:
    """Cut the sum of *nest* into inner blocks of at most *limit* steps."""
    if nest.codes is not None:
        return nest.codes.reduction(nest.left.step, limit)
    step, factors = 1 if nest.is_staged else nest.left.step, nest.kinds.factors
    distances, shape = input_distances(nest), nest.shape
    is_transposed = nest.right.is_copied and nest.right.column != 1
    multiple = lanes if is_transposed else 1  # whole squares are transposed in registers
    if nest.kinds.dot.is_matrix:
        multiple = nest.plane_groups

    def within(limit: int) -> Reduction:
        return Reduction.of(
            shape,
            distances,
            step,
            limit,
            factors=factors,
            run=0 if nest.kinds.dot.is_matrix else nest.run,
            keeps_runs=nest.kinds.dot.is_paired or nest.kinds.dot.is_matrix,
            multiple=multiple,
        )

    whole = within(limit)
    is_image = surely(shape.channels_per_group, "<=", IMAGE_CHANNELS) and nest.kinds.total.is_float
    is_image = is_image and not nest.kinds.dot.is_matrix
    if not is_image or whole.block_products <= IMAGE_CHAIN:
        return whole
    row = whole.block_products // whole.inner[0].count if whole.inner else whole.dot
    if row > IMAGE_CHAIN:  # what is no chain of whole rows waits in scratch
        return within(min(limit, IMAGE_CHAIN))
    return replace(whole, chain=IMAGE_CHAIN // row)


def input_distances(nest: ProductNest) -> tuple[int, ...]:
    """Return the elements between neighbours in each dimension of what the tiles read.

    That is the padded copy of the input, if there is one.
    """
    shape = nest.shape
    sizes, last = (shape.input, nest.left.pixel)
    if nest.is_staged:
        sizes, last = shape.needed, nest.staged_pixel
    return tuple(prod(sizes[axis + 1 :]) * last for axis in range(shape.rank))
