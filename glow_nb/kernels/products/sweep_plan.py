"""The products that sweep a right run-time matrix, and the pieces of the sweep.

Few left rows sweep a large matrix in its own order: a few of its rows are multiplied from end to
end, then the next ones, while the sums of all columns wait in scratch.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.plan import MAX_ROWS, Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.blocking import MAX_VECTORS, Cut, lanes_of, registers_of, row_limit
from glow_nb.kernels.products.caches import byte_cycles, level_2_bytes
from glow_nb.kernels.products.in_place import in_place_block, rows_conflict
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target

SWEEP = "sweep"
"""The algorithm that multiplies a few right rows from end to end, then the next ones."""


@dataclass(frozen=True)
class SweepPlan:
    """The numbers that the loops of a sweep are made of.

    Attributes:
        lanes: Elements of a vector.
        vectors: Vectors of a tile.
        cut: Left rows in tiles.
        steps: Right rows that are multiplied from end to end.
        is_aligned: True if all right rows begin at the same place of a vector.
    """

    lanes: int
    vectors: int
    cut: Cut
    steps: int
    is_aligned: bool

    @classmethod
    def of(cls, product: UnpackedProduct, kinds: ProductKinds, target: Target) -> SweepPlan:
        """Return the plan of *product*."""
        lanes, shape = lanes_of(kinds.total, target), product.shape
        vectors = swept_vectors(shape, kinds.total, target)
        cut = Cut.balanced(max(1, shape.rows), row_limit(vectors, registers_of(target)))
        is_read_again = cut.tiles > 1 and not rows_conflict(product, kinds.right, target)
        steps = 2 * target.machine.swept_rows if is_read_again else target.machine.swept_rows
        return cls(lanes, vectors, cut, steps, product.right.row % lanes == 0)

    def as_plan(self) -> Plan:
        """Return the plan that :meth:`from_plan` makes this of."""
        return Plan.of(SWEEP, rows=self.cut.rows, block=self.block, steps=self.steps)

    @classmethod
    def from_plan(cls, plan: Plan, product: UnpackedProduct, lanes: int) -> SweepPlan:
        """Return the loops of *product* in vectors of *lanes*, with the settings of *plan*."""
        cut = Cut.balanced(max(1, product.shape.rows), plan.rows)
        block, right = plan.number("block", most=MAX_VECTORS * lanes), product.right
        if block % lanes or right.column != 1 or 1 not in (product.left.row, product.left.column):
            raise plan.unfit(f"rows of neighbours are swept in tiles of a multiple of {lanes}")
        is_aligned = right.row % lanes == 0
        return cls(lanes, block // lanes, cut, plan.number("steps", most=MAX_ROWS), is_aligned)

    @property
    def block(self) -> int:
        """Columns of a tile."""
        return self.lanes * self.vectors


def suits_sweep(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> bool:
    """Return whether the right matrices of *product* are best read in their own order.

    They are where the multiply-adds take no longer than to fetch them, or where other tiles would
    be narrow, or read rows that drive each other out of the first-level cache, and what a sweep
    costs beside them is less than what a copy costs.
    """
    machine = target.machine
    shape, left, right = product.shape, product.left, product.right
    if right.column != 1 or 1 not in (left.row, left.column):
        return False
    near_bytes, kind = level_2_bytes(target), kinds.right
    matrices = shape.batch if right.distance else 1
    right_bytes = matrices * shape.inner * shape.depth * kind.size_bytes
    sum_bytes = shape.rows * shape.depth * kinds.total.size_bytes
    is_far = right_bytes > near_bytes
    avoids_conflicts = _avoids_conflicts(product, kinds, target)
    if sum_bytes > near_bytes or not (is_far or avoids_conflicts):
        return False
    if shape.depth <= lanes_of(kinds.total, target) * swept_vectors(shape, kinds.total, target):
        return False  # a single tile reads it in order anyway
    vector_bytes = lanes_of(kind, target) * kind.size_bytes
    arithmetic = target.passes * shape.rows / (machine.fma_per_cycle * vector_bytes)
    is_narrow = in_place_block(shape, kind, target) * kind.size_bytes < machine.narrow_tile_bytes
    is_cheap = (machine.sweep_factor - 1) * arithmetic <= machine.copied_byte_cycles
    if is_cheap and (is_narrow or avoids_conflicts):
        return True
    return is_far and machine.sweep_factor * arithmetic <= byte_cycles(right_bytes, target)


def _avoids_conflicts(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> bool:
    """Return whether other tiles than those of a sweep would suffer from rows that conflict.

    Wide ones do not. Sums that are short beside the number of rows wait too often to be swept.
    """
    shape, kind = product.shape, kinds.right
    width = in_place_block(shape, kinds.total, target) * kind.size_bytes
    is_long = shape.inner > 4 * shape.rows
    return (
        is_long and width < target.machine.wide_tile_bytes and rows_conflict(product, kind, target)
    )


def swept_vectors(shape: MatMulShape, kind: ElementKind, target: Target) -> int:
    """Return how many vectors a tile has if *shape* sweeps a matrix, with sums of *kind*."""
    machine = target.machine
    lanes, registers = lanes_of(kind, target), registers_of(target)
    if shape.rows > row_limit(2, registers):
        return in_place_block(shape, kind, target) // lanes
    row_bytes = shape.depth * kind.size_bytes
    is_far = shape.inner * row_bytes > level_2_bytes(target) and row_bytes > machine.swept_bytes
    width, least = (
        (machine.far_swept_bytes, machine.far_swept_vectors) if is_far else (machine.swept_bytes, 1)
    )
    vectors = min(max(least, width // (lanes * kind.size_bytes)), MAX_VECTORS)
    while vectors > 1 and row_limit(vectors, registers) < shape.rows:
        vectors -= 1
    return min(vectors, -(-shape.depth // lanes))
