"""Kernels of stacks: a loop over memory, or an epilogue on the tiles of a product (paper 5.2)."""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.fuse.expression import Vector, VectorCode
from glow_nb.fuse.stack import Stack
from glow_nb.kernels.operators.packed_instructions import (
    DepthwiseConvolutionInst,
    GroupedConvolutionInst,
    PackedConvolutionInst,
    PackedMatMulInst,
)
from glow_nb.kernels.operators.winograd_instructions import WinogradConvolutionInst
from glow_nb.kernels.products.convolution import packed_convolution_source
from glow_nb.kernels.products.depthwise import depthwise_convolution_source
from glow_nb.kernels.products.matmul import packed_mat_mul_source
from glow_nb.kernels.products.register_tiles import Epilogue, TileVector, WholeTile
from glow_nb.kernels.registry import CPU_KERNELS, kernel_for
from glow_nb.kernels.stacks.elementwise import stack_source
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.convolution import winograd_convolution_source
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.program import Buffer, Instruction, kernel_operands, mutated, read
from glow_nb.llir.stack import StackInst
from glow_nb.schema import operand_specs


@kernel_for(StackInst)
def generate_stack(instruction: StackInst, target: Target) -> KernelSource:
    """Return the kernel of an instruction."""
    head = instruction.head
    match head:
        case None:
            stack = Stack(instruction.body, instruction.results)
            return stack_source(stack, target, kernel_operands(instruction))
        case PackedConvolutionInst():
            return packed_convolution_source(
                head, target, _epilogue(instruction), instruction.results[0]
            )
        case WinogradConvolutionInst():
            return winograd_convolution_source(
                head, target, _epilogue(instruction), instruction.results[0]
            )
        case DepthwiseConvolutionInst() | GroupedConvolutionInst():
            return depthwise_convolution_source(head, target, _epilogue(instruction))
        case PackedMatMulInst():
            return packed_mat_mul_source(head, target, _epilogue(instruction))
    generator: Callable[[Instruction, Target, Fusion], KernelSource] = CPU_KERNELS[type(head)]
    return generator(head, target, Fusion.of(instruction))


def _epilogue(instruction: StackInst) -> Epilogue:
    """Return what the stack does to the head's result before it is stored."""
    head = instruction.head
    assert head is not None
    (made,) = mutated(head)
    dest, *others = instruction.results
    stack = Stack(instruction.riders, tuple(b for b in instruction.results if b is not made))
    # A kernel calls the head's operands as their fields; one of them may be read again.
    names = {buffer: name for name, buffer in _operands_of(head)}
    extra = [buffer for buffer in instruction.sources if buffer not in names]
    names.update({buffer: f"operand{index}" for index, buffer in enumerate(extra)})
    names.update({buffer: f"result{index}" for index, buffer in enumerate(others, 1)})
    sources = [buffer for buffer in stack.inputs if buffer is not made]

    def apply(
        out: SourceWriter, code: VectorCode, value: str, loads: list[str]
    ) -> dict[Buffer, str]:
        vectors = {made: Vector(value, made.type.kind)}
        for buffer, load in zip(sources, loads, strict=True):
            vectors[buffer] = code.assign(load, buffer.type.kind)
        results = vectors | stack.write(code, vectors)
        for line in code.lines:
            out.line(line)
        return {buffer: results[buffer].name for buffer in instruction.results}

    def write(out: SourceWriter, place: TileVector) -> str:
        code = VectorCode(place.lanes, f"{place.tag}_")
        value = code.assign(place.value, made.type.kind).name
        loads = [_vector(b, made, names[b], place) for b in sources]
        results = apply(out, code, value, loads)
        for buffer in others:
            place.write_store(out, names[buffer], results[buffer])
        return results[dest]

    def write_tile(out: SourceWriter, place: WholeTile) -> str:
        code = VectorCode(place.lanes, f"{place.value}_")
        loads = [_tile(b, made, names[b], place) for b in sources]
        results = apply(out, code, place.value, loads)
        for buffer in others:
            out.line(
                f"tile_store({names[buffer]}, {place.index}, {place.stride}, {results[buffer]})"
            )
        return results[dest]

    operands = tuple((names[buffer], buffer.type.kind) for buffer in extra)
    results = tuple((names[buffer], buffer.type.kind) for buffer in others)
    return Epilogue(operands, write, dest.type.kind, write_tile, results)


def _operands_of(head: Instruction) -> list[tuple[str, Buffer]]:
    """Return field and buffer of each operand that a head reads."""
    fields = ((spec.name, getattr(head, spec.name)) for spec in operand_specs(type(head)))
    return [(name, buffer) for name, buffer in fields if buffer in read(head)]


def _vector(buffer: Buffer, made: Buffer, name: str, place: TileVector) -> str:
    """Return the expression of the elements of *buffer* that belong to one vector."""
    lanes = place.lanes
    if buffer.type.size == 1:
        return f"broadcast({name}, 0, {lanes})"
    index = place.index if buffer.type.shape == made.type.shape else place.channel
    if place.count == lanes:
        return f"load({name}, {index}, {lanes})"
    return f"load_masked({name}, {index}, {lanes}, {place.count})"


def _tile(buffer: Buffer, made: Buffer, name: str, place: WholeTile) -> str:
    """Return the expression of the elements of *buffer* that belong to a whole tile."""
    size = f"{place.rows}, {place.vectors}, {place.lanes}"
    if buffer.type.size == 1:
        return f"broadcast({name}, 0, {place.lanes})"
    if buffer.type.shape == made.type.shape:
        return f"tile_load({name}, {place.index}, {place.stride}, {size})"
    return f"tile_bias({name}, {place.channel}, {size})"
