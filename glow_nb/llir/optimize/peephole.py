"""Simplify single instructions, and pairs in one stack."""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.base.schema import attributes_of, map_operands
from glow_nb.llir.instructions.pooling import MaxPoolInst, MaxPoolWithArgmaxInst
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import (
    Activation,
    Buffer,
    Instruction,
    Program,
    Register,
    View,
    mutated,
    read,
)
from glow_nb.llir.stack import StackInst, members_of
from glow_nb.llir.traits import NO_TRAITS, Traits
from glow_nb.llir.verify import may_overlap
from glow_nb.llir.windows import can_be_strided
from glow_nb.llir.work import Work

Pattern = Callable[[Instruction, Work, Traits], Instruction]


def peephole(program: Program, *, traits: Traits = NO_TRAITS) -> Program:
    """Replace each instruction by what :data:`PATTERNS` make of it, and views of views by one.

    ::

        stack {
          %r = register float32<1 x 7 x 7 x 64>
          max_pool @out %r, @in %x {...}               ->  max_pool @out %window, @in %x {...}
          copy @out %window, @in %r
        }
    """
    work = Work(program.work)
    views: dict[Buffer, Buffer] = {}
    for number in work.numbers:
        before = work[number]
        after = map_operands(before, lambda b: views.setdefault(b, _as_one_view(b)))
        for pattern in PATTERNS:
            after = pattern(after, work, traits)
        if after is not before:
            work.replace(number, after)
    return work.result(program)


def leave_out_indices(instruction: Instruction, work: Work, _: Traits) -> Instruction:
    """``max_pool_with_argmax`` whose indices nothing reads -> ``max_pool``."""
    if not isinstance(instruction, MaxPoolWithArgmaxInst):
        return instruction
    unused = instruction.indices.root
    if not isinstance(unused, Activation) or len(work.touching(unused)) > 1:
        return instruction
    attributes = attributes_of(instruction)
    del attributes["column_major"]
    return MaxPoolInst(
        instruction.values,
        instruction.input,
        **attributes,
        predicate=instruction.predicate,
        name=instruction.name,
        origins=instruction.origins,
    )


def write_where_copied(instruction: Instruction, _: Work, traits: Traits) -> Instruction:
    """``stack {f @out %r; copy @out %a, @in %r}`` -> ``f @out %a``, if only the copy reads ``%r``.

    The stack must not read what was in ``%a`` before. The head of what is still a stack keeps its
    register: its kernel stores by tiles what only an epilogue may put into windows.
    """
    for copy in members_of(instruction):
        if isinstance(copy, CopyInst) and isinstance(copy.src, Register):
            found = _written_there(instruction, copy, traits)
            if found is not None:
                return found
    return instruction


def _written_there(stack: Instruction, copy: CopyInst, traits: Traits) -> Instruction | None:
    """Return *stack* with *copy*'s register made where it is copied to; None if it must not be."""
    register, dest = copy.src, copy.dest
    members = members_of(stack)
    (maker,) = (member for member in members if register in mutated(member))
    others = [member for member in members if member is not copy and member is not maker]
    if register.type != dest.type or (isinstance(dest, Register) and not others):
        return None  # registers exist in stacks only
    if any(register in read(member) for member in others):
        return None
    if any(may_overlap(b, dest) for member in (maker, *others) for b in read(member)):
        return None
    if not maker.scalar and (others or not can_be_strided(maker, register, dest, traits)):
        return None
    body = [
        map_operands(member, lambda buffer: dest if buffer is register else buffer)
        for member in members
        if member is not copy
    ]
    return StackInst.of(body) if others else body[0]


def _as_one_view(buffer: Buffer) -> Buffer:
    """Return *buffer*, or one view of the root for a view of a view, as of a slice of a slice."""
    if not isinstance(buffer, View) or not isinstance(buffer.base, View):
        return buffer
    return View(buffer.name, buffer.type, buffer.root, buffer.offset, buffer.strides)


PATTERNS: tuple[Pattern, ...] = (
    leave_out_indices,  # exporters ask for the indices of a pool and do not use them
    write_where_copied,  # a concat's copy rides on a pool, which may as well store there itself
)
"""What is simplified, each with the reason why it occurs."""
