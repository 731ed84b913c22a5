"""Whole-program rules of the low-level IR (paper 3.5).

Every buffer is declared, allocated or viewed before it is used and never after its ``dealloc``;
an activation is written before it is read; weights are never written, nor are inputs that are no
outputs; an ``@out`` operand shares memory with another operand only where the instruction says that
it may. What reads a state comes before what writes it, and a state is written whole, each element
once, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from glow_nb.base.counted import problem_of
from glow_nb.base.errors import VerifyError
from glow_nb.base.schema import per_item, qualified_operands_of
from glow_nb.base.size import surely
from glow_nb.llir.in_place import covers_root, is_same_region, may_lie_on
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Bound,
    Buffer,
    Dealloc,
    Instruction,
    Program,
    Register,
    StateBuffer,
    TensorView,
    View,
    Weight,
    mutated,
    read,
)
from glow_nb.llir.scalar import TABLE_SIZE, tables_of
from glow_nb.llir.stack import StackInst, members_of
from glow_nb.llir.strides import divided, interval, reach


def verify(program: Program) -> None:
    """Check *program*; raise VerifyError naming the first instruction that breaks a rule."""
    _Verifier(program).run()


class _Verifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.usable: set[Buffer] = set()
        self.live: set[Buffer] = set()
        self.written: set[Buffer] = {*program.weights, *program.state, *program.inputs}
        self.updates: dict[Buffer, list[tuple[Instruction, Buffer]]] = {}
        self.only_read = set(program.inputs) - set(program.outputs)
        self.names: dict[str, Buffer] = {}

    def run(self) -> None:
        for buffer in self.program.declared:
            self._claim(buffer, self.program)
        for instruction in self.program.instructions:
            self._step(instruction)
        problem = problem_of({b.name: (b.type, b.counted) for b in self.program.outputs})
        if problem:
            raise VerifyError(self.program, problem)
        for state, updates in self.updates.items():
            self._check_written_once(state, [buffer for _, buffer in updates])
        for output in self.program.outputs:
            if output not in self.written:
                raise VerifyError(self.program, f"output {output!r} is never written")
        if self.live:
            left = ", ".join(sorted(repr(b) for b in self.live))
            raise VerifyError(self.program, f"activations are never deallocated: {left}")

    def _claim(self, buffer: Buffer, subject: object) -> None:
        if buffer.name in self.names:
            raise VerifyError(subject, f"the name of {buffer!r} is not unique in the program")
        self.names[buffer.name] = buffer
        self.usable.add(buffer)

    def _step(self, instruction: Instruction) -> None:
        match instruction:
            case Alloc(dest=Activation() as buffer):
                self._claim(buffer, instruction)
                self.live.add(buffer)
            case Dealloc(dest=buffer):
                if buffer not in self.live:
                    raise VerifyError(instruction, f"{buffer!r} is not live")
                self.live.remove(buffer)
            case TensorView(dest=View() as view):
                self._check_usable(instruction, view.base)
                self._claim(view, instruction)
            case _:
                self._step_work(instruction)

    def _step_work(self, instruction: Instruction) -> None:
        for register in _registers_of(instruction):
            self._claim(register, instruction)
        for buffer in (*read(instruction), *mutated(instruction)):
            self._check_usable(instruction, buffer)
        for buffer in read(instruction):
            if buffer.root not in self.written and not surely(buffer.type.size, "==", 0):
                raise VerifyError(instruction, f"{buffer!r} is read before it is written")
        for buffer in mutated(instruction):
            if isinstance(buffer.root, Weight) or buffer.root in self.only_read:
                what = "a weight" if isinstance(buffer.root, Weight) else "an input"
                raise VerifyError(instruction, f"{buffer!r} is {what} and must not be written")
            self.written.add(buffer.root)
        self._check_sharing(instruction)
        for member in members_of(instruction):
            self._step_state(member)
            for table in tables_of(member):
                if table.type.size != TABLE_SIZE:
                    raise VerifyError(
                        member, f"table {table!r} is {table.type}, but needs {TABLE_SIZE} elements"
                    )

    def _step_state(self, instruction: Instruction) -> None:
        """Check that *instruction* reads the old value of each state, and note what it writes."""
        for buffer in read(instruction):
            for update, place in self.updates.get(buffer.root, ()):
                if may_overlap(buffer, place):
                    raise VerifyError(
                        instruction,
                        f"{buffer!r} is read for the old value of state {buffer.root!r} behind "
                        f"{update!r}, which writes the next one",
                    )
        for buffer in mutated(instruction):
            if isinstance(buffer.root, StateBuffer):
                self.updates.setdefault(buffer.root, []).append((instruction, buffer))

    def _check_written_once(self, state: Buffer, places: Sequence[Buffer]) -> None:
        """Raise VerifyError unless *places*, which are written, are *state* without overlaps."""
        if len(places) == 1 and covers_root(places[0]):
            return
        counts = np.zeros(state.type.size, np.uint8)
        for place in filter(lambda place: place.type.size, places):
            as_strided(counts[place.offset :], place.type.shape, place.strides)[...] += 1
        missed, again = int((counts == 0).sum()), int((counts > 1).sum())
        if missed or again:
            raise VerifyError(
                self.program,
                f"of the {counts.size} elements of state {state!r}, {missed} keep their old value "
                f"and {again} are written twice, while others are written once",
            )

    def _check_usable(self, instruction: Instruction, buffer: Buffer) -> None:
        root = buffer.root
        if buffer not in self.usable or root not in self.usable:
            raise VerifyError(
                instruction, f"{buffer!r} is used before it is defined{self._hint_for(buffer)}"
            )
        if isinstance(root, Activation) and root not in self.live:
            raise VerifyError(instruction, f"{buffer!r} is used after its dealloc")
        if not isinstance(root, Activation | Bound | StateBuffer | Weight):
            raise VerifyError(instruction, f"{buffer!r} lies in no region of the program")

    def _hint_for(self, buffer: Buffer) -> str:
        """Return what to do if nothing defines *buffer*, as a pass may have forgotten to."""
        markers = (i for i in self.program.instructions if isinstance(i, Alloc | TensorView))
        defined = {marker.dest for marker in markers}
        missing = {b for b in (buffer, buffer.root) if isinstance(b, Activation | View)} - defined
        if not missing:
            return ""
        return (
            "; there is no alloc or tensor_view of it: in a pass, "
            "program.with_instructions(mark_lifetimes(work)) adds them"
        )

    def _check_sharing(self, instruction: Instruction) -> None:
        """What is written may share memory with another operand only exactly and in place."""
        operands = [buffer for _, buffer in qualified_operands_of(instruction)]
        for index, (qualifier, result) in enumerate(qualified_operands_of(instruction)):
            if qualifier == "in":
                continue
            for other_index, other in enumerate(operands):
                if other_index == index or not may_overlap(result, other):
                    continue
                if not (may_lie_on(instruction, result, other) and is_same_region(result, other)):
                    raise VerifyError(
                        instruction,
                        f"{result!r} shares memory with {other!r}, which it must not do in place",
                    )


def _registers_of(instruction: Instruction) -> list[Buffer]:
    """Return the registers that a stack defines; outside of one there must be none."""
    if isinstance(instruction, StackInst):
        return [b for i in instruction.body for b in mutated(i) if isinstance(b, Register)]
    return []


def may_overlap(left: Buffer, right: Buffer) -> bool:
    """True unless the two lie in different regions or in disjoint element intervals of one."""
    if left.root is not right.root or any(surely(b.type.size, "==", 0) for b in (left, right)):
        return False
    left_first, left_last = element_interval(left)
    right_first, right_last = element_interval(right)
    if surely(left_last, "<", right_first) or surely(right_last, "<", left_first):
        return False
    if left.is_contiguous and right.is_contiguous:
        return True  # each has all elements of its interval
    periods = _own_parts(left).keys() | _own_parts(right).keys()
    return not any(_alternate(left, right, period) for period in periods)


def _alternate(left: Buffer, right: Buffer, period: int) -> bool:
    """Return whether the views touch different parts of every *period* elements, as concat's do."""
    one = part_of_period(left, period)
    other = part_of_period(right, period) if one else None
    return bool(one and other and (surely(one[1], "<", other[0]) or surely(other[1], "<", one[0])))


def part_of_period(buffer: Buffer, period: int) -> tuple[int, int] | None:
    """Return the first and last place within each *period* that a view may touch.

    None if it does not repeat with that period.
    """
    own = _own_parts(buffer)
    return own[period] if period in own else _part_of_period(buffer, period)


@per_item
def _own_parts(buffer: Buffer) -> dict[int, tuple[int, int] | None]:
    """Return the part of each period that is a stride of *buffer*, and has room for others."""
    periods = {s if surely(s, ">=", 0) else -s for s in buffer.strides} - {0, 1}
    return {period: _part_of_period(buffer, period) for period in periods}


def _part_of_period(buffer: Buffer, period: int) -> tuple[int, int] | None:
    if not period:
        return None
    inner = [
        reach(n, s)
        for n, s in zip(buffer.type.shape, buffer.strides, strict=True)
        if n != 1 and divided(s, period)[1] != 0
    ]
    _, first = divided(buffer.offset + sum(below for below, _ in inner), period)
    last = first + sum(above - below for below, above in inner)
    return (first, last) if surely(last, "<", period) else None


@per_item
def element_interval(buffer: Buffer) -> tuple[int, int]:
    """Return the first and the last element of its root that *buffer* may touch."""
    return interval(buffer.offset, buffer.type.shape, buffer.strides)
