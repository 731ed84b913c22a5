"""Let values be made where a copy would put them: concat without moving memory."""

from __future__ import annotations

from collections.abc import Sequence

from glow_nb.llir.in_place import covers_root
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import (
    Activation,
    Bound,
    Buffer,
    Instruction,
    Program,
    View,
    mutated,
    read,
)
from glow_nb.llir.stack import members_of, without
from glow_nb.llir.traits import NO_TRAITS, Traits
from glow_nb.llir.verify import may_overlap
from glow_nb.llir.windows import can_be_strided, rebased
from glow_nb.llir.work import Work


def eliminate_copies(program: Program, *, traits: Traits = NO_TRAITS) -> Program:
    """Write a value straight into the window that a copy would put it in, if all can reach it.

    ::

        %a = alloc float32<1 x 8 x 8 x 16>
        relu @out %a, @in %x                                 relu @out %window, @in %x
        %window = tensor_view %both {...}             ->
        copy @out %window, @in %a
        reduce_sum @out %s, @in %both                        reduce_sum @out %s, @in %both

    Nothing else may write to the window, the value must be an activation that is complete before
    the copy, and the kernel of every instruction that touches the value must take strided operands
    there, as its *traits* say. Copies
    are looked at last to first, so that a concat of concats becomes one. What is copied may be a
    whole activation in another shape, and the copy a member of a stack that makes it. A value that
    is two outputs is made in one of them and copied to the other.
    """
    work = Work(program.work)
    for number in reversed(work.numbers):
        for index in reversed(range(len(members_of(work[number])))):
            copy = members_of(work[number])[index] if number in work else None
            if isinstance(copy, CopyInst) and copy.predicate is None:
                _make_in_place(work, number, copy, traits)
    return work.result(program)


def _make_in_place(work: Work, number: int, copy: CopyInst, traits: Traits) -> None:
    """Make what *copy* reads where it puts it, and take out *copy*, unless that is wrong."""
    src, dest = copy.src.root, _place_of_root(copy)
    if not isinstance(src, Activation) or dest is None or dest.root is src:
        return
    if not isinstance(dest.root, Activation | Bound):
        return
    rest = without(work[number], copy)
    if rest is not None and _is_written_after(copy, members_of(work[number])):
        return
    movers = [(n, i) for n, i in work.touching(src) if n != number]
    movers += [] if rest is None else [(number, rest)]
    if not all(_is_movable(n, i, number, src, dest, traits) for n, i in movers):
        return
    if not _window_is_free(work, number, dest, {n for n, _ in movers}):
        return
    places: dict[Buffer, Buffer] = {}

    def place(buffer: Buffer) -> Buffer:
        if buffer not in places:
            moved = rebased(buffer, src, dest)
            assert moved is not None, buffer
            places[buffer] = moved
        return places[buffer]

    if rest is None:
        work.remove(number)
    else:
        work.replace(number, rest)
    work.move(src, place)


def _place_of_root(copy: CopyInst) -> Buffer | None:
    """Return where the region that *copy* reads will lie; None if it reads a part, or repeats it.

    Read in another shape, the region lies as in its own, if the place has no gaps.
    """
    src, dest = copy.src, copy.dest
    if src.type != dest.type:
        return None
    if src.root is src:
        return dest
    if not covers_root(src) or not dest.is_contiguous:
        return None
    return View(src.root.name, src.root.type, dest)


def _is_written_after(copy: CopyInst, members: Sequence[Instruction]) -> bool:
    """True if one of *members* behind *copy* writes the region that it reads."""
    later = members[members.index(copy) :]
    return any(b.root is copy.src.root for member in later for b in mutated(member))


def _is_movable(
    place: int, instruction: Instruction, copy: int, src: Buffer, dest: Buffer, traits: Traits
) -> bool:
    """True if *instruction* works with *src* where *dest* is, and does not write it too late."""
    if place > copy and any(b.root is src for b in mutated(instruction)):
        return False
    operands = (*read(instruction), *mutated(instruction))
    places = [dest]
    for buffer in (b for b in operands if b.root is src):
        moved = rebased(buffer, src, dest)
        if moved is None or not can_be_strided(instruction, buffer, moved, traits):
            return False
        places.append(moved)
    beside = [b for b in operands if b.root is dest.root]
    return not any(may_overlap(b, p) for b in beside for p in places)


def _window_is_free(work: Work, copy: int, dest: Buffer, movers: set[int]) -> bool:
    """True if nothing else writes the window, and nothing reads it before the copy."""
    for number, instruction in work.overlapping(dest):
        if number == copy or number in movers:
            continue
        if any(b.root is dest.root and may_overlap(b, dest) for b in mutated(instruction)):
            return False
        if number < copy and any(
            b.root is dest.root and may_overlap(b, dest) for b in read(instruction)
        ):
            return False
    return True
