"""The exact search finds the smallest placement, proves it, and keeps within its budget."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.llir.allocate import LiveRange, Problem, place
from glow_nb.llir.exact_placement import STRATEGIES, Tightening
from glow_nb.llir.placement_search import Budget, Search, SearchOutcome, Sections, Strategy

LIFETIMES = st.tuples(st.integers(0, 8), st.integers(1, 5), st.integers(1, 6))
TINY = st.lists(LIFETIMES, min_size=1, max_size=6)
SMALL = st.lists(LIFETIMES, min_size=1, max_size=14)
STRATEGY = st.sampled_from(STRATEGIES)


def make_ranges(lifetimes: Sequence[tuple[int, int, int]]) -> list[LiveRange]:
    return [LiveRange(start, start + length, size) for start, length, size in lifetimes]


def make_sections(ranges: Sequence[LiveRange]) -> Sections:
    problem = Problem(ranges, 1)
    return Sections(problem.first, problem.stop, problem.sizes)


def smallest_size(ranges: Sequence[LiveRange]) -> int:
    """Place in every order, each at the lowest address above those before it."""
    best = sum(r.size_bytes for r in ranges)
    for order in itertools.permutations(ranges):
        tops: list[int] = []
        for index, newcomer in enumerate(order):
            below = (
                top
                for other, top in zip(order[:index], tops, strict=True)
                if other.start < newcomer.end and newcomer.start < other.end
            )
            tops.append(max(below, default=0) + newcomer.size_bytes)
        best = min(best, max(tops))
    return best


def check_offsets(sections: Sections, offsets: Sequence[int], capacity: int) -> None:
    spans = [
        (*span, offset, offset + int(size))
        for span, offset, size in zip(sections.spans, offsets, sections.sizes, strict=True)
    ]
    for _, _, begin, end in spans:
        assert 0 <= begin <= end <= capacity
    for a, b in itertools.combinations(spans, 2):
        assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]


@given(TINY)
def test_tiny_instances_get_the_smallest_size_there_is(
    lifetimes: list[tuple[int, int, int]],
) -> None:
    ranges = make_ranges(lifetimes)
    assert place(ranges, alignment=1).size_bytes == smallest_size(ranges)


@given(TINY, STRATEGY)
def test_every_strategy_alone_decides_whether_a_size_is_possible(
    lifetimes: list[tuple[int, int, int]], strategy: Strategy
) -> None:
    ranges = make_ranges(lifetimes)
    sections, smallest = make_sections(ranges), smallest_size(ranges)
    found = Search(sections, smallest, strategy).run(Budget(), 10_000)
    assert isinstance(found, np.ndarray)
    check_offsets(sections, found.tolist(), smallest)
    below = Search(sections, smallest - 1, strategy).run(Budget(), 10_000)
    assert below is SearchOutcome.IMPOSSIBLE


@given(SMALL, STRATEGY, st.integers(0, 10))
def test_what_a_search_finds_never_overlaps(
    lifetimes: list[tuple[int, int, int]], strategy: Strategy, slack: int
) -> None:
    sections = make_sections(make_ranges(lifetimes))
    capacity = int(sections.live_bytes.max()) + slack
    found = Search(sections, capacity, strategy).run(Budget(), 1000)
    if isinstance(found, np.ndarray):
        check_offsets(sections, found.tolist(), capacity)


@given(SMALL)
def test_the_search_is_never_worse_than_what_it_begins_with(
    lifetimes: list[tuple[int, int, int]],
) -> None:
    ranges = make_ranges(lifetimes)
    sections, start = make_sections(ranges), sum(r.size_bytes for r in ranges)
    bound = int(sections.live_bytes.max())
    search = Tightening(sections, start, bound, Budget(nodes=200))
    search.run(bound)
    assert bound <= search.possible <= search.size <= start
    if search.offsets is not None:
        check_offsets(sections, search.offsets.tolist(), search.size)


def jigsaw(seed: int, width: int, height: int) -> list[LiveRange]:
    """Cut a rectangle of time and memory into pieces, so that the bound is met without a gap."""
    rng = np.random.default_rng(seed)
    pieces = [(0, width, 0, height)]
    while len(pieces) < width * height // 12:
        index = int(rng.integers(len(pieces)))
        t0, t1, a0, a1 = pieces.pop(index)
        if rng.random() < 0.5 and t1 - t0 > 1:
            cut = int(rng.integers(t0 + 1, t1))
            pieces += [(t0, cut, a0, a1), (cut, t1, a0, a1)]
        elif a1 - a0 > 1:
            cut = int(rng.integers(a0 + 1, a1))
            pieces += [(t0, t1, a0, cut), (t0, t1, cut, a1)]
        else:
            pieces.append((t0, t1, a0, a1))
    order = rng.permutation(len(pieces))
    shuffled = (pieces[index] for index in order.tolist())
    return [LiveRange(t0, t1, a1 - a0) for t0, t1, a0, a1 in shuffled]


@pytest.mark.parametrize("seed", range(6))
def test_a_jigsaw_without_a_gap_is_solved(seed: int) -> None:
    placement = place(jigsaw(seed, 24, 24), alignment=1)
    assert placement.size_bytes == placement.lower_bound_bytes == 24


def crowd(count: int) -> list[LiveRange]:
    rng = np.random.default_rng(0)
    starts, lengths = rng.integers(0, 100, count), rng.integers(1, 40, count)
    sizes = rng.integers(1, 5000, count)
    return make_ranges(list(zip(starts.tolist(), lengths.tolist(), sizes.tolist(), strict=True)))


def test_the_same_ranges_give_the_same_placement() -> None:
    assert place(crowd(60)) == place(crowd(60))


def test_a_target_ends_the_search_early() -> None:
    ranges = crowd(60)
    exact = place(ranges)
    target = exact.size_bytes + 50_000
    placement = place(ranges, target_bytes=target)
    assert exact.size_bytes <= placement.size_bytes <= target
    assert placement.lower_bound_bytes == exact.lower_bound_bytes


def test_a_time_limit_is_kept() -> None:
    begin = time.perf_counter()
    place(crowd(150), time_limit_seconds=0.2)
    assert time.perf_counter() - begin < 2


def test_a_spent_budget_decides_nothing() -> None:
    sections = make_sections(crowd(20))
    capacity = int(sections.live_bytes.max())
    outcome = Search(sections, capacity, STRATEGIES[0]).run(Budget(nodes=0), 100)
    assert outcome is SearchOutcome.UNDECIDED
    assert Search(sections, capacity, STRATEGIES[0]).run(Budget(), 3) is SearchOutcome.UNDECIDED


def test_ranges_without_bytes_take_no_part() -> None:
    lifetimes = [(0, 1, 4), (2, 5, 2), (3, 1, 4), (4, 5, 2), (7, 1, 4)]
    ranges = [*make_ranges(lifetimes), LiveRange(0, 9, 0)]
    assert place(ranges, alignment=1).size_bytes == place(ranges[:-1], alignment=1).size_bytes


GAP = [
    *((0, 1, 3), (0, 3, 1), (0, 4, 2), (1, 1, 2), (1, 4, 1)),
    *((2, 1, 1), (2, 2, 1), (3, 3, 2), (4, 3, 3), (5, 3, 1)),
]
"""At every step at most 6 bytes are live, and yet they do not fit into 6."""


def fits(ranges: Sequence[LiveRange], capacity: int, offsets: tuple[int, ...] = ()) -> bool:
    """Try every address for every range."""
    if len(offsets) == len(ranges):
        return True
    new = ranges[len(offsets)]
    rivals = [
        (offset, offset + other.size_bytes)
        for other, offset in zip(ranges, offsets, strict=False)
        if other.start < new.end and new.start < other.end
    ]
    return any(
        all(offset >= end or offset + new.size_bytes <= begin for begin, end in rivals)
        and fits(ranges, capacity, (*offsets, offset))
        for offset in range(capacity - new.size_bytes + 1)
    )


def test_a_bound_that_cannot_be_met_is_disproved() -> None:
    ranges = make_ranges(GAP)
    assert not fits(ranges, 6)
    assert fits(ranges, 7)
    placement = place(ranges, alignment=1)
    assert (placement.size_bytes, placement.lower_bound_bytes) == (7, 6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_decisions_without_a_part_in_a_failure_are_passed_over(strategy: Strategy) -> None:
    """Trying every order of the free ranges, before or after, would take thousands of steps."""
    alone, budget = make_sections(make_ranges(GAP)), Budget(nodes=10_000)
    assert Search(alone, 6, strategy).run(budget, 10_000) is SearchOutcome.IMPOSSIBLE
    needed = 10_000 - budget.nodes
    free = [(start, 2, size) for start in (-20, -10, 20, 30) for size in (1, 2, 2)]
    crowded, budget = make_sections(make_ranges([*free, *GAP])), Budget(nodes=10_000)
    assert Search(crowded, 6, strategy).run(budget, 10_000) is SearchOutcome.IMPOSSIBLE
    assert 10_000 - budget.nodes < 4 * needed + len(free)
