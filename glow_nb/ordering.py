"""Orders of steps in which little memory is live at a time, whatever the steps are.

Each stretch of steps (:mod:`glow_nb.steps`) is ordered by itself. It takes the best of these
orders:

* the given one;
* depth first: each step right after those it needs, of these the one first whose subtree needs the
  most memory beyond what it leaves behind (Glow's child-memory scheduler, after Sethi and Ullman),
  or the given one first;
* what searches over the sets of steps that may be done first find: the lowest peak, and the
  shortest distance between those that make bytes and those that read them. In a long stretch the
  distance is searched for in one window of steps after the other.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from glow_nb.steps import Order, Steps, Stretch, stretches_of

SEARCH_WORK = 40_000
"""Steps that a search may try before it gives up; each takes about three microseconds."""
ALL_SEARCH_WORK = 2_000_000
"""Steps that all searches for one order may try: some seconds. Networks of hundreds of steps try
less than 20,000, random graphs of 130 steps a million. In stretches of thousands the windows that
come last are not searched, and get the best of the other orders."""
LONGEST_SEARCHED = 64
"""Steps of the longest stretch that is searched as a whole for the lowest peak."""
WINDOW = 12
"""Steps that are searched for the shortest distance; longer stretches are improved in windows of so
many steps that follow each other, each of which begins half of that later."""

MOST_FOUND = 4000
"""Stretches whose best orders are remembered: parts of one network have most of them in common."""

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
    effort = _Effort(ALL_SEARCH_WORK)
    found = [_known_or_improved(stretch, floor, effort) for stretch in stretches]
    highest = max((s.peak(order) for s, order in zip(stretches, found, strict=True)), default=0)
    if highest > floor:
        pairs = zip(stretches, found, strict=True)
        found = [_improved(s, (s.given, order), highest, effort) for s, order in pairs]
    pairs = zip(stretches, found, strict=True)
    return [step for stretch, order in pairs for step in stretch.numbered(order)]


@dataclass
class _Effort:
    """What one search for an order may still do, and what it did already.

    Attributes:
        work: Steps that searches may still try.
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
    best = min(orders, key=lambda order: stretch.cost(order, floor))
    may_search = len(best) <= LONGEST_SEARCHED
    while len(best) > 1 and stretch.cost(best, floor) > (floor, 0):
        begun = dataclasses.replace(stretch, given=best)
        found = min(
            (best, *_candidates(begun, floor, effort)), key=lambda order: begun.cost(order, floor)
        )
        if found == best and may_search and stretch.peak(best) > floor:
            may_search = False
            found = next(iter(_lowest(begun, stretch.peak(best), effort)), best)
        if found == best:
            break
        best = found
    return best


def _candidates(stretch: Stretch, floor: int, effort: _Effort) -> Iterator[Order]:
    """Yield orders that may be better than the given one."""
    tried = [stretch.given, *_depth_first(stretch)]
    yield from tried
    best = min(tried, key=lambda order: stretch.cost(order, floor))
    limit, distance = stretch.cost(best, floor)
    if len(best) > WINDOW:
        yield _improved_in_windows(stretch, best, floor, effort)
    elif distance:
        yield from _nearest(stretch, limit, distance, effort)


def _improved_in_windows(stretch: Stretch, order: Order, floor: int, effort: _Effort) -> Order:
    """Return *order* with each few steps that follow each other in the best order among them."""
    improved, progress = list(order), stretch.progress()
    for begin in range(0, len(order), WINDOW // 2):
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
    key = (*stretch.key, floor)
    if key not in effort.windows:
        order, work = _FOUND.get(key, ((), effort.work + 1))
        if work > effort.work - SEARCH_WORK:
            begun = effort.work
            order = _improved(stretch, (stretch.given,), floor, effort)
            _remember(key, order, begun - effort.work, effort)
        else:
            effort.work -= work
        effort.windows[key] = order
    return effort.windows[key]


def _remember(key: tuple[object, ...], order: Order, work: int, effort: _Effort) -> None:
    """Let other searches know what was found with so much *work*, unless the effort was short."""
    if effort.work > SEARCH_WORK:
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

    def proceed(state: _State) -> list[_State]:
        found = []
        for step in stretch.ready(state.done):
            during, live = stretch.steps.run(step, state.done, state.live)
            peak = max(state.cost, during)
            then = _State(
                peak, state.left - 1, state.done | 1 << step, live, 0, (*state.order, step)
            )
            if peak == state.cost and live <= state.live:
                return [then]
            if during < limit:
                found.append(then)
        return found

    return _search(stretch, proceed, effort)


def _nearest(stretch: Stretch, limit: int, distance: int, effort: _Effort) -> list[Order]:
    """Return the order of the shortest distance below *distance* with a peak of up to *limit*.

    None if there is none, or if it takes long.
    """

    def proceed(state: _State) -> list[_State]:
        found = []
        for step in stretch.ready(state.done):
            during, live = stretch.steps.run(step, state.done, state.live)
            wait, held = stretch.steps.wait(step, state.done, state.held)
            cost, done = state.cost + wait, state.done | 1 << step
            if during <= limit and cost < distance:
                found.append(_State(cost, state.left - 1, done, live, held, (*state.order, step)))
        return found

    return _search(stretch, proceed, effort)


class _State(NamedTuple):
    """What a search has come to; the cheapest goes on first, of these the one with least left.

    Attributes:
        cost: What is to be small; it never shrinks.
        left: Number of steps that are left.
        done: A bit for each step that is done.
        live: Bytes that are live.
        held: Bytes that wait to be read.
        order: The steps of the stretch that are done.
    """

    cost: int
    left: int
    done: int
    live: int
    held: int
    order: Order


def _search(
    stretch: Stretch, proceed: Callable[[_State], list[_State]], effort: _Effort
) -> list[Order]:
    """Return the cheapest order, found over sets of steps that are done; none if it takes long.

    Whatever the order, the same bytes are live after a set; so only the cheapest way to it counts.
    It also ends when *effort* has no more work left for all searches.
    """
    heap = [_State(0, len(stretch.given), stretch.done, stretch.live, stretch.held, ())]
    seen: set[int] = set()
    least = max(0, effort.work - SEARCH_WORK)
    while heap and effort.work > least:
        state = heapq.heappop(heap)
        if not state.left:
            return [state.order]
        if state.done not in seen:
            seen.add(state.done)
            effort.work -= state.left
            for then in proceed(state):
                heapq.heappush(heap, then)
    return []
