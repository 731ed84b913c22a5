"""Where matrix registers read left rows: where these lie, or in planes of a line of each pixel.

A register takes rows that follow one another faster than those that lie apart, and a copy is a read
and a write. So rows that are read often are copied. Images with pads are copied in any case, and so
are runs (:mod:`glow_nb.kernels.products.matrix_rows`).
"""

from __future__ import annotations

from math import prod

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.plan import Plan
from glow_nb.base.size import surely
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.target import Target


def in_best_place(nest: ProductNest, target: Target) -> ProductNest:
    """Return *nest*, or the same product of left rows in planes where these are read faster."""
    return nest.in_planes() if nest.kinds.dot.is_matrix and pays_to_copy(nest, target) else nest


def pays_to_copy(nest: ProductNest, target: Target) -> bool:
    """Return whether left rows are read so often that a copy in planes takes less time."""
    shape = nest.shape
    pixel_bytes = shape.channels * nest.kinds.staged.size_bytes
    reads = -(-shape.depth_per_group // nest.block) * prod(shape.kernel)
    least = target.machine.matrix_least_reads * prod(shape.stride)  # those between are copied, too
    return pixel_bytes != CACHE_LINE_BYTES and surely(reads, ">=", least)


def in_place_of_plan(nest: ProductNest, plan: Plan) -> ProductNest:
    """Return *nest*, or the same product of left rows in planes if *plan* says so.

    Raises:
        UnsupportedError: This product is not one of matrix registers.
    """
    if not plan.is_set("planes"):
        return nest
    if not nest.kinds.dot.is_matrix:
        raise plan.unfit(f"{nest.kinds.dot.name} reads no planes")
    return nest.in_planes()
