"""How threads share a grid of work: what is estimated is what the kernels do."""

from __future__ import annotations

from typing import Any

import pytest

from glow_nb.kernels.writing.shares import largest_share, write_shares
from glow_nb.kernels.writing.source import SourceWriter

SIZES = (1, 2, 3, 7, 16, 22)


def shares_of(units: int, panels: int, threads: int, panels_first: bool) -> list[tuple[int, int]]:
    """Return the units and the panels of each thread, as the written lines give them."""
    out = SourceWriter()
    write_shares(out, units, panels, panels_first=panels_first)
    shares = []
    for thread in range(threads):
        names: dict[str, Any] = {"thread": thread, "threads": threads}
        exec(out.text, names)
        ranges = (("unit", "unit_end"), ("panel_begin", "panel_end"))
        unit_count, panel_count = (names[end] - names[begin] for begin, end in ranges)
        shares.append((unit_count, panel_count))
    return shares


@pytest.mark.parametrize("panels_first", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8])
def test_the_largest_share_is_that_of_the_kernel(threads: int, panels_first: bool) -> None:
    for units in SIZES:
        for panels in SIZES:
            shares = shares_of(units, panels, threads, panels_first)
            assert sum(u * p for u, p in shares) == units * panels
            largest = largest_share(units, panels, threads, panels_first=panels_first)
            most = max(u for u, p in shares if p) / units, max(p for _, p in shares) / panels
            assert largest == pytest.approx(most)


def test_a_slightly_larger_share_is_better_than_one_that_crosses_the_other_threads() -> None:
    odd, columns = 667, 4
    assert shares_of(odd, columns, 2, panels_first=False) == [(333, 4), (334, 4)]
    assert shares_of(odd, columns, 2, panels_first=True) == [(667, 2), (667, 2)]
    assert shares_of(9, columns, 2, panels_first=False) == [(9, 2), (9, 2)]
