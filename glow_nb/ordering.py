"""Orders of steps in which little memory is live at a time, whatever the steps are.

Nodes and instructions are ordered by the same means. A step touches *regions* of memory: one is
live from the first step that touches it to the last. A step may be done once the steps that must
come before it are. Some may lay a region that begins with them over one that ends with them.

Where all steps so far must come before all that follow, one *stretch* ends and the next begins.
Each is ordered by itself. It takes the best of these orders:

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
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import and_
from typing import NamedTuple

Order = tuple[int, ...]

SEARCH_WORK = 40_000
"""Steps that a search may try before it gives up; each takes about two microseconds."""
LONGEST_SEARCHED = 64
"""Steps of the longest stretch that is searched as a whole for the lowest peak."""
WINDOW = 12
"""Steps that are searched for the shortest distance; longer stretches are improved in windows of so
many steps that follow each other, each of which begins half of that later."""


@dataclass(frozen=True)
class Steps:
    """Steps by number, in a given order that is allowed.

    Attributes:
        before: The steps that must come right before each step, all with smaller numbers.
        reads: The regions that each step reads, with the bytes.
        writes: The regions that each step writes, with the bytes.
        size: Bytes of each region.
        traffic: Bytes that each step reads and writes in all, those of no region included.
        shared: Pairs of regions of equal size for each step: the first may lie on the second, if it
            begins with the step and the second ends with it.
    """

    before: Sequence[Sequence[int]]
    reads: Sequence[dict[int, int]]
    writes: Sequence[dict[int, int]]
    size: Sequence[int]
    traffic: Sequence[int]
    shared: Sequence[Sequence[tuple[int, int]]]

    @cached_property
    def needed(self) -> list[int]:
        """A bit for each step that must come right before, for each step."""
        return [sum(1 << number for number in set(before)) for before in self.before]

    @cached_property
    def touched(self) -> list[list[int]]:
        """The regions that each step reads or writes."""
        return [list({**r, **w}) for r, w in zip(self.reads, self.writes, strict=True)]

    @cached_property
    def touching(self) -> list[int]:
        """A bit for each step that touches it, for each region."""
        masks = [0] * len(self.size)
        for step, regions in enumerate(self.touched):
            for region in regions:
                masks[region] |= 1 << step
        return masks

    @cached_property
    def writers(self) -> list[list[tuple[int, int]]]:
        """The steps that write to it, with the bytes, for each region."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.size]
        for step, regions in enumerate(self.writes):
            for region, amount in regions.items():
                found[region].append((step, amount))
        return found

    def run(self, step: int, done: int, live: int) -> tuple[int, int]:
        """Return the bytes live while *step* runs after *done*, of which *live* are; and after."""
        size, touching, left = self.size, self.touching, ~(done | 1 << step)
        born = [region for region in self.touched[step] if not touching[region] & done]
        ended = [region for region in self.touched[step] if not touching[region] & left]
        during = live + sum([size[region] for region in born])
        after = during - sum([size[region] for region in ended])
        for new, old in self.shared[step]:
            if new in born and old in ended:
                during -= size[new]
                born.remove(new)
                ended.remove(old)
        return during, after

    def peak(self, order: Iterable[int], done: int = 0, live: int = 0) -> int:
        """Return the largest sum of bytes live at one time in *order*, which begins after *done*.

        So many bytes are *live* then.
        """
        peak = 0
        for step in order:
            during, live = self.run(step, done, live)
            done |= 1 << step
            peak = max(peak, during)
        return peak

    def wait(self, step: int, done: int, held: int) -> tuple[int, int]:
        """Return how long bytes wait while *step* runs after *done*, and how many are held then.

        The bytes that steps wrote to live regions are held for those that will read them, *held*
        before. Those that the step does not read wait: for each of them, as many bytes pass through
        the caches as the step moves.
        """
        left = ~(done | 1 << step)
        reads = self.reads[step].items()
        own = sum([min(amount, self.written(region, done)) for region, amount in reads])
        ended = [region for region in self.touched[step] if not self.touching[region] & left]
        gone = sum([self.written(region, ~left) for region in ended])
        after = held + sum(self.writes[step].values()) - gone
        return self.traffic[step] * (held - own), after

    def written(self, region: int, done: int) -> int:
        """Return the bytes that the steps in *done* wrote to *region*."""
        return sum([amount for step, amount in self.writers[region] if done >> step & 1])

    def distance(self, order: Iterable[int], done: int = 0, held: int = 0) -> int:
        """Return the sum of waits in *order*, which begins after *done* with so many bytes *held*.

        It is the sum over all bytes, each time that they are touched again, of the bytes that moved
        in between: what a cache must hold to have them still.
        """
        distance = 0
        for step in order:
            wait, held = self.wait(step, done, held)
            done |= 1 << step
            distance += wait
        return distance

    def smallest_peak(self) -> int:
        """Return what some step needs in any order: the regions that it touches."""
        needs = (
            sum(self.size[region] for region in regions)
            - sum(self.size[new] for new in _laid_over(pairs))
            for regions, pairs in zip(self.touched, self.shared, strict=True)
        )
        return max(needs, default=0)


def _laid_over(pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Return the regions that may lie on others, each of these taken once."""
    hosts: dict[int, int] = {}
    for new, old in pairs:
        if new not in hosts and old not in hosts.values():
            hosts[new] = old
    return list(hosts)


def best_order(steps: Steps) -> list[int]:
    """Return the order of the lowest peak found, and among equal ones of the shortest distance.

    No stretch has a higher peak than in the given order. A peak below that of another stretch, or
    below what some step needs, is as good as that; and what is as good as the given order is not
    taken for it.
    """
    floor = steps.smallest_peak()
    stretches = list(stretches_of(steps))
    found = [_improved(stretch, (stretch.given,), floor) for stretch in stretches]
    highest = max((s.peak(order) for s, order in zip(stretches, found, strict=True)), default=0)
    if highest > floor:
        pairs = zip(stretches, found, strict=True)
        found = [_improved(s, (s.given, order), highest) for s, order in pairs]
    return [step for order in found for step in order]


@dataclass(frozen=True)
class Stretch:
    """Steps that follow each other in any order of all, whatever their own.

    Attributes:
        steps: All steps.
        given: The numbers of those of the stretch, in their given order.
        done: A bit for each step before the stretch.
        live: Bytes that are live then.
        held: Bytes that wait to be read then.
    """

    steps: Steps
    given: Order
    done: int
    live: int
    held: int

    @cached_property
    def before(self) -> dict[int, list[int]]:
        """The steps of the stretch that must come right before each of them, as they stand."""
        place = {step: index for index, step in enumerate(self.given)}
        inside = {s: [n for n in self.steps.before[s] if n in place] for s in self.given}
        return {step: sorted(before, key=place.__getitem__) for step, before in inside.items()}

    @cached_property
    def after(self) -> dict[int, list[int]]:
        """The steps of the stretch that must come after each of them."""
        after: dict[int, list[int]] = {step: [] for step in self.given}
        for step, before in self.before.items():
            for number in before:
                after[number].append(step)
        return after

    def peak(self, order: Order) -> int:
        """Return the most bytes that are live at one time within the stretch."""
        return self.steps.peak(order, self.done, self.live)

    def ready(self, done: int) -> list[int]:
        """Return the steps that may come next after *done*."""
        needed, left = self.steps.needed, ~done
        return [step for step in self.given if left >> step & 1 and not needed[step] & left]

    def cost(self, order: Order, floor: int) -> tuple[int, int]:
        """Return what to minimise; peaks of up to *floor* are equal."""
        return max(self.peak(order), floor), self.steps.distance(order, self.done, self.held)


def stretches_of(steps: Steps) -> Iterator[Stretch]:
    """Yield the stretches: each ends where all steps so far must come before all that follow."""
    count = len(steps.before)
    earlier: list[int] = []  # a bit for each step that must come before, at any distance
    for before in steps.before:
        earlier.append(0)
        for number in before:
            earlier[-1] |= earlier[number] | 1 << number
    common = list(accumulate(reversed(earlier), and_, initial=-1))[::-1]
    given: list[int] = []
    done = live = held = 0
    begin = done, live, held
    for step in range(count):
        given.append(step)
        _, live = steps.run(step, done, live)
        _, held = steps.wait(step, done, held)
        done |= 1 << step
        if not done & ~common[step + 1]:
            yield Stretch(steps, tuple(given), *begin)
            given, begin = [], (done, live, held)


def _improved(stretch: Stretch, orders: Sequence[Order], floor: int) -> Order:
    """Return the best order found, the first of *orders* if no other is better.

    What was found is a new order to begin from, until nothing better is. Only then it is searched
    whether a lower peak can be had at all, since that takes longest.
    """
    floor = min(floor, stretch.peak(stretch.given))
    best = min(orders, key=lambda order: stretch.cost(order, floor))
    may_search = len(best) <= LONGEST_SEARCHED
    while len(best) > 1 and stretch.cost(best, floor) > (floor, 0):
        begun = dataclasses.replace(stretch, given=best)
        found = min((best, *_candidates(begun, floor)), key=lambda order: begun.cost(order, floor))
        if found == best and may_search and stretch.peak(best) > floor:
            may_search = False
            found = next(iter(_lowest(begun, stretch.peak(best))), best)
        if found == best:
            break
        best = found
    return best


def _candidates(stretch: Stretch, floor: int) -> Iterator[Order]:
    """Yield orders that may be better than the given one."""
    tried = [stretch.given, *_depth_first(stretch)]
    yield from tried
    best = min(tried, key=lambda order: stretch.cost(order, floor))
    limit, distance = stretch.cost(best, floor)
    if len(best) > WINDOW:
        yield _improved_in_windows(stretch, best, floor)
    elif distance:
        yield from _nearest(stretch, limit, distance)


def _improved_in_windows(stretch: Stretch, order: Order, floor: int) -> Order:
    """Return *order* with each few steps that follow each other in the best order among them."""
    steps, done, live, held = stretch.steps, stretch.done, stretch.live, stretch.held
    for begin in range(0, len(order), WINDOW // 2):
        window = Stretch(steps, order[begin : begin + WINDOW], done, live, held)
        better = _improved(window, (window.given,), floor)
        order = order[:begin] + better + order[begin + WINDOW :]
        for step in better[: WINDOW // 2]:
            _, live = steps.run(step, done, live)
            _, held = steps.wait(step, done, held)
            done |= 1 << step
    return order


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


def _lowest(stretch: Stretch, limit: int) -> list[Order]:
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

    return _search(stretch, proceed)


def _nearest(stretch: Stretch, limit: int, distance: int) -> list[Order]:
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

    return _search(stretch, proceed)


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


def _search(stretch: Stretch, proceed: Callable[[_State], list[_State]]) -> list[Order]:
    """Return the cheapest order, found over sets of steps that are done; none if it takes long.

    Whatever the order, the same bytes are live after a set; so only the cheapest way to it counts.
    """
    heap = [_State(0, len(stretch.given), stretch.done, stretch.live, stretch.held, ())]
    seen: set[int] = set()
    work = SEARCH_WORK
    while heap and work > 0:
        state = heapq.heappop(heap)
        if not state.left:
            return [state.order]
        if state.done not in seen:
            seen.add(state.done)
            work -= state.left
            for then in proceed(state):
                heapq.heappush(heap, then)
    return []
