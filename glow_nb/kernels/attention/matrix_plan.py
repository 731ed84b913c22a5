"""The tiles of the products of attention in matrix registers (AMX), and their time.

Queries and keys are filled up with zeros to whole rows of registers, and so are exponentials and
values: all steps multiply as many groups, so that the registers are configured once. Both products
have registers in the same form for that reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import (
    DOTS,
    MATRIX_COLUMNS,
    MATRIX_PARTS,
    MATRIX_ROWS,
    DotInstruction,
    groups_at_once,
    matrix_rows,
)
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.attention.shape import AttentionShape
from glow_nb.kernels.products.dot_choice import has_dot
from glow_nb.kernels.products.matrix_cost import MatrixSums, matrix_line_cycles
from glow_nb.kernels.target import Target

DOT = DOTS["tile_dot_tdpbf16ps"]
"""The instruction that multiplies pairs of bfloat16."""

MATRIX_KEYS = MATRIX_ROWS * DOT.group
"""Keys that a step of the sums of values takes, and elements of a step of scores."""

ROWS_TOGETHER = 4
"""Rows of a tile are a multiple of this, since the exponentials of this number of rows are computed
together."""

assert MATRIX_KEYS * ElementKind.BFLOAT16.size_bytes == CACHE_LINE_BYTES


@dataclass(frozen=True)
class MatrixTiles:
    """The form of a tile of matrix registers.

    Attributes:
        rows: Rows of the tile.
        parts: Registers below each other, of at most 16 rows.
        panels: Registers side by side, of 16 columns each.
        cycles: The cycles of the products of a head of keys.
        dot: The instruction that multiplies.
    """

    rows: int
    parts: int
    panels: int
    cycles: float = 0.0
    dot: str = DOT.name

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return self.panels * MATRIX_COLUMNS

    @property
    def part_rows(self) -> int:
        """Rows of each part but the last."""
        return -(-self.rows // self.parts)

    @property
    def last_rows(self) -> int:
        """Rows of the last part."""
        return self.rows - (self.parts - 1) * self.part_rows


def padded_depth(depth: int) -> int:
    """Return *depth*, of queries and keys, with zeros up to whole rows of registers."""
    return -(-max(depth, 1) // MATRIX_KEYS) * MATRIX_KEYS


def may_take_registers(shape: AttentionShape, target: Target) -> bool:
    """Return whether *target* has matrix registers, and *shape* may be multiplied in them."""
    suits = shape.rounds_weights and DOT.multiplies(shape.kind, shape.kind)
    return suits and has_dot(target, DOT)


def matrix_tiles(shape: AttentionShape, target: Target) -> MatrixTiles:
    """Return the tiles that take the fewest cycles."""
    return min((_tiles(shape, target, panels) for panels in MATRIX_PARTS), key=_cycles)


def _cycles(tiles: MatrixTiles) -> tuple[float, int]:
    return tiles.cycles, tiles.panels


def _tiles(shape: AttentionShape, target: Target, panels: int) -> MatrixTiles:
    """Return the tiles of *panels* panels."""
    columns = panels * MATRIX_COLUMNS
    most = matrix_rows(columns)
    rows = -(-shape.rows // -(-shape.rows // most))
    rows = min(most, -(-rows // ROWS_TOGETHER) * ROWS_TOGETHER)
    made = MatrixTiles(rows, -(-rows // MATRIX_ROWS), panels)
    whole = -(-shape.rows // rows) * rows
    depth, keys = (padded_depth(n) // DOT.group for n in (shape.depth, shape.keys))
    by_depth, by_keys = (MatrixSums(groups, groups_at_once(groups)) for groups in (depth, keys))
    scores = matrix_line_cycles(shape.keys, columns, whole, by_depth, target)
    sums = matrix_line_cycles(max(1, shape.width), columns, whole, by_keys, target)
    return replace(made, cycles=scores + sums)


def require_matrix_form(
    plan: Plan,
    dot: DotInstruction,
    shape: AttentionShape,
    rows: int,
    columns: tuple[int, int, int],
    *,
    packs: bool,
) -> None:
    """Raise the error of a *plan* whose matrix registers do not go with *shape* or each other.

    Args:
        plan: The plan of an attention.
        dot: The dot instruction of its setting ``dot``.
        shape: The attention.
        rows: Rows of a tile.
        columns: Columns of a tile of scores, of one of sums, and keys of a block.
        packs: Whether keys and values are copied.

    Raises:
        UnsupportedError: There is such a setting.
    """
    if not shape.rounds_weights:
        raise plan.unfit("matrix registers round exponentials; set rounds_weights of the attention")
    if dot is not DOT or not dot.multiplies(shape.kind, shape.kind):
        raise plan.unfit(f"attention of {shape.kind.value} is not multiplied by {dot.name!r:.40}")
    of_scores, of_sums, keys = columns
    if of_scores != of_sums or of_scores % MATRIX_COLUMNS:
        raise plan.unfit(
            f"tiles of {of_scores} and {of_sums} columns; matrix registers need the same number in "
            f"both, a multiple of {MATRIX_COLUMNS}"
        )
    if rows > matrix_rows(of_scores):
        raise plan.unfit(f"rows = {rows}; {of_scores} columns leave {matrix_rows(of_scores)}")
    if keys % MATRIX_KEYS:
        raise plan.unfit(f"block_keys = {keys} must be a multiple of {MATRIX_KEYS}")
    if not packs:
        raise plan.unfit("matrix registers read copies alone; set pack_keys and pack_values")
