"""How the threads of a kernel share its work: a grid of ranges over two independent loops."""

from __future__ import annotations

from glow_nb.kernels.source import SourceWriter


def largest_share(
    units: int, panels: int, threads: int, *, panels_first: bool
) -> tuple[float, float]:
    """Return the parts of the units and of the panels that make up the largest share.

    Shares are those of :func:`write_shares`.
    """
    best, least = (units, panels), 2 * units * panels
    for shares in range(1, min(threads, panels) + 1):
        others = max(1, min(threads // shares, units))
        cell = (-(-units // others), -(-panels // shares))
        size = cell[0] * cell[1]
        if size < least or (panels_first and size == least):
            best, least = cell, size
    return best[0] / max(1, units), best[1] / max(1, panels)


def write_shares(out: SourceWriter, units: int, panels: int, *, panels_first: bool) -> None:
    """Write ``unit``, ``unit_end``, ``panel_begin`` and ``panel_end`` of ``thread``.

    There are *units* times *panels* pieces of work. Of all grids of ``unit_shares`` by
    ``panel_shares`` that have at most as many cells as there are threads, the one is taken whose
    largest cell is smallest; among equals, that which divides the panels most if *panels_first*,
    and least otherwise. Threads beyond the grid get an empty range of panels.
    """
    if panels == 1:
        out.line("panel_shares = 1")
    else:
        better = "<=" if panels_first else "<"
        out.line(f"panel_shares = 1\nleast = {2 * units * panels}")
        with out.block(f"for shares in range(1, min(threads, {panels}) + 1):"):
            out.line(f"others = min(threads // shares, {units})")
            out.line(
                f"cell = (({panels - 1} + shares) // shares) * (({units - 1} + others) // others)"
            )
            with out.block(f"if cell {better} least:"):
                out.line("panel_shares = shares\nleast = cell")
    out.line(f"unit_shares = min(threads // panel_shares, {units})")
    out.line("unit_share = thread % unit_shares")
    out.line("panel_share = thread // unit_shares")
    out.line(f"panel_begin = min(panel_share * {panels} // panel_shares, {panels})")
    out.line(f"panel_end = min((panel_share + 1) * {panels} // panel_shares, {panels})")
    out.line(f"unit = unit_share * {units} // unit_shares")
    out.line(f"unit_end = (unit_share + 1) * {units} // unit_shares")
