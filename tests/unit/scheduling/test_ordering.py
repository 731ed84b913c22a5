"""Orders of steps: against every order of small graphs, and on shapes with a known best order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.scheduling.ordering import MOST_COMPARED, best_order, depth_first
from glow_nb.scheduling.steps import Steps


def steps_of(
    before: Sequence[Sequence[int]], size: Sequence[int], *, shared: Sequence[Sequence[int]] = ()
) -> Steps:
    """Return steps that write one region each and read those of the steps before them."""
    lies_on = shared or [()] * len(size)
    return Steps(
        before=before,
        reads=[{producer: size[producer] for producer in producers} for producers in before],
        writes=[{step: amount} for step, amount in enumerate(size)],
        size=size,
        shared=[[(step, other) for other in others] for step, others in enumerate(lies_on)],
    )


def random_steps(seed: int, count: int, reach: int = 6) -> Steps:
    """Return *count* steps that read up to two of the *reach* steps before them."""
    rng = random.Random(seed)
    before: list[list[int]] = [[]]
    for step in range(1, count):
        before.append(
            sorted({rng.randrange(max(0, step - reach), step) for _ in range(rng.randint(0, 2))})
        )
    size = [rng.choice((64, 128, 256, 512)) for _ in before]
    shared = [
        [p for p in producers if size[p] == size[step] and rng.random() < 0.6]
        for step, producers in enumerate(before)
    ]
    return steps_of(before, size, shared=shared)


def every_order(steps: Steps, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if len(done) == len(steps.before):
        yield done
    for step, before in enumerate(steps.before):
        if step not in done and set(before) <= set(done):
            yield from every_order(steps, (*done, step))


def is_allowed(steps: Steps, order: Sequence[int]) -> bool:
    place = {step: index for index, step in enumerate(order)}
    return sorted(place) == list(range(len(steps.before))) and all(
        place[number] < place[step] for step, before in enumerate(steps.before) for number in before
    )


@given(st.integers(0, 2**32), st.integers(1, 24))
def test_the_peak_never_grows_and_the_order_is_allowed(seed: int, count: int) -> None:
    steps = random_steps(seed, count, reach=8)
    for order in (best_order(steps), depth_first(steps, range(count))):
        assert is_allowed(steps, order)
    assert steps.peak(best_order(steps)) <= steps.peak(range(count))


def renumbered(steps: Steps, order: Sequence[int]) -> Steps:
    """Return *steps* as given in *order*, with the regions that they write."""
    place = {step: index for index, step in enumerate(order)}
    before = [[place[number] for number in steps.before[step]] for step in order]
    shared = [[place[old] for _, old in steps.shared[step]] for step in order]
    return steps_of(before, [steps.size[step] for step in order], shared=shared)


@given(st.integers(0, 2**32), st.integers(1, 24))
def test_what_was_found_stays(seed: int, count: int) -> None:
    steps = random_steps(seed, count, reach=8)
    found = best_order(steps)
    assert best_order(renumbered(steps, found)) == list(range(count))


@given(st.integers(0, 2**32), st.integers(1, 24))
def test_an_order_that_is_as_good_stays(seed: int, count: int) -> None:
    steps = random_steps(seed, count)
    if steps.peak(best_order(steps)) == steps.peak(range(count)):
        assert best_order(steps) == list(range(count))


@given(st.integers(0, 2**32), st.integers(1, 24))
def test_the_peak_is_the_same_from_the_last_step_to_the_first(seed: int, count: int) -> None:
    steps = random_steps(seed, count)
    backwards = [count - 1 - step for step in reversed(range(count))]
    assert steps.reversed().peak(backwards) == steps.peak(range(count))


def test_most_small_graphs_get_the_lowest_peak() -> None:
    best = 0
    for seed in range(40):
        steps = random_steps(seed, 6)
        best += steps.peak(best_order(steps)) == min(map(steps.peak, every_order(steps)))
    assert best >= 38


def test_a_region_is_live_from_its_first_touch_to_its_last() -> None:
    steps = steps_of([[], [], [0], [1, 2]], [64, 128, 256, 512])
    assert steps.peak([0, 2, 1, 3]) == 256 + 128 + 512
    assert steps.peak([1, 0, 2, 3]) == 256 + 128 + 512
    assert steps.peak([0, 1, 2, 3]) == 256 + 128 + 512
    assert steps.run(2, 0b011, 64 + 128) == (64 + 128 + 256, 128 + 256)


@pytest.mark.parametrize(
    ("order", "peak"),
    [
        pytest.param((0, 2, 1), 128, id="the other ends: the second reader lies on it"),
        pytest.param((0, 1, 2), 128, id="it is still read: only the last reader lies on it"),
    ],
)
def test_a_result_takes_no_memory_on_an_operand_that_ends(
    order: tuple[int, ...], peak: int
) -> None:
    steps = steps_of([[], [0], [0]], [64, 64, 64], shared=[[], [0], [0]])
    assert steps.peak(order) == peak
    assert steps_of([[], [0], [0]], [64, 64, 64]).peak(order) == peak


def test_one_operand_serves_one_result() -> None:
    steps = Steps(
        before=[[], [0]],
        reads=[{}, {0: 64}],
        writes=[{0: 64}, {1: 64, 2: 64}],
        size=[64, 64, 64],
        shared=[[], [(1, 0), (2, 0)]],
    )
    assert steps.peak([0, 1]) == 128


def test_a_result_lies_on_one_operand() -> None:
    steps = steps_of([[], [], [0, 1]], [64, 64, 64], shared=[[], [], [0, 1]])
    assert steps.run(2, 0b011, 128) == (128, 0)


def branches(count: int, widest: int) -> tuple[list[list[int]], list[int]]:
    """Return branches that widen and shrink again, all widened first, and what joins them."""
    before: list[list[int]] = [[] for _ in range(count)]
    before += [[branch] for branch in range(count)]
    before.append(list(range(count, 2 * count)))
    size = [widest - branch for branch in range(count)] + [1] * count + [count]
    return before, size


@pytest.mark.parametrize("count", [2, 5, 40, 150])
def test_one_branch_is_done_before_the_next(count: int) -> None:
    steps = steps_of(*branches(count, 1000))
    assert steps.peak(best_order(steps)) <= 1000 + count


def test_what_frees_most_comes_last() -> None:
    """Three gradients of one size as the weights: each is used up before the next is made.

    Every step forwards looks alike; from the end it is seen which large values a step brings back.
    """
    before = [[], [0], [1], [2], [1], [0], [2, 3], [1, 4], [0, 5]]
    steps = steps_of(before, [8, 8, 8, 64, 64, 64, 1, 1, 1])
    assert steps.peak(best_order(steps)) < steps.peak(range(9))


def test_wide_graphs_take_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each order looks at a bounded number of steps for each one that it takes."""
    looks = 0
    run = Steps.run

    def counted(steps: Steps, step: int, done: int, live: int) -> tuple[int, int]:
        nonlocal looks
        looks += 1
        return run(steps, step, done, live)

    monkeypatch.setattr(Steps, "run", counted)
    before = [[], *([0] for _ in range(200)), list(range(1, 201))]
    best_order(steps_of(before, [64] * len(before)))
    assert looks <= 8 * (MOST_COMPARED + 2) * len(before)


def test_nothing_has_no_order() -> None:
    assert best_order(steps_of([], [])) == []
