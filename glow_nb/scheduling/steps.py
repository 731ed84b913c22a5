"""Steps, what memory they touch, and the cost of an order of them.

Nodes and instructions are ordered by the same means (:mod:`glow_nb.scheduling.ordering`). A step
touches *regions* of memory: one is live from the first step that touches it to the last. A step may
be done once the steps that must come before it are. Some may lay a region that begins with them
over one that ends with them.

Where all steps so far must come before all that follow, one *stretch* ends and the next begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf

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
    def moves(self) -> bool:
        """Return whether any step moves bytes: only then do others wait."""
        return any(self.traffic)

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
        """Return the largest sum of bytes live at one time while the steps of *order* run.

        Args:
            order: The steps, by number.
            done: The steps that ran before, as a bit mask.
            live: The bytes that are live when the order begins.
        """
        peak = 0
        for step in order:
            during, live = self.run(step, done, live)
            done |= 1 << step
            peak = max(peak, during)
        return peak

    def wait(self, step: int, done: int, held: int) -> tuple[int, int]:
        """Return the cost of waiting while *step* runs, and the bytes that are held after it.

        A byte is held from the step that writes it to the last step that reads it. While a step
        runs, the bytes that are held and that it does not read wait in the caches, and what the
        step moves may evict them. The cost is therefore the product: bytes that wait, times bytes
        that the step moves.

        Args:
            step: The number of the step.
            done: The steps that ran before, as a bit mask.
            held: The bytes that are held before the step.
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
        for step in order if self.moves else ():
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
    """Steps that follow each other in any order of all, as a problem of its own.

    Its steps and regions have numbers of their own, so that it takes no longer to look at than it
    is long. Two more steps stand for all that come before it, and for all that come after.

    Attributes:
        steps: The steps and the regions that they touch; the last two are those that stand for
            others.
        numbers: What the steps were called where the stretch was taken from, ascending.
        given: The steps in their given order.
        live: Bytes that are live before.
        held: Bytes that wait to be read then.
    """

    steps: Steps
    numbers: Order
    given: Order
    live: int
    held: int

    @cached_property
    def effort(self) -> list[int]:
        """What it takes to look at each step: itself and the regions that it touches."""
        return [1 + len(regions) for regions in self.steps.touched[: len(self.numbers)]]

    @property
    def done(self) -> int:
        """The bit of the step that stands for all before the stretch."""
        return 1 << len(self.numbers)

    @property
    def key(self) -> tuple[object, ...]:
        """All that the best order depends on, to be hashed; numbers outside do not count."""
        steps = self.steps
        return (
            tuple(map(tuple, steps.before)),
            *(tuple(tuple(d.items()) for d in dicts) for dicts in (steps.reads, steps.writes)),
            *(tuple(steps.size), tuple(steps.traffic), tuple(map(tuple, steps.shared))),
            *(self.given, self.live, self.held),
        )

    @cached_property
    def before(self) -> dict[int, list[int]]:
        """The steps of the stretch that must come right before each of them, as they stand."""
        place = {step: index for index, step in enumerate(self.given)}
        before = self.steps.before
        return {step: sorted(before[step], key=place.__getitem__) for step in self.given}

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

    @cached_property
    def stays(self) -> int:
        """Bytes that are held before the stretch and all through it."""
        begun, kept = self.steps.writes[-2], self.steps.reads[-1]
        return self.held - sum(amount for region, amount in begun.items() if region not in kept)

    @cached_property
    def adds(self) -> list[int]:
        """Bytes that each step makes and that are held until the end of the stretch."""
        kept, writes = self.steps.reads[-1], self.steps.writes[: len(self.numbers)]
        return [sum(amount for r, amount in made.items() if r in kept) for made in writes]

    @cached_property
    def waits(self) -> list[tuple[int, int, int, int]]:
        """What a step waits for at least: its bit, the bytes it moves, reads for good and adds.

        They stand in the order of the least sum of waits if nothing but what is held to the end of
        the stretch had to wait, and steps could be done in any order: those come first that add
        little and move much (Smith's rule).
        """
        steps, kept = self.steps, self.steps.reads[-1]
        found = []
        for step in self.given:
            own = sum(amount for r, amount in steps.reads[step].items() if r in kept)
            found.append((1 << step, steps.traffic[step], own, self.adds[step]))
        return sorted(found, key=lambda wait: wait[3] / wait[1] if wait[1] else inf)

    def least_wait(self, done: int, stays: int) -> int:
        """Return what the steps that are not *done* wait for in any order, or less.

        Args:
            done: The steps that are done, as a bit mask.
            stays: Bytes that are held and will be to the end of the stretch.
        """
        least = 0
        for bit, traffic, own, adds in self.waits:
            if not done & bit:
                least += traffic * (stays - own)
                stays += adds
        return least

    def numbered(self, order: Order) -> Order:
        """Return *order* by the numbers that the steps had where the stretch was taken from."""
        return tuple(self.numbers[step] for step in order)

    def progress(self) -> Progress:
        """Return the progress of an order of the stretch, at its beginning."""
        progress = Progress(self.steps)
        progress.advance(len(self.numbers))
        progress.live, progress.held = self.live, self.held
        return progress


class Progress:
    """How far an order of steps has come.

    Attributes:
        live: Bytes that are live.
        held: Bytes that were written to live regions.
    """

    def __init__(self, steps: Steps) -> None:
        """Begin before the first of *steps*."""
        self._steps = steps
        self._begun = [False] * len(steps.size)
        self._written = [0] * len(steps.size)
        self._left = [0] * len(steps.size)  # how many steps will still touch each region
        for regions in steps.touched:
            for region in regions:
                self._left[region] += 1
        self.live = self.held = 0

    def advance(self, step: int) -> None:
        """Do *step*."""
        size = self._steps.size
        for region, amount in self._steps.writes[step].items():
            self._written[region] += amount
            self.held += amount
        for region in self._steps.touched[step]:
            self.live += 0 if self._begun[region] else size[region]
            self._begun[region] = True
            self._left[region] -= 1
            if not self._left[region]:
                self.live -= size[region]
                self.held -= self._written[region]

    def stretch(self, given: Sequence[int]) -> Stretch:
        """Return the steps that come next, in the order *given*, as a problem of its own."""
        steps = self._steps
        numbers = tuple(sorted(given))
        own = {number: step for step, number in enumerate(numbers)}
        touches = Counter(region for number in numbers for region in steps.touched[number])
        regions = {region: index for index, region in enumerate(touches)}

        def renamed(amounts: Mapping[int, int]) -> dict[int, int]:
            return {regions[region]: amount for region, amount in amounts.items()}

        begun = {region: self._written[region] for region in touches if self._begun[region]}
        kept = {region: 0 for region, count in touches.items() if self._left[region] > count}
        part = Steps(
            before=[[own[n] for n in steps.before[number] if n in own] for number in numbers],
            reads=[*(renamed(steps.reads[number]) for number in numbers), {}, renamed(kept)],
            writes=[*(renamed(steps.writes[number]) for number in numbers), renamed(begun), {}],
            size=[steps.size[region] for region in touches],
            traffic=[steps.traffic[number] for number in numbers],
            shared=[
                [
                    (regions[new], regions[old])
                    for new, old in steps.shared[number]
                    if new in regions and old in regions
                ]
                for number in numbers
            ],
        )
        order = tuple(own[number] for number in given)
        return Stretch(part, numbers, order, self.live, self.held)


def stretches_of(steps: Steps) -> Iterator[Stretch]:
    """Yield the stretches: each ends where all steps so far must come before all that follow."""
    progress = Progress(steps)
    given: list[int] = []
    for step, is_last in enumerate(_ends(steps.before)):
        given.append(step)
        if is_last:
            yield progress.stretch(given)
            for number in given:
                progress.advance(number)
            given = []


def _ends(before: Sequence[Sequence[int]]) -> Iterator[bool]:
    """Yield for each step whether all up to it must come before all that follow.

    That is so if every step that follows and needs none of those that follow, needs all those up to
    it that none of these needs: the *open* ones.
    """
    nearest = [max(numbers, default=-1) for numbers in before]
    needing: list[list[int]] = [[] for _ in before]
    for step, number in enumerate(nearest):
        if number >= 0:
            needing[number].append(step)
    lowest = list(accumulate(reversed(nearest), min, initial=len(before)))[::-1]
    open_steps: set[int] = set()
    for step, numbers in enumerate(before):
        open_steps.difference_update(numbers)
        open_steps.add(step)
        yield lowest[step + 1] >= step and all(
            len(open_steps) <= len(before[later]) and open_steps.issubset(before[later])
            for later in needing[step]
        )
