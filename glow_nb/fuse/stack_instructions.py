"""Operator stacking: runs of data-parallel instructions become one kernel (paper 5.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.size import hinted
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.program import (
    Activation,
    Buffer,
    Instruction,
    Program,
    Register,
    mutated,
    read,
)
from glow_nb.llir.scalar import tables_of
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import NO_TRAITS, Traits, traits_of
from glow_nb.llir.verify import may_overlap

MAX_POINTERS = 14
"""Regions that one stack may touch: each needs a register for its address. [A sum of 20 tensors in
the second-level cache takes 566, 592 and 609 us with limits of 8, 12 and 16, and 807 with 24. A
convolution of paired bytes and a residual sum, each operand with a scale and an offset, touch 13.]
"""
MAX_BODY = 24
"""Instructions in one stack: it bounds the registers and the compile time of a kernel."""


SMALL_INPUT = 16 * 1024
"""Elements that one thread goes through in less time than it takes to start another kernel."""
MIN_PLACES = 16
"""Results of a head with a prologue: with fewer, its threads have less to share out than those of a
loop over its input would."""


def stack_instructions(program: Program, *, traits: Traits = NO_TRAITS) -> Program:
    """Let a data-parallel instruction run in the kernel of its producer or of its consumer.

    It is fused into the kernel that computes one of its operands, the latest first, if the shapes
    are the same and that kernel may run later. Data-parallel kernels that compute its other
    operands are fused, too. A kernel that reads an operand element by element, such as a reduction,
    is fused with the data-parallel kernel that computes it. An instruction that widens elements,
    such as a conversion of bytes to floats, is fused into its reader if that reads a later value,
    too: the narrow elements are in memory until then. A value that only the stack reads becomes a
    register. *traits* say which kernels can be a head.

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
    stacker = _Stacker(program.work, traits)
    stacker.run()
    if all(len(group.members) == 1 for group in stacker.groups):
        return program
    return program.with_instructions(mark_lifetimes(stacker.stacked()))


@dataclass(frozen=True)
class _Group:
    """Instructions that will be one kernel, by their numbers; runs where the last one stood.

    Attributes:
        prologue: The instructions that compute the operand that the head reads element by element.
        head: The one instruction that is not data parallel, if there is one.
        epilogue: The instructions that read the head's result, or all instructions if there is no
            head.
        reads: Regions that are read.
        writes: Regions that are written.
    """

    prologue: tuple[int, ...]
    head: int | None
    epilogue: tuple[int, ...]
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]

    @property
    def members(self) -> tuple[int, ...]:
        """All of them, in the order of the stack's body."""
        head = () if self.head is None else (self.head,)
        return (*self.prologue, *head, *self.epilogue)

    @property
    def position(self) -> int:
        """Number of the instruction in whose place the kernel runs."""
        return max(self.members)


class _Stacker:
    """Grows groups, instruction by instruction, in program order."""

    def __init__(self, work: tuple[Instruction, ...], traits: Traits) -> None:
        self._work, self._traits = work, traits
        self._readers: dict[Buffer, list[int]] = {}
        self._writers: dict[Buffer, list[int]] = {}
        for number, instruction in enumerate(work):
            for buffer in read(instruction):
                self._readers.setdefault(buffer.root, []).append(number)
            for buffer in mutated(instruction):
                self._writers.setdefault(buffer.root, []).append(number)
        self._group_of: dict[int, _Group] = {}
        self._waiting: dict[int, list[int]] = {}  # by the instruction that they wait for

    @property
    def groups(self) -> list[_Group]:
        """All groups in the order in which they run."""
        unique = {id(group): group for group in self._group_of.values()}
        return sorted(unique.values(), key=lambda group: group.position)

    def run(self) -> None:
        """Put every instruction into a group."""
        for number, instruction in enumerate(self._work):
            reads = frozenset(b.root for b in read(instruction))
            writes = frozenset(b.root for b in mutated(instruction))
            if is_stackable(instruction):
                self._group_of[number] = _Group((), None, (number,), reads, writes)
                reader = self._reader_to_wait_for(number)
                if reader is not None:
                    self._waiting.setdefault(reader, []).append(number)
                    continue
                for member in (number, *self._waiting.get(number, ())):
                    for group in self._groups_behind(member, read(self._work[member])):
                        self._try_to_merge(group, self._group_of[member])
                continue
            alone = self._group_of[number] = _Group((), number, (), reads, writes)
            operand = traits_of(instruction, self._traits).prologue_operand
            if operand:
                read_by_element: Buffer = getattr(instruction, operand)
                for group in self._groups_behind(number, [read_by_element]):
                    self._try_as_prologue(group, alone, read_by_element)

    def _reader_to_wait_for(self, number: int) -> int | None:
        """Return the one instruction in whose kernel *number* should run, if there is one.

        That is what reads larger elements which *number* makes of smaller ones, and another tensor
        that is made later: what lies in memory until then is small.
        """
        instruction = self._work[number]
        made = mutated(instruction)[0]
        like = [b for b in read(instruction) if b.type.shape == made.type.shape]
        if not isinstance(made, Activation) or len(self._readers.get(made, ())) != 1:
            return None
        if len(like) != 1 or like[0].type.kind.size_bytes >= made.type.kind.size_bytes:
            return None
        (reader,) = self._readers[made]
        others = (b for b in read(self._work[reader]) if b.type.shape == made.type.shape)
        is_later = any(any(_within(self._writers, b.root, number + 1, reader)) for b in others)
        return reader if is_later and is_stackable(self._work[reader]) else None

    def _groups_behind(self, number: int, buffers: Iterable[Buffer]) -> list[_Group]:
        """Return the groups that make *buffers* for instruction *number*, the latest first."""
        producers: dict[int, _Group] = {}
        for buffer in buffers:
            writers = self._writers.get(buffer, [])
            earlier = bisect_left(writers, number)
            if earlier:
                group = self._group_of[writers[earlier - 1]]
                producers[id(group)] = group
        return sorted(producers.values(), key=lambda g: g.position, reverse=True)

    def _try_to_merge(self, group: _Group, into: _Group) -> None:
        """Let *group* run in *into*, which reads what it makes, if that is right."""
        heads = [head for head in (group.head, into.head) if head is not None]
        if len(heads) > 1:
            return
        merged = _Group(
            group.prologue or into.prologue,
            heads[0] if heads else None,
            tuple(sorted({*group.epilogue, *into.epilogue})),
            group.reads | into.reads,
            group.writes | into.writes,
        )
        like = merged.epilogue[-1] if merged.head is None else merged.head
        self._accept(merged, group, into, mutated(self._work[like])[0])

    def _try_as_prologue(self, group: _Group, into: _Group, operand: Buffer) -> None:
        """Let the kernel of the head of *into* compute *operand* with *group*, if that is right."""
        if into.head is None or group.head is not None:
            return
        merged = _Group(
            group.epilogue, into.head, (), group.reads | into.reads, group.writes | into.writes
        )
        result = mutated(self._work[into.head])[0]
        if self._is_worth_fusing(merged, operand, result):
            self._accept(merged, group, into, result)

    def _accept(self, merged: _Group, group: _Group, into: _Group, result: Buffer) -> None:
        """Take *merged* instead of *group* and *into*, if no rule is against it.

        Every rule is a question of correctness, but for the bounds on the size.
        """
        made_last = [mutated(self._work[number])[0] for number in merged.epilogue]
        if (
            all(made.type.shape == result.type.shape for made in made_last)
            and self._touches_each_element_once(merged)
            and self._is_ordered(merged)
            and self._may_move(group, into)
            and self._fits(merged)
        ):
            self._group_of.update(dict.fromkeys(merged.members, merged))

    def _is_worth_fusing(self, group: _Group, operand: Buffer, result: Buffer) -> bool:
        """Return whether the kernel of the head computes its *operand* no slower than a loop would.

        It must have enough places to share out, and find elements side by side.
        """
        sources = [
            b for p in group.prologue for b in (*read(self._work[p]), *mutated(self._work[p]))
        ]
        is_large = hinted(result.type.size) >= MIN_PLACES
        return (is_large or hinted(operand.type.size) <= SMALL_INPUT) and all(
            b.strides[-1:] in ((), (1,)) or b.type.shape[-1] == 1 for b in sources
        )

    def _touches_each_element_once(self, group: _Group) -> bool:
        """Return whether members read what others make as they make it, and no two make the same.

        A window may show other elements at the same index, some that are not made yet. It counts
        even if it shows none: what it is a window on must then stay in memory. A table is read
        whole, so it is not computed here.
        """
        members = [self._work[member] for member in group.members]
        made: dict[Buffer, list[Buffer]] = {}  # by regions: only within one do buffers meet
        for member in members:
            for buffer in mutated(member):
                made.setdefault(buffer.root, []).append(buffer)
        for member in members:
            for buffer in read(member):
                there = made.get(buffer.root, ())
                if any(m is not buffer and _is_beside(buffer, m) for m in there):
                    return False
            if any(table in made.get(table.root, ()) for table in tables_of(member)):
                return False
        return not any(
            _is_beside(*pair) for there in made.values() for pair in combinations(there, 2)
        )

    def _is_ordered(self, group: _Group) -> bool:
        """Return whether each member reads only what is made before it.

        The head reads one operand of what the prologue makes, element by element; neither of them
        reads what the epilogue makes; and the epilogue reads nothing that the prologue makes, nor
        what lay at the place of the head's result before.
        """
        if group.head is None:
            return True
        head = self._work[group.head]
        if head.predicate is not None or len(mutated(head)) > 1:
            return False
        traits = traits_of(head, self._traits)
        if group.epilogue and not traits.fuses_epilogue:
            return False
        if self._overwrites(group.prologue):  # a head may walk over its input several times
            return False
        if not traits.stores_once and self._overwrites(group.members):
            return False
        made = mutated(head)[0].root
        moved_behind = (number for number in group.epilogue if number < group.head)
        if any(b.root is made for number in moved_behind for b in read(self._work[number])):
            return False
        early = self._made_by(group.prologue)
        late = self._made_by(group.epilogue)
        needed = [b.root for b in read(head)]
        if sum(root in early for root in needed) > 1:
            return False
        before = (group.head, *group.prologue)
        if any(b.root in late for member in before for b in read(self._work[member])):
            return False
        return not any(b.root in early for r in group.epilogue for b in read(self._work[r]))

    def _overwrites(self, members: Iterable[int]) -> bool:
        """Return whether one of *members* reads what lay where it or a later one stores."""
        reads: set[Buffer] = set()
        for number in members:
            reads |= {buffer.root for buffer in read(self._work[number])}
            if any(b.root in reads for b in mutated(self._work[number])):
                return True
        return False

    def _made_by(self, members: Iterable[int]) -> set[Buffer]:
        return {buffer.root for member in members for buffer in mutated(self._work[member])}

    def _may_move(self, group: _Group, into: _Group) -> bool:
        """Return whether nothing between the two writes what *group* reads or touches its results.

        Each runs where its last member stood: that its others may, was found when they joined it.
        """
        inside = {*group.members, *into.members}
        begin, end = group.position + 1, into.position
        written = (
            n for b in group.reads | group.writes for n in _within(self._writers, b, begin, end)
        )
        read_by = (n for b in group.writes for n in _within(self._readers, b, begin, end))
        return all(number in inside for number in chain(written, read_by))

    def _fits(self, group: _Group) -> bool:
        """Return whether the kernel can reach every operand, and not too many."""
        pointers = (group.reads | group.writes) - self._registers(group)
        if len(pointers) > MAX_POINTERS or len(group.members) > MAX_BODY:
            return False
        if group.head is None or traits_of(self._work[group.head], self._traits).reaches_all:
            return True
        others = (self._work[member] for member in (*group.prologue, *group.epilogue))
        return all(
            b.is_contiguous and has_reachable_shape(b, i) for i in others for b in operands_of(i)
        )

    def _registers(self, group: _Group) -> set[Buffer]:
        """Return the activations that only *group* touches; it makes them whole."""
        members = set(group.members)
        made = (buffer for member in members for buffer in mutated(self._work[member]))
        return {
            buffer
            for buffer in made
            if isinstance(buffer, Activation)
            and members.issuperset(self._readers.get(buffer, ()))
            and members.issuperset(self._writers.get(buffer, ()))
        }

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


def _within(users: dict[Buffer, list[int]], root: Buffer, begin: int, end: int) -> Iterator[int]:
    """Yield the users of *root* from number *begin* up to *end*, in order."""
    numbers = users.get(root, [])
    for place in range(bisect_left(numbers, begin), len(numbers)):
        if numbers[place] >= end:
            return
        yield numbers[place]


def is_stackable(instruction: Instruction) -> bool:
    """Return whether *instruction* may stand in a stack: data parallel and unconditional."""
    return bool(instruction.scalar) and instruction.predicate is None


def has_reachable_shape(buffer: Buffer, member: Instruction) -> bool:
    """Return whether a kernel that works tile by tile finds what *member* needs of *buffer*.

    It may have the shape of the result, vary along the last axis only, be a single number, or a
    table, which is read whole.
    """
    (result,) = mutated(member)
    shape = buffer.type.shape
    is_small = all(n == 1 for n in shape[:-1])
    return is_small or shape == result.type.shape or buffer in tables_of(member)


def _is_beside(left: Buffer, right: Buffer) -> bool:
    """Return whether two buffers of one region may have elements in common, or one is all of it."""
    return may_overlap(left, right) or left is right.root or right is left.root


def _with_registers(instruction: Instruction, registers: dict[Buffer, Buffer]) -> Instruction:
    return map_operands(instruction, lambda buffer: registers.get(buffer, buffer))
