"""The estimated time of products in matrix registers, and the width of their panels."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from glow_nb.base.dot_instruction import (
    MATRIX_COLUMNS,
    MATRIX_PARTS,
    MATRIX_ROWS,
    matrix_rows,
)
from glow_nb.kernels.products.blocking import Cut
from glow_nb.kernels.target import Target

GROUP_BYTES = 4
"""Size of a group of neighbours."""


class MatrixSums(NamedTuple):
    """The summands of each sum.

    Attributes:
        groups: Groups of neighbours.
        at_once: As many as a step takes.
    """

    groups: int
    at_once: int


def longest_matrix_dot(row_bytes: int, target: Target) -> int:
    """Return the most groups of neighbours of an inner block, *row_bytes* each in a panel."""
    machine = target.machine
    return max(MATRIX_ROWS, int(machine.matrix_panel_share * machine.l1_bytes) // row_bytes)


@cache
def rank_matrix_blocks(
    depth: int, pixels: int, sums: MatrixSums, target: Target
) -> tuple[int, ...]:
    """Return the columns that a panel may have, those of the least estimated time first.

    Args:
        depth: Columns of the product.
        pixels: Rows of a line.
        sums: The summands of each sum.
        target: The processor.
    """

    def cost(panels: int) -> tuple[float, int]:
        block = panels * MATRIX_COLUMNS
        cycles = matrix_line_cycles(depth, block, pixels, sums, target)
        parts = -(-sums.groups // longest_matrix_dot(block * GROUP_BYTES, target))
        vectors = -(-depth // MATRIX_COLUMNS)
        waiting = target.machine.waiting_vector_cycles * (parts - 1) * pixels * vectors
        return cycles + waiting, -panels

    most = min(max(MATRIX_PARTS), max(1, -(-depth // MATRIX_COLUMNS)))
    return tuple(MATRIX_COLUMNS * panels for panels in sorted(range(1, most + 1), key=cost))


def matrix_line_cycles(
    depth: int, block: int, pixels: int, sums: MatrixSums, target: Target
) -> float:
    """Estimate the products of a line of *pixels* and *depth* columns."""
    cut = Cut.balanced(max(1, pixels), matrix_rows(block))
    full, tail = divmod(depth, block)
    widths = {block: full, tail: 1 if tail else 0}
    return sum(
        number * cut.tiles * _tile_cycles(cut.rows, columns, sums, target)
        for columns, number in widths.items()
        if number
    )


def _tile_cycles(rows: int, columns: int, sums: MatrixSums, target: Target) -> float:
    """Estimate a tile of *rows* rows and *columns* columns: its steps, and how its sums leave."""
    parts, panels = -(-rows // MATRIX_ROWS), -(-columns // MATRIX_COLUMNS)
    height, (groups, at_once) = -(-rows // parts), sums
    machine = target.machine
    whole = parts * panels * height / MATRIX_ROWS
    arithmetic = max(whole * machine.matrix_tile_cycles, machine.matrix_latency_cycles)
    far = machine.matrix_far_load_cycles
    panel_bytes = columns * GROUP_BYTES * groups
    is_near = panel_bytes <= machine.matrix_l1_share * machine.l1_bytes
    load = machine.matrix_load_cycles if is_near else far
    loads = (parts * height * far + panels * at_once * load) / MATRIX_ROWS
    stores = 2 * parts * panels * machine.matrix_store_cycles
    return groups / at_once * max(arithmetic, loads) + stores
