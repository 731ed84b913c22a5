"""How the run-time operands of a matrix product are read, by estimated time.

A right matrix is laid out in panels by itself, before the product, which costs time for
each byte and the transfer to memory and back; or it stays as it lies, and the product reads, sweeps
or copies it while it multiplies (:mod:`glow_nb.kernels.products.in_place`).
"""

from __future__ import annotations

from functools import lru_cache
from math import log2

from glow_nb.base.dot_instruction import SINGLE
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.caches import byte_cycles, level_2_bytes
from glow_nb.kernels.products.convolution_cost import (
    best_product_cycles,
    panel_product_cycles,
)
from glow_nb.kernels.products.in_place import in_place_nest, scattered_cycles
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.product_plan import (
    copying_cycles,
    outruns_memory,
    plan_loops,
    result_bytes,
)
from glow_nb.kernels.products.row_products import reads_left_once, tile_of
from glow_nb.kernels.products.sweep_plan import SweepPlan, suits_sweep
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target

MAX_REMEMBERED = 4096
"""Problems whose choice is remembered."""


@lru_cache(MAX_REMEMBERED)
def suits_in_place(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> bool:
    """Return whether *product* is faster without a copy of its right matrices in panels.

    What was found is remembered, as networks have many products of one problem.
    """
    if not (_is_even(product) or can_multiply_rows(product)):
        return False
    return in_place_cycles(product, kinds, target) < packed_cycles(product, kinds, target)


def multiplies_rows(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> bool:
    """Return whether *product* is best done by :mod:`glow_nb.kernels.products.row_products`."""
    if not can_multiply_rows(product):
        return False
    if not _is_even(product):
        return True
    if product.right.column == 1:
        return False
    by_rows = row_product_cycles(product.shape, kinds.total, target)
    return by_rows < _nest_cycles(product, kinds, target)


def _is_even(product: UnpackedProduct) -> bool:
    """Return whether both operands' matrices lie at equal distances."""
    return product.left.is_even and product.right.is_even


def can_multiply_rows(product: UnpackedProduct) -> bool:
    """Return whether the sums of *product* run along neighbours in both operands."""
    return product.shape.inner < 2 or product.right.row == product.left.column == 1


def in_place_cycles(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> float:
    """Estimate *product* with operands as they lie."""
    if multiplies_rows(product, kinds, target):
        return row_product_cycles(product.shape, kinds.total, target)
    return _nest_cycles(product, kinds, target)


def packed_cycles(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> float:
    """Estimate *product* with a copy of its right matrices, and that copy.

    It is read, and written, and read by the product again, if not from a near cache then from a far
    one.
    """
    shape = product.shape
    best = best_product_cycles(shape, kinds.left, target)
    is_shared = not any(distance for _, distance in product.right.batch)
    matrices = 1 if is_shared else shape.batch
    size = matrices * shape.inner * shape.depth * kinds.right.size_bytes
    far = byte_cycles(size, target) if size > level_2_bytes(target) else 0.0
    return best + (target.machine.laid_out_byte_cycles + 3 * far) * size


def _nest_cycles(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> float:
    """Estimate *product* in a sweep, or by the nest of loops of all products."""
    shape = product.shape
    if suits_sweep(product, kinds, target):
        block = SweepPlan.of(product, kinds, target).block
        return target.machine.sweep_factor * panel_product_cycles(
            shape, kinds.left, target, SINGLE, block
        )
    nest = in_place_nest(product, kinds, target)
    loops = plan_loops(nest, target)
    cycles = panel_product_cycles(shape, kinds.left, target, SINGLE, nest.block)
    if nest.right.is_copied:
        if outruns_memory(nest, loops, target):
            cycles += target.machine.copied_dram_result_byte_cycles * result_bytes(nest)
        return cycles + copying_cycles(nest, loops, target)
    return cycles + nest.right_bytes * scattered_cycles(product, nest.block, kinds, target)


def row_product_cycles(shape: MatMulShape, kind: ElementKind, target: Target) -> float:
    """Estimate a product by :mod:`glow_nb.kernels.products.row_products`.

    Left rows that the first-level cache does not hold come from the second for each tile. It must
    hold all of them, or a tile and all right rows if these are read before the next tile is.
    """
    lanes = lanes_of(kind, target)
    cut, columns = tile_of(shape.rows, target)
    left_once = reads_left_once(shape, cut, columns, target)
    kept = cut.rows + shape.depth if left_once else shape.rows
    is_near = kept * shape.inner * kind.size_bytes <= target.machine.l1_bytes // 2
    meet = shape.inner * kind.size_bytes % target.machine.l1_set_bytes == 0
    cycles = 0.0
    for begin, end, rows in cut.runs:
        left = target.passes * rows / target.machine.l2_row_vectors_per_cycle
        if meet and rows > target.machine.l1_bytes // target.machine.l1_set_bytes:
            left *= target.machine.conflict_factor
        step = max(
            target.passes * rows * columns / target.machine.fma_per_cycle,
            target.passes * (rows + columns) / target.machine.load_ports,
            target.machine.fma_latency_cycles,
            0.0 if is_near else left,
        )
        sums = target.machine.lane_sum_cycles * rows * (columns - 1 + log2(max(1, lanes / columns)))
        cycles += (end - begin) * (
            step * -(-shape.inner // lanes) + sums + target.machine.row_tile_cycles
        )
    return shape.batch * -(-shape.depth // columns) * cycles
