"""The search over cuts finds what trying everything finds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.runtime.planning import chains
from glow_nb.runtime.planning.candidate_parts import Floats
from glow_nb.runtime.planning.chains import Combine, best_walk


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[list[Floats]], list[int]]:
    """Draw costs of parts for one to three kinds of devices, some of them infinite."""
    size, kinds = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    legal = np.triu(np.ones((size, size), bool), 1)
    costs = []
    for _ in range(kinds):
        row = []
        for _ in range(kinds):
            drawn = random.integers(1, 20, (size, size)).astype(float)
            drawn[~legal | (random.random((size, size)) < 0.2)] = np.inf
            row.append(drawn)
        costs.append(row)
    return costs, [draw(st.integers(1, 2)) for _ in range(kinds)]


def tried(costs: Sequence[Sequence[Floats]], counts: Sequence[int], combine: Combine) -> float:
    """Return the best value over all cuts and all orders of devices."""
    size, best = len(costs[0][0]), np.inf
    kinds = [kind for kind, count in enumerate(counts) for _ in range(count)]
    for count in range(1, min(size - 1, len(kinds)) + 1):
        for cuts in combinations(range(1, size - 1), count - 1):
            for order in permutations(kinds, count):
                places, value, before = (0, *cuts, size - 1), np.zeros(1), 0
                for first, last, kind in zip(places, places[1:], order, strict=False):
                    value = combine(value, costs[before][kind][first, last, None])
                    before = kind
                best = min(best, float(value[0]))
    return best


@pytest.mark.parametrize("combine", [np.add, np.maximum])
@given(searches())
def test_nothing_is_better(combine: Combine, search: tuple[list[list[Floats]], list[int]]) -> None:
    costs, counts = search
    for row in costs[1:]:
        for kind, cost in enumerate(row):
            cost[0] = costs[0][kind][0]  # nothing stands before the first part
    walk = best_walk(costs, counts, combine)
    expected = tried(costs, counts, combine)
    assert (walk.value if walk else np.inf) == expected
    if walk is not None:
        assert walk.is_exact
        assert [walk.stages[0].first, walk.stages[-1].last] == [0, len(costs[0][0]) - 1]
        assert all(a.last == b.first for a, b in zip(walk.stages, walk.stages[1:], strict=False))
        used = [stage.kind for stage in walk.stages]
        assert all(used.count(kind) <= count for kind, count in enumerate(counts))


@given(search=searches())
def test_a_search_with_too_many_states_finds_a_way(
    search: tuple[list[list[Floats]], list[int]],
) -> None:
    costs, counts = search
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "MOST_WORK", 0)
        walk = best_walk(costs, counts, np.add)
    if walk is not None:
        assert not walk.is_exact
        total = sum(costs[stage.kind][stage.kind][stage.first, stage.last] for stage in walk.stages)
        assert walk.value == pytest.approx(total)
        used = [stage.kind for stage in walk.stages]
        assert all(used.count(kind) <= count for kind, count in enumerate(counts))
