"""Which instructions must come before which: those that touch the same elements, one writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glow_nb.llir.program import Buffer, Instruction, mutated, read
from glow_nb.llir.verify import may_overlap


@dataclass(frozen=True)
class _Touch:
    """One operand of an instruction that came by."""

    number: int
    buffer: Buffer
    writes: bool


def dependences(work: Sequence[Instruction]) -> list[list[int]]:
    """Return the instructions of *work* that must come right before each of them, by their numbers.

    An instruction comes after the writers of what it reads, and after the readers and writers of
    what it writes. Views of one region that have no element in common do not count. What must come
    before one of these anyway is left out.
    """
    touched: dict[Buffer, list[_Touch]] = {}
    earlier: list[int] = []  # a bit for each instruction that must come before, at any distance
    before: list[list[int]] = []
    for number, instruction in enumerate(work):
        touches = [_Touch(number, buffer, False) for buffer in read(instruction)]
        touches += [_Touch(number, buffer, True) for buffer in mutated(instruction)]
        known, found = 0, set()
        pairs = [(old, new) for new in touches for old in touched.get(new.buffer.root, ())]
        for old, new in sorted(pairs, key=lambda pair: pair[0].number, reverse=True):
            if known >> old.number & 1 or not (old.writes or new.writes):
                continue
            if may_overlap(old.buffer, new.buffer):
                found.add(old.number)
                known |= earlier[old.number] | 1 << old.number
        earlier.append(known)
        before.append(sorted(found))
        for touch in touches:
            touched.setdefault(touch.buffer.root, []).append(touch)
    return before
