"""How the threads of a kernel share its work: a grid of ranges over two independent loops."""

from __future__ import annotations

from glow_nb.kernels.writing.source import SourceWriter

WORTH = 16
"""The preferred direction is given up only if that makes the largest share smaller by one part in
so many. Neighbours along that direction read the same operands, and most of what they read was
written by the same thread in the kernel before."""


def largest_share(
    units: int, panels: int, threads: int, *, panels_first: bool
) -> tuple[float, float]:
    """Return the parts of the units and of the panels that make up the largest share.

    Shares are those of :func:`write_shares`.
    """
    best, least = (units, panels), 2 * units * panels
    numbers = range(1, min(threads, panels) + 1)
    for shares in reversed(numbers) if panels_first else numbers:
        others = max(1, min(threads // shares, units))
        cell = (-(-units // others), -(-panels // shares))
        size = cell[0] * cell[1]
        if size * WORTH < least * (WORTH - 1):
            best, least = cell, size
    return best[0] / max(1, units), best[1] / max(1, panels)


def write_shares(out: SourceWriter, units: int, panels: int, *, panels_first: bool) -> None:
    """Write ``unit``, ``unit_end``, ``panel_begin`` and ``panel_end`` of ``thread``.

    There are *units* times *panels* pieces of work, shared by a grid of ``unit_shares`` by
    ``panel_shares`` with at most as many cells as there are threads. Grids are tried from the one
    that divides the panels most if *panels_first*, and from that which divides the units most
    otherwise; a later one is taken only if its largest cell is smaller by one part in
    :data:`WORTH`. Threads beyond the grid get an empty range of panels.
    """
    if panels == 1:
        out.line("panel_shares = 1")
    else:
        out.line(f"panel_shares = 1\nleast = {2 * units * panels}")
        most = f"min(threads, {panels})"
        order = f"range({most}, 0, -1)" if panels_first else f"range(1, {most} + 1)"
        with out.block(f"for shares in {order}:"):
            out.line(f"others = min(threads // shares, {units})")
            out.line(
                f"cell = (({panels - 1} + shares) // shares) * (({units - 1} + others) // others)"
            )
            with out.block(f"if cell * {WORTH} < least * {WORTH - 1}:"):
                out.line("panel_shares = shares\nleast = cell")
    out.line(f"unit_shares = min(threads // panel_shares, {units})")
    out.line("unit_share = thread % unit_shares")
    out.line("panel_share = thread // unit_shares")
    out.line(f"panel_begin = min(panel_share * {panels} // panel_shares, {panels})")
    out.line(f"panel_end = min((panel_share + 1) * {panels} // panel_shares, {panels})")
    out.line(f"unit = unit_share * {units} // unit_shares")
    out.line(f"unit_end = (unit_share + 1) * {units} // unit_shares")
