"""How the threads of a kernel share its work: a grid of ranges over two independent loops.

The outer loops of a product go over *units* (blocks of rows) and *panels* (blocks of columns). A
grid of threads, at most as many as there are, cuts both into ranges. Cost models compute the grid
here; generated code computes the same grid with :mod:`glow_nb.simd.shares`.
"""

from __future__ import annotations

WORTH = 16
"""The preferred direction is given up only if that makes the largest share smaller by one part in
so many. Neighbours along that direction read the same operands, and most of what they read was
written by the same thread in the kernel before."""


def thread_grid(units: int, panels: int, threads: int, *, panels_first: bool) -> tuple[int, int]:
    """Return into how many ranges the units and the panels are cut.

    Grids are tried from the one that cuts the panels most if *panels_first*, and from that which
    cuts the units most otherwise; a later one is taken only if its largest cell is smaller by one
    part in :data:`WORTH`.
    """
    best, least = 1, 2 * units * panels
    numbers = range(1, min(threads, panels) + 1)
    for columns in reversed(numbers) if panels_first else numbers:
        rows = _rows(units, threads, columns)
        cell = -(-units // rows) * -(-panels // columns)
        if cell * WORTH < least * (WORTH - 1):
            best, least = columns, cell
    return _rows(units, threads, best), best


def _rows(units: int, threads: int, columns: int) -> int:
    return max(1, min(threads // columns, units))


def largest_share(
    units: int, panels: int, threads: int, *, panels_first: bool
) -> tuple[float, float]:
    """Return the parts of the units and of the panels that make up the largest share."""
    rows, columns = thread_grid(units, panels, threads, panels_first=panels_first)
    return -(-units // rows) / max(1, units), -(-panels // columns) / max(1, panels)
