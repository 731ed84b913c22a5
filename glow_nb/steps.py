"""Steps, what memory they touch, and the cost of an order of them.

Nodes and instructions are ordered by the same means (:mod:`glow_nb.ordering`). A step touches
*regions* of memory: one is live from the first step that touches it to the last. A step may be done
once the steps that must come before it are. Some may lay a region that begins with them over one
that ends with them.

Where all steps so far must come before all that follow, one *stretch* ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import and_

Order = tuple[int, ...]


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
