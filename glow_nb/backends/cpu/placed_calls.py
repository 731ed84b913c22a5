"""Instructions as calls of kernels: what each operand is in the memory of the native program."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from glow_nb.base.errors import CompileError
from glow_nb.base.size import surely
from glow_nb.codegen.entry import Call, Region
from glow_nb.codegen.hazards import AccessMode
from glow_nb.codegen.program_memory import PlacedWeight
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import (
    Activation,
    Bound,
    Buffer,
    Instruction,
    Program,
    StateBuffer,
    Weight,
    kernel_operands,
    mutated,
    read,
)
from glow_nb.llir.verify import element_interval
from glow_nb.llir.windows import pixel_stride


class Places:
    """Where the buffers of a program lie in memory."""

    def __init__(
        self, program: Program, weights: Mapping[Buffer, PlacedWeight], borrowed: int
    ) -> None:
        """Take weights from where they are placed; *borrowed* blocks of them are bound first."""
        self._weights = weights
        bound = enumerate((*program.state, *program.inputs, *program.outputs), borrowed)
        self._bindings: dict[Buffer, int] = {buffer: index for index, buffer in bound}
        self._arena = program.arena.offsets if program.arena else {}

    def call(self, instruction: Instruction, source: KernelSource) -> Call:
        """Return the call of *source*, the kernel of *instruction*."""
        return Call(source, self.regions(instruction))

    def regions(self, instruction: Instruction) -> tuple[Region, ...]:
        """Return what the pointer arguments of the kernel of *instruction* cover."""
        written = {id(b) for b in mutated(instruction)}
        reads = {id(b) for b in read(instruction)}
        return tuple(
            self._region(buffer, _mode(id(buffer) in written, id(buffer) in reads))
            for buffer in kernel_operands(instruction)
        )

    def _region(self, buffer: Buffer, mode: AccessMode) -> Region:
        kind = buffer.type.kind
        first, last = element_interval(buffer) if buffer.type.size else (buffer.offset, -1)
        size_bytes = max(0, last + 1 - first) * kind.size_bytes
        start, lead = first * kind.size_bytes, (buffer.offset - first) * kind.size_bytes
        run_bytes, pitch_bytes = runs_of(buffer)
        region = partial(
            Region,
            kind=kind,
            size_bytes=size_bytes,
            mode=mode,
            lead_bytes=lead,
            run_bytes=run_bytes,
            pitch_bytes=pitch_bytes,
        )
        match buffer.root:
            case Weight() as weight:
                place = self._weights[weight]
                offset = start + place.offset_bytes
                if place.block:
                    return region("binding", offset_bytes=offset, binding=place.block - 1)
                return region("constants", offset_bytes=offset)
            case Activation() as activation:
                return region("arena", offset_bytes=start + self._arena[activation])
            case Bound() | StateBuffer() as bound:
                return region("binding", offset_bytes=start, binding=self._bindings[bound])
        raise CompileError(f"{buffer!r} lies in no region of the program")


def runs_of(buffer: Buffer) -> tuple[int, int]:
    """Return the bytes of a pixel and those from pixel to pixel, if others lie between them."""
    pitch = pixel_stride(buffer)
    channels = buffer.type.shape[-1] if buffer.type.shape else 1
    if pitch is None or not surely(pitch, ">", channels):
        return 0, 0
    return channels * buffer.type.kind.size_bytes, pitch * buffer.type.kind.size_bytes


def _mode(written: bool, is_read: bool) -> AccessMode:
    if written:
        return "inout" if is_read else "out"
    return "in"
