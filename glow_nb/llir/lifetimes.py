"""Lifetimes of buffers: the positions of ``alloc``, ``tensor_view`` and ``dealloc``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glow_nb.base.schema import operands_of
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Buffer,
    Dealloc,
    Instruction,
    TensorView,
    View,
)


def mark_lifetimes(work: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return *work*, which holds no markers, with the shortest lifetimes marked.

    A buffer is allocated right before the first instruction that touches it and deallocated right
    after the last; a view is declared right before its first use and keeps its root alive. Buffers
    that nothing touches do not appear.
    """
    last_use = {
        buffer.root: index
        for index, instruction in enumerate(work)
        for buffer in operands_of(instruction)
    }
    declared: set[Buffer] = set()
    marked: list[Instruction] = []
    for index, instruction in enumerate(work):
        touched = tuple(operands_of(instruction))
        for buffer in touched:
            marked += _declare(buffer, declared)
        marked.append(instruction)
        for root in dict.fromkeys(buffer.root for buffer in touched):
            if isinstance(root, Activation) and last_use[root] == index:
                marked.append(Dealloc(root))
    return tuple(marked)


def _declare(buffer: Buffer, declared: set[Buffer]) -> Iterator[Instruction]:
    """Yield what must come before the first use of *buffer*, the root before its views."""
    undeclared: list[Buffer] = []
    while buffer not in declared:
        declared.add(buffer)
        undeclared.append(buffer)
        buffer = buffer.base if isinstance(buffer, View) else buffer
    for found in reversed(undeclared):
        if isinstance(found, View):
            yield TensorView(found)
        elif isinstance(found, Activation):
            yield Alloc(found)
