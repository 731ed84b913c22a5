"""How the threads of a kernel share its work: a grid of ranges over two independent loops."""

from __future__ import annotations

from glow_nb.kernels.source import SourceWriter


def write_shares(out: SourceWriter, units: int, panels: int, *, panels_first: bool) -> None:
    """Write ``unit``, ``unit_end``, ``panel_begin`` and ``panel_end`` of ``thread``.

    There are *units* times *panels* pieces of work. The threads first divide the panels, or the
    units, and only those who are left over divide the other loop. A thread that is beyond the
    grid gets an empty range of panels.
    """
    if panels_first:
        out.line(f"panel_shares = min(threads, {panels})")
        out.line(f"unit_shares = min(threads // panel_shares, {units})")
    else:
        out.line(f"unit_shares = min(threads, {units})")
        out.line(f"panel_shares = min(threads // unit_shares, {panels})")
    out.line("unit_share = thread % unit_shares")
    out.line("panel_share = thread // unit_shares")
    out.line(f"panel_begin = min(panel_share * {panels} // panel_shares, {panels})")
    out.line(f"panel_end = min((panel_share + 1) * {panels} // panel_shares, {panels})")
    out.line(f"unit = unit_share * {units} // unit_shares")
    out.line(f"unit_end = (unit_share + 1) * {units} // unit_shares")
