"""Let values be made where a copy would put them: concat without moving memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from glow_nb.base.schema import operands_of
from glow_nb.llir.in_place import is_same_memory
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.overlaps import Overlaps, best_period
from glow_nb.llir.program import (
    Activation,
    Bound,
    Buffer,
    Instruction,
    Program,
    StateBuffer,
    mutated,
    read,
)
from glow_nb.llir.stack import members_of, without
from glow_nb.llir.traits import NO_TRAITS, Traits
from glow_nb.llir.verify import may_overlap
from glow_nb.llir.windows import can_be_strided, laid_around, rebased
from glow_nb.llir.work import Work


def eliminate_copies(program: Program, *, traits: Traits = NO_TRAITS) -> Program:
    """Write a value directly into the window that a copy would write, if all instructions can reach
    it.

    ::

        %a = alloc float32<1 x 8 x 8 x 16>
        relu @out %a, @in %x                                 relu @out %window, @in %x
        %window = tensor_view %both {...}             ->
        copy @out %window, @in %a
        reduce_sum @out %s, @in %both                        reduce_sum @out %s, @in %both

    The value must be an activation that is complete before the copy, and the kernel of every
    instruction that touches it must take strided operands there, as its *traits* say. Nothing else
    may need the memory at the same time. Copies are looked at last to first, so that a concat of
    concats becomes one, those of whole values before those of parts.

    The copied value may be a part of an activation, which is then placed around the window, or a
    whole activation in another shape. Other copies of it that would then move nothing are removed
    as well. A copy may be a member of the stack that computes its operand. A value that is two
    outputs is computed in one of them and copied to the other.
    """
    work = Work(program.work)
    for of_parts in (False, True):  # what lies around a part may keep whole values from it
        for number, copy in _copies(work, of_parts=of_parts):
            _make_in_place(work, number, copy, traits)
    return work.result(program)


def _copies(work: Work, *, of_parts: bool) -> Iterator[tuple[int, CopyInst]]:
    """Yield the copies of parts of a region, or of whole ones, last to first; some may go on it."""
    for number in reversed(work.numbers):
        count = len(members_of(work[number])) if number in work else 0
        for index in reversed(range(count)):
            copy = members_of(work[number])[index] if number in work else None
            if not isinstance(copy, CopyInst) or copy.predicate is not None:
                continue
            if of_parts == (copy.src.type.size != copy.src.root.type.size):
                yield number, copy


@dataclass(frozen=True)
class _Use:
    """An operand of an instruction, where it lies or would lie.

    Attributes:
        number: Number of the instruction.
        place: The operand.
        writes: True if the instruction writes it.
    """

    number: int
    place: Buffer
    writes: bool


def _make_in_place(work: Work, number: int, copy: CopyInst, traits: Traits) -> None:
    """Make what *copy* reads where it puts it, and take out *copy*, unless that is wrong."""
    src, dest = copy.src.root, laid_around(copy.dest, copy.src)
    if not isinstance(src, Activation) or dest is None or dest.root is src:
        return
    if not isinstance(dest.root, Activation | Bound | StateBuffer):
        return
    rest = without(work[number], copy)
    if rest is not None and _is_written_after(copy, members_of(work[number])):
        return
    there = {} if rest is None else {number: rest}
    movers = {n: i for n, i in work.touching(src) if n != number} | there
    places = _places(movers.values(), src, dest, traits)
    if places is None or (isinstance(dest.root, StateBuffer) and _is_read(src, movers.values())):
        return  # from a state, nothing reads the next value before the next run
    copies = {n: i for n, i in movers.items() if n != number and _moves_nothing(i, places)}
    gone = {number, *copies}
    others = {n: i for n, i in work.overlapping(dest) if n not in gone} | movers
    value = [replace(u, place=places[u.place]) for u in _uses_of(movers) if u.place in places]
    value.append(_Use(number, copy.dest, writes=False))
    writes = [use for use in _uses_of(copies | {number: copy}) if use.writes]
    beside = [u for u in _uses_of(others) if u.place.root is dest.root and u.number not in copies]
    if not _is_right(value, writes, beside):
        return
    for n in copies:
        work.remove(n)
    if rest is None:
        work.remove(number)
    else:
        work.replace(number, rest)
    work.move(src, places.__getitem__)


def _is_read(root: Buffer, instructions: Iterable[Instruction]) -> bool:
    """Return whether one of *instructions*, or a member of a stack, reads from *root*."""
    members = (member for instruction in instructions for member in members_of(instruction))
    return any(buffer.root is root for member in members for buffer in read(member))


def _is_written_after(copy: CopyInst, members: Sequence[Instruction]) -> bool:
    """Return whether one of *members* behind *copy* writes the region that it reads."""
    later = members[members.index(copy) :]
    return any(b.root is copy.src.root for member in later for b in mutated(member))


def _places(
    movers: Iterable[Instruction], src: Buffer, dest: Buffer, traits: Traits
) -> dict[Buffer, Buffer] | None:
    """Return where the operands of *movers* lie once *src* lies at *dest*; None if they cannot."""
    places: dict[Buffer, Buffer] = {}
    for instruction in movers:
        for buffer in (b for b in operands_of(instruction) if b.root is src):
            place = places.get(buffer) or rebased(buffer, src, dest)
            if place is None or not can_be_strided(instruction, buffer, place, traits):
                return None
            places[buffer] = place
    return places


def _moves_nothing(instruction: Instruction, places: Mapping[Buffer, Buffer]) -> bool:
    """True for a copy of what will lie, in *places*, where it is copied to."""
    if not isinstance(instruction, CopyInst) or instruction.predicate is not None:
        return False
    src, dest = places.get(instruction.src), instruction.dest
    return src is not None and is_same_memory(src, dest)


def _uses_of(instructions: Mapping[int, Instruction]) -> Iterator[_Use]:
    """Yield the operands of *instructions*, by their numbers."""
    for number, instruction in instructions.items():
        written = mutated(instruction)
        yield from (_Use(number, b, b in written) for b in operands_of(instruction))


def _is_right(value: Sequence[_Use], copies: Sequence[_Use], others: Sequence[_Use]) -> bool:
    """Return whether a value may be used where *copies* put it, and *others* use memory, too.

    Those lie in one region. What a copy reads is not written afterwards, and where others need the
    same memory, they come after all uses of the value and after the copies.
    """
    for use in value:
        if use.writes and any(c.number < use.number and _meet(c, use) for c in copies):
            return False
    needed = [*value, *copies]
    last = max(use.number for use in needed)
    early = [other for other in others if other.number <= last]
    root = early[0].place.root if early else None
    there = [use for use in needed if use.place.root is root]
    at: Overlaps[_Use] = Overlaps(best_period(use.place for use in there))
    for use in there:
        at.add(use.place, use)
    return not any(
        other.number <= use.number and (other.writes or use.writes)
        for other in early
        for use in at.overlapping(other.place)
    )


def _meet(left: _Use, right: _Use) -> bool:
    """Return whether one of the two writes what the other one uses."""
    return (left.writes or right.writes) and may_overlap(left.place, right.place)
