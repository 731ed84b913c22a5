"""Let readers of a slice read the tensor that it was cut from: slice and split for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.live_bytes import Change, LiveBytes
from glow_nb.llir.program import Activation, Buffer, Instruction, Program, mutated, read
from glow_nb.llir.stack import StackInst, without
from glow_nb.llir.traits import NO_TRAITS, Traits
from glow_nb.llir.verify import may_overlap
from glow_nb.llir.windows import can_be_strided, rebased
from glow_nb.llir.work import Work


def eliminate_slices(program: Program, *, traits: Traits = NO_TRAITS) -> Program:
    """Read a value at the source of a copy, if all readers can reach it and no memory is lost.

    ::

        %part = tensor_view %x {start = 8, steps = [16, 1]} : float32<4 x 8>
        %a = alloc float32<4 x 8>
        copy @out %a, @in %part                         ->
        max_pool @out %b, @in %a {...}                         max_pool @out %b, @in %part {...}
        softmax @out %c, @in %a {...}                          softmax @out %c, @in %part {...}

    The copy must be the only one that writes to its activation, and nothing may write to where it
    came from before the last reader is done. The kernel of every reader must take strided operands
    there, as its *traits* say, and
    elements must lie side by side along the last axis: only a copy reads others once. The source
    lives longer, so the peak of live bytes must not grow. A copy may be a member
    of a stack without a head, which then stores one value less.
    """
    work = Work(program.work)
    live = LiveBytes(program.work)
    for number in work.numbers:
        for copy in tuple(_copies_of(work[number])):
            _read_at_source(work, live, number, copy, traits)
    return work.result(program)


def _copies_of(instruction: Instruction) -> Iterator[CopyInst]:
    """Yield *instruction* if it is a copy, or the copies in it if it is a loop over memory."""
    if isinstance(instruction, CopyInst):
        if instruction.predicate is None:
            yield instruction
    elif isinstance(instruction, StackInst) and instruction.head is None:
        yield from (i for i in instruction.body if isinstance(i, CopyInst))


def _read_at_source(
    work: Work, live: LiveBytes, number: int, copy: CopyInst, traits: Traits
) -> None:
    """Let the readers of ``copy.dest`` read ``copy.src``, unless that is wrong."""
    dest, src = copy.dest, copy.src
    if not isinstance(dest, Activation) or src.type != dest.type or src.root is dest:
        return
    if src not in read(work[number]):
        return  # a register, or a value that the same stack makes
    touching = work.touching(dest)
    if any(buffer.root is dest for _, i in touching[1:] for buffer in mutated(i)):
        return
    places: dict[Buffer, Buffer | None] = {dest: src}
    for _, reader in touching:
        for buffer in read(reader):
            if buffer.root is dest:
                place = places.setdefault(buffer, rebased(buffer, dest, src))
                if place is None or not _can_read(reader, buffer, place, traits):
                    return
    end = touching[-1][0]
    if _is_written(work, [p for p in places.values() if p], number, end) or not _fits(
        live, dest, src, number, end
    ):
        return
    _drop(work, number, copy)
    work.move(dest, lambda buffer: places.get(buffer) or buffer)


def _can_read(reader: Instruction, buffer: Buffer, place: Buffer, traits: Traits) -> bool:
    """Return whether *reader* works with *place* and whole vectors lie there."""
    has_vectors = place.is_contiguous or place.strides[-1] == 1
    return has_vectors and can_be_strided(reader, buffer, place, traits)


def _is_written(work: Work, places: list[Buffer], begin: int, end: int) -> bool:
    """Return whether an instruction from *begin* to *end* writes to elements of *places*."""
    return any(
        may_overlap(buffer, place)
        for place in places
        for number, instruction in work.overlapping(place)
        if begin <= number <= end
        for buffer in mutated(instruction)
    )


def _fits(live: LiveBytes, dest: Buffer, src: Buffer, number: int, end: int) -> bool:
    """Return whether the peak stays if *dest* goes and the root of *src* lives on to *end*."""
    changes = [Change(number, end + 1, -dest.type.size_bytes)]
    root, last = src.root, live.last[src.root]
    if isinstance(root, Activation) and last < end:
        changes.append(Change(last + 1, end + 1, root.type.size_bytes))
    if not live.take(*changes):
        return False
    live.last[root] = max(last, end)
    return True


def _drop(work: Work, number: int, copy: CopyInst) -> None:
    """Take *copy* out of the work, or out of the stack that it is a member of."""
    rest = without(work[number], copy)
    if rest is None:
        work.remove(number)
    else:
        work.replace(number, rest)
