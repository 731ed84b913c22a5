"""Copies that stay, since what they copy comes from elsewhere.

Other copies may vanish: what is copied is made at its new place, or read at its old one. The first
is impossible where it comes from the caller or from another part, whose memory it lies in; the
second where it becomes an output, or a piece of a larger region that a kernel reads as a whole.
"""

from __future__ import annotations

from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Activation, Bound, Buffer, Instruction, Program, mutated, read
from glow_nb.llir.stack import StackInst, members_of


def is_copy(instruction: Instruction) -> bool:
    """Return whether all that *instruction* does is to copy."""
    return all(isinstance(member, CopyInst) for member in members_of(instruction))


def own_copies(instruction: Instruction) -> list[CopyInst]:
    """Return the copies that a stack makes of its own results, which other parts may not need."""
    if is_copy(instruction):
        return []
    made = {buffer.root for buffer in mutated(instruction)}
    copies = [one for one in members_of(instruction) if isinstance(one, CopyInst)]
    return [one for one in copies if one.src.root in made]


def without_own_copies(instruction: Instruction) -> Instruction:
    """Return *instruction* as it is where its results are made at their new places at once."""
    copies = own_copies(instruction)
    if not copies:
        return instruction
    return StackInst.of(one for one in members_of(instruction) if one not in copies)


def movers_of(program: Program) -> dict[int, Buffer]:
    """Return the region that each copy reads which stays where that is made elsewhere.

    The copies are numbers of the program's ``work``.
    """
    whole = _read_as_a_whole(program)
    found: dict[int, Buffer] = {}
    for number, copy in enumerate(program.work):
        if not is_copy(copy):
            continue
        sources, targets = ({b.root for b in side(copy)} for side in (read, mutated))
        if len(sources) != 1 or len(targets) != 1:  # a stack may copy from or to several regions
            continue
        (source,), (target,) = sources, targets
        is_piece = target in whole and target.type.size_bytes > source.type.size_bytes
        if isinstance(source, Activation | Bound) and (is_piece or target in program.outputs):
            found[number] = source
    return found


def _read_as_a_whole(program: Program) -> set[Buffer]:
    """Return the regions that some kernel reads all of."""
    return {
        buffer.root
        for kernel in program.work
        if not is_copy(kernel)
        for buffer in read(kernel)
        if buffer.type.size == buffer.root.type.size
    }
