"""Where the barriers of a program stand: between calls that touch the same bytes.

Threads run the same calls in the same order, each its own share, and wait for each other only at
barriers. Some calls are made by one thread alone, the same for all of them. A call must wait if it
reads what an earlier call wrote (read after write), or writes what an earlier call read or wrote
(write after read, write after write), and no barrier stands between, nor did the same one thread
make both.

Bytes are compared as intervals of a space: the arena, and each bound tensor as a space of its own.
Channels of one tensor that lie side by side, as the parts of a concat do, are apart although their
intervals overlap::

    a  a  b  a  a  b  a  a  b      a: runs of 2 with a pitch of 3; b: runs of 1 beside them

Memory whose place is known only when the program runs is a space of its own. Wherever it lies, it
may lie only where other memory lay that was freed before it began to live: a call that touches it
waits for calls that touched such memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from glow_nb.base.errors import DefinitionError
from glow_nb.base.spans import Spans

AccessMode = Literal["in", "out", "inout"]

FREED = "memory freed at steps"
"""The space of hazards of memory that is placed when the program runs; its places are steps."""


@dataclass(frozen=True)
class Access:
    """Bytes ``[begin, end)`` of *space* that a call reads (in), writes (out) or both (inout).

    With a *pitch* they are only the *run* bytes from ``begin``, ``begin + pitch`` and so on.

    Attributes:
        space: The owner of the bytes.
        begin: The first of them.
        end: The byte after the last.
        mode: ``in``, ``out`` or ``inout``.
        run: Bytes of each piece, 0 if there are no gaps.
        pitch: From the beginning of one piece to that of the next.
        lives: For a space that is placed when the program runs: its first step and the step in
            which it is freed. Two such spaces that are live at the same step do not overlap; others
            may.
    """

    space: Hashable
    begin: int
    end: int
    mode: AccessMode
    run: int = 0
    pitch: int = 0
    lives: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("in", "out", "inout"):
            raise DefinitionError(f"access mode {self.mode!r}: not in, out or inout")
        if not 0 <= self.run <= self.pitch:
            raise DefinitionError(f"access of runs of {self.run} bytes: the pitch is {self.pitch}")

    def overlap(self, other: Access) -> tuple[int, int] | None:
        """Return an interval of which both touch bytes; None if they touch none in common."""
        begin, end = max(self.begin, other.begin), min(self.end, other.end)
        if self.space != other.space or begin >= end or self._is_beside(other):
            return None
        return begin, end

    def _is_beside(self, other: Access) -> bool:
        """Return whether the runs of both have the same pitch and lie next to each other in it."""
        if not self.pitch or self.pitch != other.pitch:
            return False
        shift = (other.begin - self.begin) % self.pitch
        run, other_run = (min(a.run, a.end - a.begin) for a in (self, other))
        return run <= shift and shift + other_run <= self.pitch


@dataclass(frozen=True)
class Hazard:
    """Why a call waits: it *later* reads or writes bytes that call *earlier* read or wrote.

    Or it takes memory that may have been freed, since the *begin* and before the *end* of a span of
    steps, by what the call *earlier* used.
    """

    earlier: int
    earlier_verb: str
    later_verb: str
    space: Hashable
    begin: int
    end: int


@dataclass
class _Intervals:
    """A set of bytes as disjoint sorted intervals, each with the last call that touched it."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    def overlap(self, begin: int, end: int) -> tuple[int, int, int] | None:
        """Return the first interval and its call that shares a byte with ``[begin, end)``."""
        index = bisect_right(self.ends, begin)
        if begin < end and index < len(self.begins) and self.begins[index] < end:
            return self.begins[index], self.ends[index], self.calls[index]
        return None

    def add(self, begin: int, end: int, call: int) -> None:
        """Give ``[begin, end)`` to *call*, also what belonged to earlier ones."""
        if begin >= end:
            return
        first, last = bisect_right(self.ends, begin), bisect_left(self.begins, end)
        pieces = [(begin, end, call)]
        if first < last and self.begins[first] < begin:
            pieces.insert(0, (self.begins[first], begin, self.calls[first]))
        if first < last and end < self.ends[last - 1]:
            pieces.append((end, self.ends[last - 1], self.calls[last - 1]))
        self.begins[first:last] = [piece[0] for piece in pieces]
        self.ends[first:last] = [piece[1] for piece in pieces]
        self.calls[first:last] = [piece[2] for piece in pieces]


class _Runs:
    """Accesses by runs, found by the part of their pitch that they touch."""

    def __init__(self) -> None:
        self._known: list[tuple[Access, int]] = []
        self._by_phase: defaultdict[tuple[Hashable, int], Spans[int]] = defaultdict(Spans)
        self._by_bytes: defaultdict[Hashable, defaultdict[int, Spans[int]]] = defaultdict(
            lambda: defaultdict(Spans)
        )

    def add(self, access: Access, call: int) -> None:
        """Record *access* of the call number *call*."""
        number = len(self._known)
        self._known.append((access, call))
        self._by_bytes[access.space][access.pitch].add(access.begin, access.end, number)
        for begin, end in _phases(access):
            self._by_phase[access.space, access.pitch].add(begin, end, number)

    def overlap(self, access: Access) -> tuple[int, int, int] | None:
        """Return an interval of the latest that touches bytes of *access*, and its call."""
        for number in sorted(self._near(access), reverse=True):
            earlier, call = self._known[number]
            if shared := access.overlap(earlier):
                return *shared, call
        return None

    def _near(self, access: Access) -> set[int]:
        near: set[int] = set()
        for begin, end in _phases(access):
            near.update(self._by_phase[access.space, access.pitch].overlapping(begin, end))
        for pitch, spans in self._by_bytes[access.space].items():
            if pitch != access.pitch:
                near.update(spans.overlapping(access.begin, access.end))
        return near


def _phases(access: Access) -> Iterator[tuple[int, int]]:
    """Yield the one or two intervals of each pitch that the runs of *access* touch."""
    begin = access.begin % access.pitch
    end = begin + access.run
    yield begin, min(end, access.pitch)
    yield 0, end - access.pitch


class _Touched:
    """The bytes that calls have read, or those that they have written, by space."""

    def __init__(self) -> None:
        self._all: defaultdict[Hashable, _Intervals] = defaultdict(_Intervals)
        self._whole: defaultdict[Hashable, _Intervals] = defaultdict(_Intervals)
        self._runs = _Runs()

    def overlap(self, access: Access) -> tuple[int, int, int] | None:
        """Return an interval that *access* touches too, and the call that it is of."""
        sets = self._whole if access.pitch else self._all
        found = sets[access.space].overlap(access.begin, access.end)
        if found:
            begin, end, call = found
            return max(begin, access.begin), min(end, access.end), call
        return self._runs.overlap(access) if access.pitch else None

    def add(self, access: Access, call: int) -> None:
        """Record *access* of the call number *call*."""
        self._all[access.space].add(access.begin, access.end, call)
        if access.pitch:
            self._runs.add(access, call)
        else:
            self._whole[access.space].add(access.begin, access.end, call)


class _Epoch:
    """The memory that the calls since the last barrier have read and written."""

    def __init__(self) -> None:
        self.read, self.written = _Touched(), _Touched()
        self._first_freed: tuple[int, int] | None = None  # in which step, and the call that used it

    def hazard(self, access: Access) -> Hazard | None:
        """Return the conflict of *access* with an earlier call, if there is one."""
        return self._conflict(access) or self._reuse(access)

    def _reuse(self, access: Access) -> Hazard | None:
        if self._first_freed is None or access.lives is None:
            return None
        (freed, call), (begins, _) = self._first_freed, access.lives
        if freed > begins:
            return None
        return Hazard(call, "used", "takes", FREED, freed, begins + 1)

    def _conflict(self, access: Access) -> Hazard | None:
        writes = access.mode != "in"
        verb = "writes" if access.mode == "out" else "reads"
        earlier = [("wrote", verb, self.written)]
        if writes:
            earlier.append(("read", "writes", self.read))
        for earlier_verb, later_verb, touched in earlier:
            if found := touched.overlap(access):
                begin, end, call = found
                return Hazard(call, earlier_verb, later_verb, access.space, begin, end)
        return None

    def add(self, access: Access, call: int) -> None:
        """Record *access* of the call number *call*."""
        if access.mode != "out":
            self.read.add(access, call)
        if access.mode != "in":
            self.written.add(access, call)
        if access.lives is not None:
            last = access.lives[1], call
            self._first_freed = min(self._first_freed or last, last)


def plan_barriers(calls: Sequence[Iterable[Access]], alone: Sequence[bool]) -> list[Hazard | None]:
    """Return for each call the hazard that puts a barrier before it, or None for no barrier.

    Calls that are *alone*, made by the same one thread, do not wait for each other.
    """
    plan: list[Hazard | None] = []
    shared_calls, lone_calls = _Epoch(), _Epoch()
    for number, (accesses, is_alone) in enumerate(zip(calls, alone, strict=True)):
        accesses = tuple(accesses)
        others = (shared_calls,) if is_alone else (shared_calls, lone_calls)
        hazards = (epoch.hazard(access) for access in accesses for epoch in others)
        hazard = next(filter(None, hazards), None)
        if hazard:
            shared_calls, lone_calls = _Epoch(), _Epoch()
        for access in accesses:
            (lone_calls if is_alone else shared_calls).add(access, number)
        plan.append(hazard)
    return plan
