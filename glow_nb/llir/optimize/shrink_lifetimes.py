"""Let every buffer live no longer than it must."""

from __future__ import annotations

from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.program import Buffer, Instruction, Program, is_marker, mutated


def shrink_lifetimes(program: Program) -> Program:
    """Sink alloc and tensor_view to right before the first use, hoist dealloc to after the last.

    ::

        %a = alloc float32<8>               %a = alloc float32<8>
        %b = alloc float32<8>               relu @out %a, @in %x
        relu @out %a, @in %x          ->    %b = alloc float32<8>
        exp @out %b, @in %a                 exp @out %b, @in %a
        copy @out %y, @in %b                dealloc %a
        dealloc %b                          copy @out %y, @in %b
        dealloc %a                          dealloc %b

    Views keep their root alive. Buffers that nothing touches disappear.
    """
    instructions = mark_lifetimes(program.work)
    if list(map(_key, instructions)) == list(map(_key, program.instructions)):
        return program
    return program.with_instructions(instructions)


def _key(instruction: Instruction) -> tuple[type[Instruction], Instruction | Buffer]:
    """Return what tells two instructions apart; markers are made anew, so their buffer does."""
    what = mutated(instruction)[0] if is_marker(instruction) else instruction
    return type(instruction), what
