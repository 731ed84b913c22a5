"""How threads share a grid of work: what is estimated is what the kernels do."""

from __future__ import annotations

import pytest

from glow_nb.scheduling.thread_grid import largest_share
from tests.unit.kernels.plain_python import own_share

SIZES = (1, 2, 3, 7, 16, 22)


def shares_of(units: int, panels: int, threads: int, panels_first: bool) -> list[tuple[int, int]]:
    """Return the number of units and of panels of each thread."""
    ranges = [own_share(n, threads, units, panels, int(panels_first)) for n in range(threads)]
    return [(end - begin, last - first) for begin, end, first, last in ranges]


@pytest.mark.parametrize("panels_first", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8])
def test_the_largest_share_is_that_of_a_thread(threads: int, panels_first: bool) -> None:
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
