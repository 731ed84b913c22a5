"""Remove instructions whose results nothing reads, and the buffers that are left idle."""

from __future__ import annotations

from glow_nb.base.schema import operands_of
from glow_nb.llir.in_place import covers_root
from glow_nb.llir.program import (
    Buffer,
    Instruction,
    Program,
    View,
    is_marker,
    mutated,
    read,
)


def eliminate_dead_stores(program: Program) -> Program:
    """Remove instructions whose results are overwritten or freed before they are read.

    ::

        %a = alloc float32<8>                     %b = alloc float32<8>
        relu @out %a, @in %x                      exp @out %b, @in %x
        %b = alloc float32<8>               ->    copy @out %y, @in %b
        exp @out %b, @in %x                       dealloc %b
        copy @out %y, @in %b
        dealloc %b
        dealloc %a

    The caller reads the outputs, and the next run reads the states. Only a write of a whole region
    makes its old content dead: after a write through a view of a part, the rest is still live.
    """
    needed: set[Buffer] = {*program.outputs, *program.state}
    kept: set[Instruction] = set()
    for instruction in reversed(program.work):
        written = mutated(instruction)
        if written and not any(buffer.root in needed for buffer in written):
            continue
        kept.add(instruction)
        needed -= {buffer.root for buffer in written if covers_root(buffer)}
        needed |= {buffer.root for buffer in read(instruction)}
    kept |= _markers_in_use(program, kept)
    if len(kept) == len(program.instructions):
        return program
    return program.with_instructions(i for i in program if i in kept)


def _markers_in_use(program: Program, work: set[Instruction]) -> set[Instruction]:
    """Return the alloc, dealloc and tensor_view of each buffer that *work* touches."""
    used: set[Buffer] = set()
    for instruction in work:
        for buffer in operands_of(instruction):
            used.add(buffer)
            while isinstance(buffer, View):
                buffer = buffer.base
                used.add(buffer)
    return {i for i in program if is_marker(i) and mutated(i)[0] in used}
