"""The static allocator: the offset of every activation in the arena (paper 3.5).

:func:`place` is a pure function from lifetimes and sizes to offsets, independent of programs.
Buffers are placed one after another, each at the lowest address that no buffer placed before it
holds at the same time. In program order that is the paper's heap of live segments with first fit;
other orders often need less. They are tried until one meets the lower bound; where none does, the
search of :mod:`glow_nb.llir.exact_placement` goes on from the best.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.arguments import described
from glow_nb.base.errors import GlowError, OptionError, PassError, VerifyError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.size import hinted
from glow_nb.llir.check_placement import Resident, first_overlap
from glow_nb.llir.exact_placement import Tightening
from glow_nb.llir.placement_search import Budget, Sections
from glow_nb.llir.program import Alloc, Arena, Buffer, Dealloc, Program

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LiveRange:
    """A buffer as the allocator sees it.

    Attributes:
        start: The first step at which its memory is needed. Steps are places in
            ``program.instructions``, ``alloc`` and ``dealloc`` included.
        end: The first step after *start* at which it is no longer needed.
        size_bytes: Bytes it occupies.
    """

    start: int
    end: int
    size_bytes: int

    def __post_init__(self) -> None:
        if self.end <= self.start or self.size_bytes < 0:
            raise GlowError(f"{self}: must end after its start, with a size that is not negative")


@dataclass(frozen=True)
class Placement:
    """Where buffers lie in one block of memory.

    Attributes:
        offsets: Bytes from the beginning of the block, one for each live range, in their order.
        size_bytes: Size of the block.
        lower_bound_bytes: The largest sum of sizes (rounded up to the alignment) that are live at
            one step; no placement can be smaller.
    """

    offsets: tuple[int, ...]
    size_bytes: int
    lower_bound_bytes: int


Allocator = Callable[[Sequence[LiveRange]], Sequence[int]]
"""Places buffers: returns an offset in bytes for each, a multiple of :data:`ALIGNMENT`."""


def allocate(
    program: Program, *, alignment: int = ALIGNMENT, allocator: Allocator | None = None
) -> Program:
    """Return *program* with a place in the arena for every activation.

    Open sizes have the values of the example; for other sizes, :mod:`glow_nb.llir.order_placement`
    places activations.
    Offsets are those of *allocator*, by default of :func:`place`; that no buffers overlap,
    :mod:`glow_nb.llir.check_placement` proves.

    Raises:
        VerifyError: An activation has no dealloc.
        OptionError: *allocator* does not return one offset for each live range, or lets two overlap
            that live at the same time.
        PassError: *allocator* raises an exception; names it.
    """
    ranges = ranges_of(program)
    live = tuple(ranges.values())
    if allocator is None:
        placement = place(live, alignment=alignment)
    else:
        placement = _placed_by(allocator, live, alignment)
        _check_offsets(f"allocator {name_of(allocator)!r}", ranges, placement.offsets, alignment)
    offsets = dict(zip(ranges, placement.offsets, strict=True))
    arena = Arena(offsets, placement.size_bytes, placement.lower_bound_bytes)
    return dataclasses.replace(program, arena=arena)


def _placed_by(
    allocator: Allocator, live_ranges: tuple[LiveRange, ...], alignment: int
) -> Placement:
    """Return what *allocator* makes of *live_ranges*."""
    subject = f"allocator {name_of(allocator)!r}"
    with foreign(PassError, subject):
        returned = allocator(live_ranges)
    if not isinstance(returned, Sequence | np.ndarray):
        raise OptionError(f"{subject}: it returned {described(returned)}; return a list of offsets")
    offsets = [int(offset) for offset in returned if isinstance(offset, int | np.integer)]
    if len(offsets) < len(returned) or len(offsets) != len(live_ranges):
        raise OptionError(
            f"{subject}: it returned {described(returned)} for {len(live_ranges)} live ranges; "
            "return one whole number of bytes for each"
        )
    ends = (offset + live.size_bytes for offset, live in zip(offsets, live_ranges, strict=True))
    size = -(-max(ends, default=0) // alignment) * alignment
    return Placement(tuple(offsets), size, Problem(live_ranges, alignment).lower_bound)


def _check_offsets(
    subject: str, ranges: Mapping[Buffer, LiveRange], offsets: Sequence[int], alignment: int
) -> None:
    """Raise OptionError about the *subject* if *offsets*, which it returned, are no placement."""
    texts: dict[Buffer, str] = {}
    residents: list[Resident] = []
    for number, ((buffer, live), offset) in enumerate(zip(ranges.items(), offsets, strict=True)):
        steps = f"steps {live.start} to {live.end}, {live.size_bytes} bytes"
        texts[buffer] = f"live range {number} ({buffer!r}, {steps}) at {offset}"
        if offset < 0 or offset % alignment:
            raise OptionError(
                f"{subject}: it places {texts[buffer]}; give a multiple of {alignment} that is not "
                "negative"
            )
        if live.size_bytes:  # an empty one lies anywhere
            end = offset + live.size_bytes
            residents.append(Resident(buffer, offset, end, live.start, live.end - 1))
    found = first_overlap(sorted(residents, key=lambda resident: resident.first))
    if found is not None:
        newcomer, other = (texts[resident.buffer] for resident in found)
        raise OptionError(
            f"{subject}: it places {newcomer}, where it overlaps with {other}; both are needed at "
            "the same time"
        )


def ranges_of(program: Program) -> dict[Buffer, LiveRange]:
    """Return the range from alloc to dealloc of each activation; steps are instructions."""
    starts: dict[Buffer, int] = {}
    ranges: dict[Buffer, LiveRange] = {}
    for step, instruction in enumerate(program.instructions):
        if isinstance(instruction, Alloc):
            starts[instruction.dest] = step
        elif isinstance(instruction, Dealloc):
            buffer = instruction.dest
            size_bytes = hinted(buffer.type.size_bytes)
            ranges[buffer] = LiveRange(starts.pop(buffer), step, size_bytes)
    if starts:
        raise VerifyError(program, f"activations are never deallocated: {list(starts)}")
    return ranges


def place(
    live_ranges: Sequence[LiveRange],
    *,
    alignment: int = ALIGNMENT,
    target_bytes: int = 0,
    time_limit_seconds: float | None = None,
) -> Placement:
    """Return offsets, multiples of *alignment*, such that no two ranges live together overlap.

    Tries several greedy orders, repairs the best of them, then searches exactly; stops as soon as
    the lower bound is met, or a size of at most *target_bytes*. The time of an order grows with the
    number of pairs that are live together.

    Args:
        live_ranges: Lifetimes and sizes.
        alignment: The alignment of every offset, in bytes.
        target_bytes: A size that is small enough, such as the size of a given memory.
        time_limit_seconds: The time limit of the exact search. By default it ends after
            :data:`SEARCH_NODES` steps, so that the same ranges give the same placement on every
            machine.

    Raises:
        GlowError: A range ends before it starts, or *alignment* is no positive whole number.
    """
    if not isinstance(alignment, int) or alignment < 1:
        raise GlowError(f"alignment={alignment!r}: give a number of bytes of at least 1")
    problem = Problem(live_ranges, alignment)
    goal = max(problem.lower_bound, target_bytes)
    best = problem.attempt(ORDERS[0](problem))
    for order in ORDERS[1:]:
        if best.size <= goal:
            break
        best = min(best, problem.attempt(order(problem)), key=lambda attempt: attempt.size)
    best = _repaired(problem, best, goal)
    offsets, size = _searched(problem, best, goal, time_limit_seconds)
    return Placement(tuple(offsets.tolist()), size, problem.lower_bound)


@dataclass(frozen=True, eq=False)
class Attempt:
    """One try at a placement.

    Attributes:
        order: The indices of the ranges as they were placed.
        offsets: The offset of each range.
        ends: Where each range ends.
        size: The largest end.
    """

    order: Integers
    offsets: Integers
    ends: Integers
    size: int


class Problem:
    """An instance as the orders see it: sizes rounded to the alignment, time cut down to events.

    A step here is a moment when some range starts, counted from 0; nothing grows in between.

    Attributes:
        count: Number of ranges.
        sizes: Rounded bytes of each range.
        first: First step of each range.
        stop: The step after its last one.
        live_bytes: Sum of the sizes live at each step.
        lower_bound: The largest of them.
    """

    def __init__(self, ranges: Sequence[LiveRange], alignment: int) -> None:
        """Prepare *ranges*."""
        starts = np.array([r.start for r in ranges], np.int64)
        ends = np.array([r.end for r in ranges], np.int64)
        sizes = np.array([r.size_bytes for r in ranges], np.int64)
        steps = np.unique(starts)
        self.count = len(ranges)
        self.sizes: Integers = -(-sizes // alignment) * alignment
        self.first: Integers = np.searchsorted(steps, starts)
        self.stop: Integers = np.searchsorted(steps, ends)
        changes = np.zeros(len(steps) + 1, np.int64)
        np.add.at(changes, self.first, self.sizes)
        np.subtract.at(changes, self.stop, self.sizes)
        self.live_bytes: Integers = np.cumsum(changes)[:-1]
        self.lower_bound = int(self.live_bytes.max(initial=0))
        self._together = self._find_together()

    def _find_together(self) -> list[list[int]]:
        """Return, for each range, those that live at some step together with it."""
        first, stop = self.first.tolist(), self.stop.tolist()
        together: list[list[int]] = [[] for _ in first]
        live: list[int] = []
        for index in in_program_order(self).tolist():
            live = [other for other in live if stop[other] > first[index]]
            together[index] += live
            for other in live:
                together[other].append(index)
            live.append(index)
        return together

    def attempt(self, order: Integers) -> Attempt:
        """Place the ranges in *order*, each at the lowest address that is free for it."""
        sizes = self.sizes.tolist()
        offsets = [0] * self.count
        is_placed = [False] * self.count
        for index in order.tolist():
            held = sorted((offsets[i], sizes[i]) for i in self._together[index] if is_placed[i])
            offset = 0
            for begin, size in held:
                if begin - offset >= sizes[index]:
                    break
                offset = max(offset, begin + size)
            offsets[index] = offset
            is_placed[index] = True
        places = np.array(offsets, np.int64)
        ends = places + self.sizes
        return Attempt(order, places, ends, int(ends.max(initial=0)))


def in_program_order(problem: Problem) -> Integers:
    """First started, first placed: the paper's heap of live segments."""
    return np.argsort(problem.first, kind="stable")


def by_size(problem: Problem) -> Integers:
    """Largest first; of equal ones the longest lived."""
    return np.lexsort((problem.first - problem.stop, -problem.sizes))


def by_lifetime(problem: Problem) -> Integers:
    """Longest lived first; of equal ones the largest."""
    return np.lexsort((-problem.sizes, problem.first - problem.stop))


def by_area(problem: Problem) -> Integers:
    """Largest product of size and lifetime first."""
    return np.argsort((problem.first - problem.stop) * problem.sizes, kind="stable")


def by_fullest_step_and_size(problem: Problem) -> Integers:
    """Repeatedly the largest range of the step with most bytes left (Glow's first strategy)."""
    return _from_fullest_step(problem, by_size(problem))


def by_fullest_step_and_lifetime(problem: Problem) -> Integers:
    """Repeatedly the longest range of the step with most bytes left (Glow's second strategy)."""
    return _from_fullest_step(problem, by_lifetime(problem))


def _from_fullest_step(problem: Problem, preferred: Integers) -> Integers:
    """Order the ranges by the fullest step, those of one step as they come in *preferred*."""
    left = problem.live_bytes.copy()
    first, stop = problem.first[preferred], problem.stop[preferred]
    is_waiting = np.ones(problem.count, np.bool_)
    order: list[int] = []
    while left.max(initial=0) > 0:
        step = int(left.argmax())
        rank = int(np.argmax(is_waiting & (first <= step) & (step < stop)))
        is_waiting[rank] = False
        left[first[rank] : stop[rank]] -= problem.sizes[preferred[rank]]
        order.append(rank)
    order += np.flatnonzero(is_waiting).tolist()
    return preferred[order]


ORDERS: tuple[Callable[[Problem], Integers], ...] = (
    in_program_order,
    by_fullest_step_and_size,
    by_fullest_step_and_lifetime,
    by_size,
    by_area,
    by_lifetime,
)
"""The orders that :func:`place` tries."""

REPAIRS = 16
"""How often :func:`place` repairs an order."""


def _repaired(problem: Problem, best: Attempt, goal: int) -> Attempt:
    """Let the ranges that stick out be placed earlier, again and again; return the best attempt.

    What reaches the best size so far moves halfway to the front of the order.
    """
    attempt = best
    for _ in range(REPAIRS):
        if best.size <= goal:
            break
        ranks = np.empty(problem.count)
        ranks[attempt.order] = np.arange(problem.count)
        ranks = np.where(attempt.ends >= best.size, ranks // 2 - 0.5, ranks)
        attempt = problem.attempt(np.argsort(ranks, kind="stable"))
        best = min(best, attempt, key=lambda a: a.size)
    return best


SEARCH_NODES = 6000
"""The number of steps of the exact search, unless it has a time limit.

A step takes about 0.1 ms, 0.3 ms where a hundred ranges live together.
"""


def _searched(
    problem: Problem, best: Attempt, goal: int, seconds: float | None
) -> tuple[Integers, int]:
    """Return the offsets and size of a placement that is no larger than *best*."""
    if best.size <= goal:
        return best.offsets, best.size
    takes_memory = problem.sizes > 0
    sections = Sections(*(a[takes_memory] for a in (problem.first, problem.stop, problem.sizes)))
    if seconds is None:
        budget = Budget(nodes=SEARCH_NODES)
    else:
        budget = Budget(deadline=time.perf_counter() + seconds)
    search = Tightening(sections, best.size, problem.lower_bound, budget)
    search.run(goal)
    if search.offsets is None:
        return best.offsets, best.size
    offsets = np.zeros(problem.count, np.int64)
    offsets[takes_memory] = search.offsets
    return offsets, search.size
