"""Operator stacking: runs of data-parallel instructions become one kernel (paper 5.2)."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.passes import register_pass
from glow_nb.llir.program import (
    Activation,
    Buffer,
    Instruction,
    Program,
    Register,
    mutated,
    read,
)
from glow_nb.llir.stack import StackInst
from glow_nb.llir.verify import may_overlap
from glow_nb.schema import map_operands

MAX_POINTERS = 12
"""Regions that one stack may touch: each needs a register for its address."""
MAX_BODY = 24
"""Instructions in one stack: it bounds the registers and the compile time of a kernel."""


@register_pass
def stack_instructions(program: Program) -> Program:
    """Let a data-parallel instruction run in the kernel that makes one of its operands.

    The instruction joins the latest of the kernels that produce its operands, if the shapes are the
    same and moving that kernel down to the instruction changes nothing; kernels of other operands
    that are data parallel themselves follow. A value that only the stack reads becomes a register.

    ::

        %sum = alloc float32<1 x 56 x 56 x 64>
        packed_convolution @out %conv, @in %x, ...         stack {
        add @out %sum, @in %conv, @in %y                     %conv = register ...
        relu @out %z, @in %sum                        ->     packed_convolution @out %conv, ...
                                                             %sum = register ...
                                                             add @out %sum, @in %conv, @in %y
                                                             relu @out %z, @in %sum
                                                           }
    """
    stacker = _Stacker(program.work)
    stacker.run()
    if all(len(group.members) == 1 for group in stacker.groups):
        return program
    return program.with_instructions(mark_lifetimes(stacker.stacked()))


@dataclass
class _Group:
    """Instructions that will be one kernel, by their numbers; runs where the last one stood."""

    members: list[int]
    reads: set[Buffer]
    writes: set[Buffer]

    @property
    def position(self) -> int:
        """Number of the instruction in whose place the kernel runs."""
        return max(self.members)


class _Stacker:
    """Grows groups, instruction by instruction, in program order."""

    def __init__(self, work: tuple[Instruction, ...]) -> None:
        self._work = work
        self._readers: dict[Buffer, list[int]] = {}
        self._writers: dict[Buffer, list[int]] = {}
        for number, instruction in enumerate(work):
            for buffer in read(instruction):
                self._readers.setdefault(buffer.root, []).append(number)
            for buffer in mutated(instruction):
                self._writers.setdefault(buffer.root, []).append(number)
        self._group_of: dict[int, _Group] = {}

    @property
    def groups(self) -> list[_Group]:
        """All groups in the order in which they run."""
        unique = {id(group): group for group in self._group_of.values()}
        return sorted(unique.values(), key=lambda group: group.position)

    def run(self) -> None:
        """Put every instruction into a group."""
        for number, instruction in enumerate(self._work):
            group = _Group(
                [number],
                {b.root for b in read(instruction)},
                {b.root for b in mutated(instruction)},
            )
            self._group_of[number] = group
            if is_stackable(instruction):
                self._join_producers(number, instruction)

    def _join_producers(self, number: int, instruction: Instruction) -> None:
        producers: dict[int, _Group] = {}
        for buffer in read(instruction):
            made_by = self._writers.get(buffer, [])
            if isinstance(buffer, Activation) and len(made_by) == 1 and made_by[0] < number:
                group = self._group_of[made_by[0]]
                producers[id(group)] = group
        for group in sorted(producers.values(), key=lambda g: g.position, reverse=True):
            self._try_to_merge(group, self._group_of[number], instruction)

    def _try_to_merge(self, group: _Group, into: _Group, instruction: Instruction) -> None:
        """Let *group* run in *into*, whose last member is *instruction*, if that is right."""
        shape = mutated(instruction)[0].type.shape
        members = sorted({*group.members, *into.members})
        carriers = [m for m in members if not is_stackable(self._work[m])]
        if len(members) > MAX_BODY or len(carriers) > 1:
            return
        if any(mutated(self._work[m])[0].type.shape != shape for m in members):
            return
        if carriers:  # it becomes the head, wherever it stood
            members = [carriers[0], *(m for m in members if m != carriers[0])]
        merged = _Group(members, group.reads | into.reads, group.writes | into.writes)
        may_merge = self._reads_what_it_makes(merged) and self._may_lead(merged)
        if may_merge and self._may_move(group, into) and self._fits(merged):
            self._group_of.update(dict.fromkeys(members, merged))

    def _reads_what_it_makes(self, group: _Group) -> bool:
        """True if members read what others make as they make it, not by a window upon it.

        A window may show other elements at the same index, some that are not made yet.
        """
        members = [self._work[member] for member in group.members]
        made = [buffer for member in members for buffer in mutated(member)]
        taken = (buffer for member in members for buffer in read(member))
        return not any(b is not m and may_overlap(b, m) for b in taken for m in made)

    def _may_lead(self, group: _Group) -> bool:
        """True if the head can carry a stack and needs nothing of what the others compute."""
        head, *others = (self._work[member] for member in group.members)
        if is_stackable(head):
            return True
        if not head.carries_stack or head.predicate is not None:
            return False
        computed = {buffer.root for other in others for buffer in mutated(other)}
        return not any(buffer.root in computed for buffer in read(head))

    def _may_move(self, group: _Group, into: _Group) -> bool:
        """True if nothing between the two writes what *group* reads, or touches what it writes."""
        inside = {*group.members, *into.members}
        between = range(min(group.members) + 1, into.position)
        written = (n for b in group.reads | group.writes for n in self._writers.get(b, ()))
        read_by = (n for b in group.writes for n in self._readers.get(b, ()))
        return not any(n in between and n not in inside for n in (*written, *read_by))

    def _fits(self, group: _Group) -> bool:
        """True if the head's kernel can reach every operand, and not too many."""
        head = self._work[group.members[0]]
        pointers = (group.reads | group.writes) - self._registers(group)
        if len(pointers) > MAX_POINTERS:
            return False
        if not head.carries_stack:
            return True
        (result,) = mutated(head)
        others = [self._work[m] for m in group.members[1:]]
        stored = [b for i in (head, *others) for b in mutated(i) if b not in self._registers(group)]
        return len(stored) <= 1 and all(
            is_reachable(buffer, result) for i in others for buffer in (*read(i), *mutated(i))
        )

    def _registers(self, group: _Group) -> set[Buffer]:
        """Return the activations that only *group* touches, whole."""
        members = set(group.members)
        return {
            buffer
            for buffer in group.writes
            if isinstance(buffer, Activation)
            and members.issuperset(self._readers.get(buffer, ()))
            and members.issuperset(self._writers.get(buffer, ()))
            and self._is_whole(buffer, members)
        }

    def _is_whole(self, buffer: Buffer, members: set[int]) -> bool:
        touched = (b for m in members for b in (*read(self._work[m]), *mutated(self._work[m])))
        return all(b is buffer for b in touched if b.root is buffer)

    def stacked(self) -> list[Instruction]:
        """Return the instructions, groups of several as stacks."""
        done: list[Instruction] = []
        for group in self.groups:
            body = [self._work[member] for member in group.members]
            if len(body) > 1:
                registers: dict[Buffer, Buffer] = {
                    buffer: Register(buffer.name, buffer.type) for buffer in self._registers(group)
                }
                mapped = [_with_registers(instruction, registers) for instruction in body]
                body = [StackInst.of(mapped)]
            done += body
        return done


def is_stackable(instruction: Instruction) -> bool:
    """True if *instruction* may stand in a stack: data parallel, unconditional, one result."""
    return (
        bool(instruction.scalar)
        and instruction.predicate is None
        and len(mutated(instruction)) == 1
    )


def is_reachable(buffer: Buffer, result: Buffer) -> bool:
    """True if a kernel that makes *result* tile by tile finds the elements of *buffer* at once.

    It may have the shape of the result, vary along the last axis only, or be a single number.
    """
    if not buffer.is_contiguous:
        return False
    shape = buffer.type.shape
    return (
        shape == result.type.shape
        or buffer.type.size == 1
        or (all(n == 1 for n in shape[:-1]) and shape[-1] == result.type.shape[-1])
    )


def _with_registers(instruction: Instruction, registers: dict[Buffer, Buffer]) -> Instruction:
    return map_operands(instruction, lambda buffer: registers.get(buffer, buffer))
