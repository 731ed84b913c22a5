"""Orders of steps: against every order of small graphs, and on shapes with a known best order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.scheduling import ordering
from glow_nb.scheduling.ordering import LONGEST_SEARCHED, best_order
from glow_nb.scheduling.steps import Order, Progress, Steps, stretches_of


def steps_of(
    before: Sequence[Sequence[int]],
    size: Sequence[int],
    *,
    shared: Sequence[Sequence[int]] = (),
    traffic: Sequence[int] | None = None,
) -> Steps:
    """Return steps that write one region each and read those of the steps before them."""
    lies_on = shared or [()] * len(size)
    moved = [n + sum(size[p] for p in ps) for n, ps in zip(size, before, strict=True)]
    return Steps(
        before=before,
        reads=[{producer: size[producer] for producer in producers} for producers in before],
        writes=[{step: amount} for step, amount in enumerate(size)],
        size=size,
        traffic=moved if traffic is None else traffic,
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


def every_order(steps: Steps, done: Order = ()) -> Iterator[Order]:
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


def renumbered(steps: Steps, order: Sequence[int]) -> Steps:
    """Return *steps* as given in *order*."""
    place = {step: index for index, step in enumerate(order)}

    def regions(amounts: dict[int, int]) -> dict[int, int]:
        return {place[region]: amount for region, amount in amounts.items()}

    return Steps(
        before=[[place[number] for number in steps.before[step]] for step in order],
        reads=[regions(steps.reads[step]) for step in order],
        writes=[regions(steps.writes[step]) for step in order],
        size=[steps.size[step] for step in order],
        traffic=[steps.traffic[step] for step in order],
        shared=[[(place[a], place[b]) for a, b in steps.shared[step]] for step in order],
    )


@given(st.integers(0, 2**32), st.integers(1, 7))
def test_no_order_of_few_steps_is_better(seed: int, count: int) -> None:
    """The peak is the lowest; where all steps are one stretch, no other is as low and nearer."""
    steps = random_steps(seed, count)
    found = best_order(steps)
    orders = list(every_order(steps))
    lowest = min(map(steps.peak, orders))
    assert steps.peak(found) == lowest
    if not any(_divides(steps, place) for place in range(1, count)):
        near = min(steps.distance(order) for order in orders if steps.peak(order) <= lowest)
        assert steps.distance(found) == near


def _divides(steps: Steps, place: int) -> bool:
    """True if every order has the same steps before *place*."""
    return len({frozenset(order[:place]) for order in every_order(steps)}) == 1


@given(st.integers(0, 2**32), st.integers(1, 24))
def test_the_peak_never_grows_and_the_order_is_allowed(seed: int, count: int) -> None:
    steps = random_steps(seed, count, reach=8)
    given = range(count)
    found = best_order(steps)
    assert is_allowed(steps, found)
    assert steps.peak(found) <= steps.peak(given)
    if steps.peak(found) == steps.peak(given) and found != list(given):
        assert steps.distance(found) < steps.distance(given)


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_what_was_found_stays(seed: int, count: int) -> None:
    steps = random_steps(seed, count)
    found = best_order(steps)
    assert best_order(renumbered(steps, found)) == list(range(count))


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
def test_a_result_takes_no_memory_on_an_operand_that_ends(order: Order, peak: int) -> None:
    steps = steps_of([[], [0], [0]], [64, 64, 64], shared=[[], [0], [0]])
    assert steps.peak(order) == peak
    assert steps_of([[], [0], [0]], [64, 64, 64]).peak(order) == peak


def test_one_operand_serves_one_result() -> None:
    steps = Steps(
        before=[[], [0]],
        reads=[{}, {0: 64}],
        writes=[{0: 64}, {1: 64, 2: 64}],
        size=[64, 64, 64],
        traffic=[64, 192],
        shared=[[], [(1, 0), (2, 0)]],
    )
    assert steps.peak([0, 1]) == 128
    assert steps.smallest_peak() == 128


def test_a_result_lies_on_one_operand() -> None:
    steps = steps_of([[], [], [0, 1]], [64, 64, 64], shared=[[], [], [0, 1]])
    assert steps.run(2, 0b011, 128) == (128, 0)
    assert steps.smallest_peak() == 128


def test_bytes_that_a_step_reads_do_not_wait_meanwhile() -> None:
    """Of 64 bytes, 16 are read, or all of them twice; there are never less than none to wait."""
    for amount, waiting in ((16, 48), (64, 0), (128, 0)):
        steps = Steps(
            before=[[], [0], [1]],
            reads=[{}, {0: amount}, {0: 64}],
            writes=[{0: 64}, {}, {}],
            size=[64],
            traffic=[64, amount, 64],
            shared=[[], [], []],
        )
        assert steps.distance([0, 1, 2]) == waiting * amount


def test_bytes_wait_while_others_move() -> None:
    """64 bytes wait for 128 + 16 to be made and read, then 16 for what reads the 64."""
    steps = steps_of([[], [], [1], [0], [2, 3]], [64, 128, 16, 32, 8])
    assert steps.distance([0, 1, 2, 3, 4]) == 64 * (128 + 144) + 16 * 96
    assert steps.distance([0, 3, 1, 2, 4]) == 32 * (128 + 144)


def test_only_what_was_written_waits() -> None:
    """A large region is written by parts; the part that is there waits for the other."""
    steps = Steps(
        before=[[], [], [0, 1]],
        reads=[{}, {}, {0: 256}],
        writes=[{0: 56}, {0: 200}, {1: 8}],
        size=[256, 8],
        traffic=[56, 200, 264],
        shared=[[], [], []],
    )
    assert steps.distance([0, 1, 2]) == 56 * 200
    assert best_order(steps) == [0, 1, 2]


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


@pytest.mark.parametrize(
    ("before", "size", "lowest"),
    [
        (
            [[], [0], [], [], [0], [], [], [2, 4], [2, 5], [6], [7], [6, 8], [], [8]],
            [1, 4, 16, 8, 8, 8, 1, 4, 1, 1, 8, 16, 8, 1],
            28,
        ),
        (
            [[], [0], [], [0], [2], [1], [], [1, 4], [], [], [4, 7], [], [], [11]],
            [2, 8, 16, 16, 2, 4, 8, 4, 2, 16, 2, 2, 8, 16],
            18,
        ),
    ],
)
def test_what_only_a_search_finds(before: list[list[int]], size: list[int], lowest: int) -> None:
    steps = steps_of(before, size, traffic=[0] * len(size))
    assert steps.peak(best_order(steps)) == lowest


def test_a_stretch_ends_where_all_that_follow_come_after() -> None:
    """Two readers of 0, and two of both: no single step divides the two pairs."""
    before = [[], [0], [0], [1, 2], [1, 2], [3, 4], [5]]
    found = stretches_of(steps_of(before, [64] * len(before)))
    assert [stretch.numbered(stretch.given) for stretch in found] == [
        (0,),
        (1, 2),
        (3, 4),
        (5,),
        (6,),
    ]


def test_no_stretch_has_a_higher_peak_than_given() -> None:
    """Values would be read sooner if more were live at a time, still less than the last step needs.

    That would make it harder to lay all of them side by side.
    """
    before = [[], [0], [0, 1], [0, 1], [0], [4], [2, 3, 5], [6]]
    steps = steps_of(before, [64, 16, 64, 128, 8, 8, 8, 512])
    sooner = [0, 4, 5, 1, 2, 3, 6, 7]
    assert steps.peak(sooner) == steps.peak(range(8)) == 520
    assert steps.distance(sooner) < steps.distance(range(8))
    assert steps.peak(sooner[:-1]) > steps.peak(range(7))
    assert best_order(steps) == list(range(8))


def test_a_peak_below_that_of_another_stretch_counts_as_equal() -> None:
    """What has both the lowest peaks and the shortest distance under the highest of these."""
    before = [[], [0], [0], [2], [1, 3], [0, 4], [5], [6]]
    steps = steps_of(before, [16, 16, 8, 64, 16, 64, 8, 0])
    found, lower = [0, 2, 1, 3, 4, 5, 6, 7], [0, 2, 3, 1, 4, 5, 6, 7]
    assert steps.peak(found) == steps.peak(lower) == 112
    assert steps.peak(found[:4]) > steps.peak(lower[:4])
    assert steps.distance(found) < steps.distance(lower)
    assert best_order(steps) == found


def cells(count: int, seed: int) -> Steps:
    """Return cells that read the two before them, made breadth first, as in networks found by NAS.

    A cell is twelve steps: two that read the former cells, ten of which each pair is added up.
    """
    rng = random.Random(seed)
    before: list[list[int]] = [[], []]
    former, last = [0], [1]
    for _ in range(count):
        begin = len(before)
        before += [former, last]
        for _ in range(5):
            states = range(begin, len(before))
            pair = rng.sample([*states], 2)
            here = len(before)
            before += [[pair[0]], [pair[1]], [here, here + 1]]
        read = {number for numbers in before[begin:] for number in numbers}
        former, last = last, [s for s in range(begin, len(before)) if s not in read]
    before.append(last)
    return steps_of(before, [64] * len(before))


@pytest.mark.parametrize("seed", range(3))
def test_long_stretches_are_improved_in_windows(seed: int) -> None:
    steps = cells(6, seed)
    given = range(len(steps.before))
    assert len(given) > LONGEST_SEARCHED
    found = best_order(steps)
    assert is_allowed(steps, found)
    assert steps.peak(found) <= 0.8 * steps.peak(given)
    assert steps.distance(found) <= 0.8 * steps.distance(given)


def rows(count: int, seed: int | None = None) -> Steps:
    """Return rows that are made of one matrix and put together, of one size or of random ones."""
    rng = random.Random(seed)
    size = [64 if seed is None else rng.choice((64, 128, 256, 512)) for _ in range(2 * count + 2)]
    before = [[], *([0] for _ in range(count)), *([row + 1] for row in range(count))]
    return steps_of([*before, list(range(count + 1, 2 * count + 1))], size)


class Counter:
    """Counts the steps that are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        run = Steps.run

        def counted(steps: Steps, step: int, done: int, live: int) -> tuple[int, int]:
            self.looks += 1
            return run(steps, step, done, live)

        monkeypatch.setattr(Steps, "run", counted)

    def of(self, steps: Steps) -> int:
        """Return how often an order of *steps* looks at one, if nothing was found before."""
        self.looks = 0
        ordering._FOUND.clear()
        best_order(steps)
        return self.looks


@pytest.mark.parametrize("seed", [None, 1])
def test_the_work_for_wide_graphs_is_bounded(
    monkeypatch: pytest.MonkeyPatch, seed: int | None
) -> None:
    """However many orders there are, beside the work a step is looked at only some times."""
    monkeypatch.setattr(ordering, "LEAST_WORK", 1_000)
    monkeypatch.setattr(ordering, "BYTES_PER_WORK", 1 << 30)
    counter = Counter(monkeypatch)
    for count in (20, 80):
        assert counter.of(rows(count, seed)) < 1_000 + 10 * (2 * count + 2)


def test_more_work_is_done_where_more_bytes_are_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "LEAST_WORK", 1_000)
    monkeypatch.setattr(ordering, "MOST_WORK", 5_000)
    counter = Counter(monkeypatch)
    small = random_steps(2, 100, reach=30)
    large = replace(
        small,
        size=[n << 12 for n in small.size],
        reads=[{r: n << 12 for r, n in reads.items()} for reads in small.reads],
        writes=[{r: n << 12 for r, n in writes.items()} for writes in small.writes],
        traffic=[n << 12 for n in small.traffic],
    )
    assert counter.of(small) < counter.of(large) < ordering.MOST_WORK


def test_what_waits_no_less_in_any_order_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [[], *([0] for _ in range(200)), list(range(1, 201))]
    steps = steps_of(before, [64] * len(before))
    monkeypatch.setattr(ordering, "_search", lambda *_: pytest.fail("it was searched"))
    assert best_order(steps) == list(range(len(before)))


@given(st.integers(0, 2**32), st.integers(2, 7))
def test_no_order_waits_less_than_the_least(seed: int, count: int) -> None:
    steps = random_steps(seed, 2 * count)
    progress = Progress(steps)
    for step in range(count // 2):
        progress.advance(step)
    stretch = progress.stretch(range(count // 2, count // 2 + count))
    least = stretch.least_wait(0, stretch.stays)
    for order in every_order(replace(steps, before=stretch.steps.before)):
        assert stretch.cost(order, 0)[1] >= least


def test_nothing_has_no_order() -> None:
    assert best_order(steps_of([], [])) == []


@pytest.mark.parametrize("work", [20_000, 3_000])
def test_what_was_found_before_does_not_change_what_is_found(
    work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "LEAST_WORK", work)
    graphs = [random_steps(seed, 30) for seed in range(4)]
    alone = []
    for steps in graphs:
        monkeypatch.setattr(ordering, "_FOUND", {})
        alone.append(best_order(steps))
    assert [best_order(steps) for steps in graphs] == alone
    assert [best_order(steps) for steps in graphs] == alone, "all of it was found before"
