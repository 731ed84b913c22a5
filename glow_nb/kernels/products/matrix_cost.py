"""What products in matrix registers take, by estimate, and how wide their panels are."""

from __future__ import annotations

from functools import cache

from glow_nb.base.dot_instruction import (
    MATRIX_COLUMNS,
    MATRIX_PARTS,
    MATRIX_ROWS,
    groups_at_once,
    matrix_rows,
)
from glow_nb.kernels.products.blocking import Cut
from glow_nb.kernels.target import Target


@cache
def rank_matrix_blocks(
    depth: int, pixels: int, groups: int, row_cycles: float, target: Target
) -> tuple[int, ...]:
    """Return the columns that a panel may have, those of the least estimated time first.

    Args:
        depth: Columns of the product.
        pixels: Rows of a line.
        groups: Groups of neighbours of a sum.
        row_cycles: What a left row takes to come near, once for each panel.
        target: The processor.
    """

    def cost(panels: int) -> tuple[float, int]:
        block = panels * MATRIX_COLUMNS
        cycles = matrix_line_cycles(depth, block, pixels, groups, target)
        return cycles + -(-depth // block) * pixels * row_cycles, -panels

    most = min(max(MATRIX_PARTS), max(1, -(-depth // MATRIX_COLUMNS)))
    return tuple(MATRIX_COLUMNS * panels for panels in sorted(range(1, most + 1), key=cost))


def matrix_line_cycles(depth: int, block: int, pixels: int, groups: int, target: Target) -> float:
    """Estimate the products of a line of *pixels* and *depth* columns, of so many *groups* each."""
    cut = Cut.balanced(max(1, pixels), matrix_rows(block))
    full, tail = divmod(depth, block)
    widths = {block: full, tail: 1 if tail else 0}
    return sum(
        number * cut.tiles * _tile_cycles(cut.rows, columns, groups, target)
        for columns, number in widths.items()
        if number
    )


def _tile_cycles(rows: int, columns: int, groups: int, target: Target) -> float:
    """Estimate a tile of so many *rows* and *columns*: its steps, and how its sums leave."""
    parts, panels = -(-rows // MATRIX_ROWS), -(-columns // MATRIX_COLUMNS)
    height, at_once = -(-rows // parts), groups_at_once(groups)
    machine = target.machine
    whole = parts * panels * height / MATRIX_ROWS
    arithmetic = max(whole * machine.matrix_tile_cycles, machine.matrix_latency_cycles)
    loads = (parts * height + panels * at_once) / MATRIX_ROWS * machine.matrix_load_cycles
    stores = 2 * parts * panels * machine.matrix_store_cycles
    return groups / at_once * max(arithmetic, loads) + stores
