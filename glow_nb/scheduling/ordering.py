"""Orders of steps in which little memory is live at a time, whatever the steps are.

Each stretch of steps (:mod:`glow_nb.scheduling.steps`) is ordered by itself. It takes the best of
these orders:

* the given one;
* depth first: each step right after those it needs, of these the one first whose subtree needs the
  most memory beyond what it leaves behind (Glow's child-memory scheduler, after Sethi and Ullman),
  or the given one first;
* what searches over the sets of steps that may be done first find: the lowest peak, and the
  shortest distance between those that make bytes and those that read them. In a long stretch the
  distance is searched for in one window of steps after the other. What is known to be as near as
  can be is not searched, and all searches together take no more than the bytes are worth.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.foreign import name_of
from glow_nb.scheduling.steps import Order, Steps, Stretch, stretches_of

PEAK_WORK = 40_000
DISTANCE_WORK = 4_000
"""What one search for the lowest peak, or for the shortest distance, may take before it gives up,
in steps and regions of steps that are looked at; a million takes about four seconds. Little is
better for the distance: so all windows are searched, and several times."""
LEAST_WORK = 100_000
MOST_WORK = 400_000
"""What all searches for one order may take together: more, the more bytes are live at a time, as
there is more to gain. Networks of hundreds of steps take less than LEAST_WORK, most random graphs
of 130 steps less than MOST_WORK. In stretches of thousands the windows that come last are not
searched, and get the best of the other orders."""
BYTES_PER_WORK = 4
"""Bytes that are live at a time for which more than LEAST_WORK is done, by one each."""
LONGEST_SEARCHED = 64
"""Steps of the longest stretch that is searched as a whole for the lowest peak."""
WINDOW = 12
"""Steps that are searched for the shortest distance; longer stretches are improved in windows of so
many steps that follow each other, each of which begins half of that later."""

MOST_FOUND = 4000
"""Stretches whose best orders are remembered: parts of one network have most of them in common."""

Scheduler = Callable[[Steps], Sequence[int]]
"""Orders steps: returns their numbers, each once and behind those that must come before it."""

Cost = tuple[int, int]
"""The peak and the distance of an order."""

_FOUND: dict[tuple[object, ...], tuple[Order, int]] = {}
"""The best order of short stretches by all that decides it, and the work to find it."""


def best_order(steps: Steps) -> list[int]:
    """Return the order of the lowest peak found, and among equal ones of the shortest distance.

    No stretch has a higher peak than in the given order. A peak below that of another stretch, or
    below what some step needs, is as good as that; and what is as good as the given order is not
    taken for it.
    """
    floor = steps.smallest_peak()
    stretches = list(stretches_of(steps))
    effort = _Effort(_work_for(max((s.peak(s.given) for s in stretches), default=0)))
    found = [_known_or_improved(stretch, floor, effort) for stretch in stretches]
    highest = max((s.peak(order) for s, order in zip(stretches, found, strict=True)), default=0)
    if highest > floor:
        pairs = zip(stretches, found, strict=True)
        found = [_improved(s, (s.given, order), highest, effort) for s, order in pairs]
    pairs = zip(stretches, found, strict=True)
    return [step for stretch, order in pairs for step in stretch.numbered(order)]


def order_by(scheduler: Scheduler, steps: Steps, names: Sequence[str]) -> list[int]:
    """Return the order that *scheduler* finds for *steps*, which errors call by *names*.

    Raises:
        OptionError: It returns no order of all steps, or one that is not allowed.
    """
    subject = f"scheduler {name_of(scheduler)!r}"
    order = scheduler(steps)
    if not isinstance(order, Sequence | np.ndarray):
        raise OptionError(f"{subject}: it returned {described(order)}; return a list of numbers")
    found = [int(step) for step in order if isinstance(step, int | np.integer)]
    if len(found) < len(order) or sorted(found) != list(range(len(names))):
        raise OptionError(
            f"{subject}: it returned {described(order)} for {len(names)} steps; return each of the "
            f"numbers 0 to {len(names) - 1} once"
        )
    place = {step: index for index, step in enumerate(found)}
    for step in found:
        for needed in steps.before[step]:
            if place[needed] > place[step]:
                raise OptionError(
                    f"{subject}: step {step} ({names[step]}) comes before step {needed} "
                    f"({names[needed]}), which it needs; steps.before says what must come first"
                )
    return found


def _work_for(peak: int) -> int:
    """Return the work that an order is worth in which *peak* bytes are live at a time."""
    return min(LEAST_WORK + peak // BYTES_PER_WORK, MOST_WORK)


@dataclass
class _Effort:
    """What one search for an order may still do, and what it did already.

    Attributes:
        work: What all searches may still take.
        windows: The best orders of windows by all that decides them: most come again unchanged.
    """

    work: int
    windows: dict[tuple[object, ...], Order] = field(default_factory=dict)


def _improved(stretch: Stretch, orders: Sequence[Order], floor: int, effort: _Effort) -> Order:
    """Return the best order found, the first of *orders* if no other is better.

    What was found is a new order to begin from, until nothing better is. Only then it is searched
    whether a lower peak can be had at all, since that takes longest.
    """
    floor = min(floor, stretch.peak(stretch.given))

    @cache
    def cost(order: Order) -> Cost:
        effort.work -= sum(stretch.effort)
        return stretch.cost(order, floor)

    best = min(orders, key=cost)
    may_search = len(best) <= LONGEST_SEARCHED
    while len(best) > 1 and cost(best) > (floor, 0) and effort.work > 0:
        begun = replace(stretch, given=best)
        found = min((best, *_candidates(begun, cost, floor, effort)), key=cost)
        if found == best and may_search and stretch.peak(best) > floor:
            may_search = False
            found = next(iter(_lowest(begun, stretch.peak(best), effort)), best)
        if found == best:
            break
        best = found
    return best


def _candidates(
    stretch: Stretch, cost: Callable[[Order], Cost], floor: int, effort: _Effort
) -> Iterator[Order]:
    """Yield orders that may be better than the given one."""
    tried = [stretch.given, *_depth_first(stretch)]
    yield from tried
    best = min(tried, key=cost)
    limit, distance = cost(best)
    if len(best) > WINDOW:
        yield _improved_in_windows(stretch, best, floor, effort)
    elif distance:
        yield from _nearest(stretch, limit, distance, effort)


def _improved_in_windows(stretch: Stretch, order: Order, floor: int, effort: _Effort) -> Order:
    """Return *order* with each few steps that follow each other in the best order among them."""
    improved, progress = list(order), stretch.progress()
    for begin in range(0, len(order), WINDOW // 2):
        if effort.work <= 0:
            break
        window = progress.stretch(improved[begin : begin + WINDOW])
        better = window.numbered(_known_or_improved(window, floor, effort))
        improved[begin : begin + WINDOW] = better
        for step in better[: WINDOW // 2]:
            progress.advance(step)
    return tuple(improved)


def _known_or_improved(stretch: Stretch, floor: int, effort: _Effort) -> Order:
    """Return the best order found for *stretch*, a short one perhaps before.

    Of what another search for an order has found, the work counts as if it were done again, so that
    what is found does not depend on what was searched for before.
    """
    if len(stretch.given) > WINDOW:
        return _improved(stretch, (stretch.given,), floor, effort)
    floor = min(floor, stretch.peak(stretch.given))
    effort.work -= sum(stretch.effort)
    key = (*stretch.key, floor)
    if key not in effort.windows:
        order, work = _FOUND.get(key, ((), effort.work))
        if work < effort.work:
            effort.work -= work
        else:
            begun = effort.work
            order = _improved(stretch, (stretch.given,), floor, effort)
            _remember(key, order, begun - effort.work, effort)
        effort.windows[key] = order
    return effort.windows[key]


def _remember(key: tuple[object, ...], order: Order, work: int, effort: _Effort) -> None:
    """Let other searches know what was found with so much *work*, unless the effort was short."""
    if effort.work > 0:
        if len(_FOUND) >= MOST_FOUND:
            _FOUND.clear()
        _FOUND[key] = order, work


def _depth_first(stretch: Stretch) -> Iterator[Order]:
    """Yield orders in which each step comes right after what it needs.

    Of several steps that it needs, first the hungriest; or all in their given order.
    """
    before = stretch.before
    need: dict[int, int] = {}
    made = {step: sum(stretch.steps.writes[step].values()) for step in stretch.given}
    for step in stretch.given:
        held = peak = 0
        for number in sorted(before[step], key=lambda n: made[n] - need[n]):
            peak = max(peak, held + need[number])
            held += made[number]
        need[step] = max(peak, held + made[step])
    roots = [step for step in stretch.given if not stretch.after[step]]
    yield _visited(
        roots, {s: sorted(b, key=lambda n: made[n] - need[n]) for s, b in before.items()}
    )
    yield _visited(roots, before)


def _visited(roots: Iterable[int], before: dict[int, list[int]]) -> Order:
    """Return all steps: for each root in turn those *before* it, in that order, and itself."""
    ordered: dict[int, None] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            step, ready = stack.pop()
            if step in ordered:
                continue
            if ready:
                ordered[step] = None
                continue
            stack.append((step, True))
            stack += [(number, False) for number in reversed(before[step]) if number not in ordered]
    return tuple(ordered)


def _lowest(stretch: Stretch, limit: int, effort: _Effort) -> list[Order]:
    """Return the order of the lowest peak below *limit*; none if there is none or it takes long.

    A step that can be done within the peak so far, and leaves no more behind than it finds, is done
    at once: later it would save nothing.
    """

    def proceed(state: _State, ready: Sequence[int]) -> list[_State]:
        found = []
        for step in ready:
            during, live = stretch.steps.run(step, state.done, state.live)
            peak = max(state.cost, during)
            then = state.after(step, peak, live=live)
            if peak == state.cost and live <= state.live:
                return [then]
            if during < limit:
                found.append(then)
        return found

    return _search(stretch, proceed, effort, PEAK_WORK)


def _nearest(stretch: Stretch, limit: int, distance: int, effort: _Effort) -> list[Order]:
    """Return the order of the shortest distance below *distance* with a peak of up to *limit*.

    None if there is none, or if it takes long. The way to go counts as well, as far as it is known
    (A* search).
    """

    def proceed(state: _State, ready: Sequence[int]) -> list[_State]:
        found = []
        for step in ready:
            during, live = stretch.steps.run(step, state.done, state.live)
            wait, held = stretch.steps.wait(step, state.done, state.held)
            stays, way = state.stays + stretch.adds[step], state.way + wait
            cost = way + stretch.least_wait(state.done | 1 << step, stays)
            if during <= limit and cost < distance:
                then = state.after(step, cost, live=live)
                found.append(then._replace(held=held, stays=stays, way=way))
        return found

    if stretch.least_wait(0, stretch.stays) >= distance:
        return []
    return _search(stretch, proceed, effort, DISTANCE_WORK)


class _State(NamedTuple):
    """What a search has come to; the cheapest goes on first, of these the one with least left.

    Attributes:
        cost: What is to be small; it never shrinks.
        left: Number of steps that are left.
        done: A bit for each step that is done.
        live: Bytes that are live.
        held: Bytes that wait to be read.
        stays: Those of them that will to the end of the stretch.
        way: Cost of the steps that are done.
        order: The steps of the stretch that are done.
    """

    cost: int
    left: int
    done: int
    live: int
    held: int
    stays: int
    way: int
    order: Order

    def after(self, step: int, cost: int, *, live: int) -> _State:
        """Return the state after *step*, when so many bytes are *live*."""
        order = (*self.order, step)
        return self._replace(
            cost=cost, left=self.left - 1, done=self.done | 1 << step, live=live, order=order
        )


def _search(
    stretch: Stretch,
    proceed: Callable[[_State, Sequence[int]], list[_State]],
    effort: _Effort,
    most: int,
) -> list[Order]:
    """Return the cheapest order, found over sets of steps that are done; none if it takes long.

    Whatever the order, the same bytes are live after a set; so only the cheapest way to it counts.
    It may take *most* of the work, and ends when *effort* has none left for all searches.
    """
    live, held, stays = stretch.live, stretch.held, stretch.stays
    heap = [_State(0, len(stretch.given), stretch.done, live, held, stays, 0, ())]
    seen: set[int] = set()
    least = max(0, effort.work - most)
    while heap and effort.work > least:
        state = heapq.heappop(heap)
        if not state.left:
            return [state.order]
        if state.done not in seen:
            seen.add(state.done)
            ready = stretch.ready(state.done)
            effort.work -= 1 + sum([stretch.effort[step] for step in ready])
            for then in proceed(state, ready):
                heapq.heappush(heap, then)
    return []
