"""An exact search for a placement of a given size, for what greedy orders cannot solve.

The buffers are rectangles, wide as their lifetimes and high as their sizes, whose horizontal place
is known; they are stacked from address 0 upwards. Time is cut into *sections*, the largest sets of
buffers that live together. The *floor* of a section is where free memory begins in it, so the
floors form a skyline. Whatever is placed lies on the skyline: a solution can always be pushed down
until every buffer rests on another one or on address 0, and be built in the order of addresses
(the canonical solutions of MiniMalloc: Moffitt, ASPLOS 2023, doi 10.1145/3623278.3624752).

One node of the search looks at a section in a *valley*, a flat run of sections whose neighbours
are higher. Either one of the buffers that fit between the walls comes next, on the floor, or
nothing does and the floor rises to the next address where something can rest. The floor also rises
to the lowest address that any buffer left can have; when floor and bytes left exceed the capacity
in one section, the node is dead. Every floor remembers the decisions it comes from, as bits of an
integer, so a dead end goes back over all decisions that have no part in it (conflict-directed
backjumping, Prosser 1993). That also makes parts of the time line that no longer meet independent.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from math import inf
from operator import or_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_FAR = 1 << 60
"""Above any address: where a buffer that is placed already could go, and a wall stands."""


class Sections:
    """An instance, with time cut down to the sections that matter.

    Attributes:
        count: The number of buffers.
        sizes: Bytes of each buffer, all positive.
        first: First section of each buffer.
        stop: The section after its last one.
        spans: Both for each buffer, as Python's integers.
        members: The buffers of each section, filled up with the index after the last buffer.
        together: For each buffer the others that share a section with it.
        reach: For each buffer the sections of those, as (first, stop).
        smallest: The smallest size.
        live_bytes: The bytes of all buffers of each section.
    """

    def __init__(self, first: Integers, stop: Integers, sizes: Integers) -> None:
        """Cut the steps of *first* and *stop* (excluded) down to those after which one ends."""
        steps = np.unique(stop - 1)
        self.sizes = sizes
        self.first: Integers = np.searchsorted(steps, first)
        self.stop: Integers = np.searchsorted(steps, stop - 1) + 1
        self.count = len(sizes)
        self.smallest = int(sizes.min())
        lists = [np.flatnonzero((self.first <= s) & (s < self.stop)) for s in range(len(steps))]
        self.members = np.full((len(steps), max(map(len, lists))), self.count)
        for section, found in enumerate(lists):
            self.members[section, : len(found)] = found
        meets = (self.first < self.stop[:, None]) & (self.first[:, None] < self.stop)
        np.fill_diagonal(meets, False)
        self.together = [np.flatnonzero(row) for row in meets]
        self.reach = [
            (int(self.first[row].min(initial=f)), int(self.stop[row].max(initial=s)))
            for row, f, s in zip(self.together, self.first, self.stop, strict=True)
        ]
        self.spans = list(zip(self.first.tolist(), self.stop.tolist(), strict=True))
        self.live_bytes = np.append(sizes, 0)[self.members].sum(axis=1)


@dataclass(slots=True)
class _State:
    """A partial placement.

    Attributes:
        floors: Where free memory begins in each section.
        bytes_left: Bytes of each section that are not placed yet.
        heads: The lowest address that each buffer can have; far away once it is placed, and for
            one more that does not exist.
        fits: The number of buffers that can lie on the floor of each section.
        touched: The decisions that made each floor, as bits.
        reasons: The decisions that made each head, as bits.
        left: Number of buffers not placed.
    """

    floors: Integers
    bytes_left: Integers
    heads: Integers
    fits: Integers
    touched: list[int]
    reasons: list[int]
    left: int

    def copy(self) -> _State:
        """Return a state that shares nothing with this one."""
        return _State(
            *(self.floors.copy(), self.bytes_left.copy(), self.heads.copy(), self.fits.copy()),
            *(self.touched.copy(), self.reasons.copy(), self.left),
        )


class _Move(NamedTuple):
    """Place *buffer* on the floor, or raise the floor to *height* if it is None."""

    buffer: int | None
    height: int


@dataclass(slots=True)
class _Node:
    """A decision about the floor of *section*: the moves still to be tried, and what failed."""

    state: _State
    section: int
    moves: Iterator[_Move]
    move: _Move | None = None
    conflict: int = 0


class SearchOutcome(enum.Enum):
    """Why a search ended without a placement."""

    IMPOSSIBLE = "there is none"
    UNDECIDED = "out of budget"


@dataclass
class Budget:
    """The steps that the search may still take.

    Attributes:
        nodes: Number of nodes.
        deadline: Moment of :func:`time.perf_counter`.
    """

    nodes: float = inf
    deadline: float = inf

    @property
    def is_spent(self) -> bool:
        """True once nodes or time are used up."""
        return self.nodes <= 0 or time.perf_counter() > self.deadline


class Strategy(NamedTuple):
    """How a search goes: which section it decides next, and which buffer it tries first."""

    choose: Callable[[Search, _State, Integers], int]
    prefer: Callable[[Sections], Integers]


@dataclass
class Search:
    """A search for offsets such that all buffers end at or below *capacity*."""

    sections: Sections
    capacity: int
    strategy: Strategy
    failures: Integers = field(init=False)

    def __post_init__(self) -> None:
        self.failures = np.zeros(len(self.sections.members), np.int64)
        self._ranks: Integers = np.argsort(self.strategy.prefer(self.sections))

    def run(self, budget: Budget, node_limit: int) -> Integers | SearchOutcome:
        """Return offsets, or why there are none; at most *node_limit* nodes."""
        stack: list[_Node] = []
        state = self._begin()
        if (self.sections.live_bytes > self.capacity).any():
            return SearchOutcome.IMPOSSIBLE
        while state.left:
            if budget.is_spent or node_limit <= 0:
                return SearchOutcome.UNDECIDED
            budget.nodes -= 1
            node_limit -= 1
            stack.append(self._branch(state))
            found = self._advance(stack)
            if found is None:
                return SearchOutcome.IMPOSSIBLE
            state = found
        return self._offsets(stack)

    def _begin(self) -> _State:
        sections = self.sections
        steps, count = sections.members.shape[0], sections.count
        heads = np.append(np.zeros(count, np.int64), _FAR)
        fits = (sections.members < count).sum(axis=1)
        floors = np.zeros(steps, np.int64)
        live = sections.live_bytes.copy()
        return _State(floors, live, heads, fits, [0] * steps, [0] * count, count)

    def _advance(self, stack: list[_Node]) -> _State | None:
        """Make the next move that does not fail at once, going back as far as necessary."""
        while stack:
            node = stack[-1]
            node.move = next(node.moves, None)
            if node.move is None:
                blamed = node.conflict | self._why_no_more(node.state, node.section)
                stack.pop()
            else:
                result = self._make(node, 1 << (len(stack) - 1))
                if isinstance(result, _State):
                    return result
                blamed = result
            while stack and not blamed >> (len(stack) - 1) & 1:
                stack.pop()
            if stack:
                stack[-1].conflict |= blamed & ~(1 << (len(stack) - 1))
        return None

    def _branch(self, state: _State) -> _Node:
        """Choose a section of a valley and list its moves."""
        section = self.strategy.choose(self, state, _valleys(state))
        floor = int(state.floors[section])
        members = self.sections.members[section]
        fitting = members[state.heads[members] == floor]
        ordered = fitting[np.argsort(self._ranks[fitting])].tolist()
        different = {(*self.sections.spans[b], int(self.sections.sizes[b])): b for b in ordered}
        moves = [_Move(buffer, floor) for buffer in different.values()]
        rise = self._next_height(state, section, fitting)
        if rise + state.bytes_left[section] <= self.capacity:
            moves.append(_Move(None, rise))
        return _Node(state, section, iter(moves))

    def _next_height(self, state: _State, section: int, fitting: Integers) -> int:
        """Return the lowest address above its floor where something can lie in *section*.

        A buffer that fits on the floor but does not lie there rests on one of another section.
        """
        sections = self.sections
        if self.slack(state)[section] < sections.smallest:
            return _FAR
        heads = state.heads[sections.members[section]]
        height = int(heads.min(initial=_FAR, where=heads > state.floors[section]))
        for buffer in fitting:
            near = sections.together[buffer]
            is_aside = (sections.first[near] > section) | (sections.stop[near] <= section)
            tops = state.heads[near] + sections.sizes[near]
            height = min(height, int(tops.min(initial=_FAR, where=is_aside)))
        return height

    def slack(self, state: _State) -> Integers:
        """Return the bytes that each section can waste."""
        return self.capacity - state.floors - state.bytes_left

    def _make(self, node: _Node, decision: int) -> _State | int:
        """Return the state after the node's move, or the decisions that make it fail."""
        assert node.move is not None
        buffer, height = node.move
        state = node.state.copy()
        if buffer is None:
            state.touched[node.section] |= self._why_no_more(node.state, node.section) | decision
            state.floors[node.section] = height
            span = (node.section, node.section + 1)
            above = self.sections.members[node.section]
            above = above[state.heads[above] < height]
            reach = (0, len(state.floors))
        else:
            span, reach = self.sections.spans[buffer], self.sections.reach[buffer]
            height += int(self.sections.sizes[buffer])
            self._put(state, buffer, height, decision)
            above = self.sections.together[buffer]
            above = above[state.heads[above] < height]
        state.heads[above] = height
        shared = np.maximum(self.sections.first[above], span[0]).tolist()
        for other, section in zip(above.tolist(), shared, strict=True):
            state.reasons[other] = state.touched[section]
        return self._settle(state, reach)

    def _put(self, state: _State, buffer: int, top: int, decision: int) -> None:
        begin, end = self.sections.spans[buffer]
        state.floors[begin:end] = top
        state.bytes_left[begin:end] -= self.sections.sizes[buffer]
        state.heads[buffer] = _FAR
        state.left -= 1
        for section in range(begin, end):
            state.touched[section] |= decision

    def _settle(self, state: _State, reach: tuple[int, int]) -> _State | int:
        """Raise the floors of the sections in *reach* to what their buffers allow."""
        rows = slice(*reach)
        heads = state.heads[self.sections.members[rows]]
        lowest = heads.min(axis=1)
        left, floors = state.bytes_left[rows], state.floors[rows]
        is_active = left > 0
        is_over = is_active & (lowest + left > self.capacity)
        if is_over.any():
            section = reach[0] + int(is_over.argmax())
            self.failures[section] += 1
            return self._why_here(state, section)
        rising = np.flatnonzero(is_active & (lowest > floors))
        for row in rising.tolist():
            state.touched[reach[0] + row] = self._why_here(state, reach[0] + row)
        floors[rising] = lowest[rising]
        state.fits[rows] = (heads == floors[:, None]).sum(axis=1)
        return state

    def _waiting(self, state: _State, section: int) -> list[int]:
        members = self.sections.members[section]
        waiting: list[int] = members[state.heads[members] < _FAR].tolist()
        return waiting

    def _why_here(self, state: _State, section: int) -> int:
        """Return the decisions that keep all buffers of *section* at or above their heads."""
        waiting = self._waiting(state, section)
        return reduce(or_, map(state.reasons.__getitem__, waiting), state.touched[section])

    def _why_no_more(self, state: _State, section: int) -> int:
        """Return the decisions that leave *section* no moves but those that were listed."""
        blamed = state.touched[section]
        for buffer in self._waiting(state, section):
            if state.heads[buffer] > state.floors[section]:
                blamed |= state.reasons[buffer]
                continue
            begin, end = self.sections.spans[buffer]
            blamed = reduce(or_, state.touched[begin:end], blamed)
            near = self.sections.together[buffer]
            waiting = near[state.heads[near] < _FAR].tolist()
            blamed = reduce(or_, map(state.reasons.__getitem__, waiting), blamed)
        return blamed

    def _offsets(self, stack: list[_Node]) -> Integers:
        offsets = np.zeros(self.sections.count, np.int64)
        for node in stack:
            assert node.move is not None
            if node.move.buffer is not None:
                offsets[node.move.buffer] = node.move.height
        return offsets


def _valleys(state: _State) -> Integers:
    """Return the sections of flat runs of the skyline whose neighbours are higher."""
    walls = np.full(len(state.floors) + 2, _FAR)
    walls[1:-1] = np.where(state.bytes_left > 0, state.floors, _FAR)
    begins = np.flatnonzero(walls[1:] != walls[:-1])
    levels = walls[begins]
    is_low = levels[1:] < np.minimum(levels[:-1], walls[begins + 1][1:])
    in_valley = np.repeat(is_low, begins[1:] - begins[:-1])
    valleys: Integers = np.arange(begins[0], begins[-1])[in_valley]
    return valleys


def _alternatives(search: Search, state: _State, valleys: Integers) -> Integers:
    """Return about how many moves each of the sections in *valleys* has."""
    can_rise = search.slack(state)[valleys] >= search.sections.smallest
    return np.asarray(state.fits[valleys] + can_rise, np.int64)


def lowest(search: Search, state: _State, valleys: Integers) -> int:
    """A section with one move only if there is one, else the lowest one; of those, fewest moves."""
    moves = _alternatives(search, state, valleys)
    if (moves <= 1).any():
        valleys, moves = valleys[moves <= 1], moves[moves <= 1]
    floors = state.floors[valleys]
    is_lowest = floors == floors.min()
    return int(valleys[is_lowest][moves[is_lowest].argmin()])


def most_troubled(search: Search, state: _State, valleys: Integers) -> int:
    """The section with the fewest moves for each failure so far; of equal ones the lowest."""
    score = _alternatives(search, state, valleys) / (1 + search.failures[valleys])
    best = valleys[score == score.min()]
    return int(best[state.floors[best].argmin()])
