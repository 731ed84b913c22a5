"""From which instruction to which each activation of an allocated program lives, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glow_nb.base.errors import OptionError
from glow_nb.base.text import format_name
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Arena,
    Dealloc,
    Instruction,
    Program,
    is_marker,
    mutated,
)
from glow_nb.llir.stack import StackInst


@dataclass(frozen=True)
class Life:
    """One activation in the arena.

    Attributes:
        buffer: The activation.
        kind: Opcode of the instruction that first writes it, opcodes of a stack joined.
        begin: The first instruction that needs it, counting only those that compute.
        end: One past the last.
        offset: Bytes from the beginning of the arena.
        writers: All instructions that write it or a part of it, counted in the same way.
    """

    buffer: Activation
    kind: str
    begin: int
    end: int
    offset: int
    writers: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the node whose result it holds."""
        return format_name(self.buffer.name)

    @property
    def shape(self) -> str:
        """Its shape in text."""
        return " × ".join(map(str, self.buffer.type.shape))

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes."""
        return self.buffer.type.size_bytes


def lives_of(program: Program) -> list[Life]:
    """Return the activations of an allocated *program* that take memory, in order of allocation.

    Raises:
        OptionError: The program is not allocated.
    """
    arena = arena_of(program)
    begins: dict[Activation, int] = {}
    ends: dict[Activation, int] = {}
    writers: dict[Activation, dict[int, Instruction]] = {}
    step = 0
    for instruction in program.instructions:
        match instruction:
            case Alloc(dest=Activation() as buffer):
                begins[buffer] = step
            case Dealloc(dest=Activation() as buffer):
                ends[buffer] = step
            case _ if not is_marker(instruction):
                for written in mutated(instruction):
                    if isinstance(written.root, Activation):
                        writers.setdefault(written.root, {})[step] = instruction
                step += 1
    return [
        Life(
            buffer=buffer,
            kind=_kind(writers.get(buffer, {})),
            begin=begin,
            end=ends[buffer],
            offset=arena.offsets[buffer],
            writers=tuple(writers.get(buffer, ())),
        )
        for buffer, begin in begins.items()
        if buffer.type.size_bytes and ends[buffer] > begin
    ]


def arena_of(program: Program) -> Arena:
    """Return where the activations of *program* lie; raise OptionError if that is not decided."""
    if program.arena is None:
        raise OptionError(f"{program!r}: it is not allocated; allocate() it first")
    return program.arena


def _kind(writers: Mapping[int, Instruction]) -> str:
    """Return the opcode of the first of *writers*."""
    if not writers:
        return "never written"
    instruction = next(iter(writers.values()))
    if isinstance(instruction, StackInst):
        return " + ".join(part.opcode for part in instruction.body)
    return instruction.opcode
