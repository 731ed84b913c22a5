"""A second backend, as a user would write one: rows of numbers in loops of Python.

It has a table of kernels and traits unlike those of the cpu. A maximum over windows goes on with
each pixel in registers; a matrix product adds up where its result will lie, so that nothing else
may lie there; nothing computes its own input, and nothing reaches what is far from the pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod

import numpy as np
from typing_extensions import override

from glow_nb.backends.backend import Backend
from glow_nb.backends.interpreter_steps import Memory
from glow_nb.backends.scalar_numpy import evaluate_scalar
from glow_nb.base.schema import Qualifier, operand_specs
from glow_nb.base.types import Array
from glow_nb.fuse.check_traits import check_traits
from glow_nb.hlir import ops
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.hlir.rules import LOWERINGS
from glow_nb.llir.instructions.derived import instruction_for, known_instructions
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.instructions.pooling import MaxPoolInst
from glow_nb.llir.instructions.shape import PadInst
from glow_nb.llir.kernel_table import KernelTable
from glow_nb.llir.program import Buffer, Instruction, Program, Register, mutated, read
from glow_nb.llir.stack import StackInst, members_of
from glow_nb.llir.traits import KernelTraits
from glow_nb.llir.windows import pixel_stride
from glow_nb.system.state_store import StateStore

MatMulInst = instruction_for(ops.MatMul)
Kernel = Callable[[Memory], None]


def loop(instruction: Instruction) -> Kernel:
    """Return the kernel of a data-parallel instruction, or of a stack of them."""
    members = members_of(instruction)
    shape = mutated(members[0])[0].type.shape

    def run(memory: Memory) -> None:
        for row in np.ndindex(shape[:-1]):
            found: dict[Buffer, Array] = {}
            load = partial(_row_of, memory, shape, row)
            for member in members:
                found |= _computed(member, found, load)
            for result, elements in found.items():
                if not isinstance(result, Register):
                    memory.array(result)[row] = elements

    return run


def _row_of(memory: Memory, shape: tuple[int, ...], row: tuple[int, ...], buffer: Buffer) -> Array:
    elements: Array = np.broadcast_to(memory.array(buffer), shape)[row]
    return elements


LOOPS = KernelTable("loops", scalar=loop)


@LOOPS.kernel_for(StackInst)
def stack(instruction: StackInst) -> Kernel:
    """Return the kernel of the head, which does the work of the others."""
    make = loop if instruction.head is None else LOOPS[type(instruction.head)]
    kernel: Kernel = make(instruction)
    return kernel


@LOOPS.kernel_for(
    MaxPoolInst, traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("input",))
)
def max_pool(instruction: Instruction) -> Kernel:
    """Return the kernel of a pool, maybe in a stack; its input may have gaps between pixels."""
    head = members_of(instruction)[0]
    assert isinstance(head, MaxPoolInst)
    batch, *sizes, channels = head.input.type.shape
    step, kind = pixel_stride(head.input) or channels, head.input.type.kind

    def run(memory: Memory) -> None:
        source = _pointer(memory, head.input)
        places = product(range(batch), *map(range, head.dest.type.shape[1:-1]))
        for pixel, (sample, *place) in enumerate(places):
            best = np.full(channels, bounds_of(kind)[0], kind.dtype)
            for tap in np.ndindex(*head.kernel):
                steps = zip(place, head.stride, tap, head.dilation, head.pads, strict=False)
                found = [p * stride + t * gap - pad for p, stride, t, gap, pad in steps]
                if all(0 <= i < n for i, n in zip(found, sizes, strict=True)):
                    start = step * int(np.ravel_multi_index((sample, *found), (batch, *sizes)))
                    best = np.maximum(best, source[start : start + channels])
            _finish(memory, instruction, pixel, best)

    return run


@LOOPS.kernel_for(MatMulInst, traits=KernelTraits(fuses_epilogue=True))
def mat_mul(instruction: Instruction) -> Kernel:
    """Return the kernel of a product, maybe in a stack; it sums up where the last result lies."""
    head = members_of(instruction)[0]
    assert isinstance(head, MatMulInst)
    rows, columns = prod(head.dest.type.shape[:-1]), head.dest.type.shape[-1]
    inner, per_matrix = head.lhs.type.shape[-1], head.lhs.type.shape[-2]
    is_shared = head.rhs.type.rank == 2

    def run(memory: Memory) -> None:
        left, right = _pointer(memory, head.lhs), _pointer(memory, head.rhs)
        place = mutated(instruction)[-1]
        for row in range(rows):
            sums = _pointer(memory, place)[row * columns : (row + 1) * columns]
            if place.type.kind is not head.dest.type.kind:
                sums = np.empty(columns, head.dest.type.kind.dtype)
            sums[...] = 0
            matrix = 0 if is_shared else row // per_matrix * inner * columns
            for k in range(inner):
                start = matrix + k * columns
                sums += left[row * inner + k] * right[start : start + columns]
            _finish(memory, instruction, row, sums.copy())

    return run


def _finish(memory: Memory, instruction: Instruction, pixel: int, row: Array) -> None:
    """Go on with the *row* that the head has made of a *pixel*, and store what is to be stored."""
    head, *epilogue = members_of(instruction)
    (made,) = mutated(head)
    found = {made: row}
    width = len(row)

    def load(buffer: Buffer) -> Array:
        is_like_result = buffer.type.shape == made.type.shape
        start = pixel * width if is_like_result else 0
        return _pointer(memory, buffer)[start : start + min(width, buffer.type.size)]

    for member in epilogue:
        found |= _computed(member, found, load)
    for result, elements in found.items():
        if not isinstance(result, Register):
            _pointer(memory, result)[pixel * width : (pixel + 1) * width] = elements


def _computed(
    member: Instruction, known: dict[Buffer, Array], load: Callable[[Buffer], Array]
) -> dict[Buffer, Array]:
    """Return what a data-parallel *member* makes of elements that are *known* or loaded."""
    (result,) = mutated(member)
    operands = {}
    for spec in operand_specs(type(member)):
        buffer = getattr(member, spec.name)
        if buffer in read(member):
            operands[spec.name] = known[buffer] if buffer in known else load(buffer)
    return {result: evaluate_scalar(member, operands, result.type.kind)}


def _pointer(memory: Memory, buffer: Buffer) -> Array:
    """Return the memory from the first element of *buffer* on, as C sees it."""
    elements: Array = memory.regions[buffer.root].view(buffer.type.kind.dtype)
    return elements[buffer.offset :]


def library_call(instruction: NodeInstruction) -> Kernel:
    """Return a kernel of an operator that this backend leaves to NumPy."""
    node, specs = instruction.as_node(), operand_specs(type(instruction))
    operands = [getattr(instruction, s.name) for s in specs if s.qualifier != Qualifier("out")]

    def run(memory: Memory) -> None:
        found = node.evaluate(*(b if b is None else memory.array(b) for b in operands))
        results = found if isinstance(found, tuple) else (found,)
        for buffer, array in zip(mutated(instruction), results, strict=True):
            memory.array(buffer)[...] = array

    return run


# What is left after lowering; the rule of pads leaves some as they are.
LOOPS.kernel_for(
    *(
        instruction
        for instruction in known_instructions().values()
        if issubclass(instruction, NodeInstruction)
        and (instruction.node_class not in LOWERINGS or instruction is PadInst)
        and not (instruction.scalar or instruction in LOOPS)
    )
)(library_call)


class Loops(Backend):
    """Runs programs in loops of Python, as the table has them."""

    name = "loops"
    kernels = LOOPS

    @override
    def compile(self, program: Program, *, threads: int = 1) -> LoopsProgram:
        """Make the kernels of *program*."""
        kernels = []
        for instruction in program.work:
            check_traits(instruction, self.traits)
            make = self.kernels.maker_of(type(instruction))
            assert make is not None, instruction
            kernels.append(make(instruction))
        return LoopsProgram(program, kernels)


class LoopsProgram:
    """Kernels over the arena of a program."""

    source, kernels = "", ()
    scratch_bytes = constant_bytes = 0

    def __init__(self, program: Program, work: Sequence[Kernel]) -> None:
        self._program, self._work = program, work

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on *inputs*; return new outputs."""
        return self.run_on(StateStore(self._program.state), inputs)

    def run_on(self, state: StateStore, inputs: Sequence[Array]) -> list[Array]:
        """Run on *inputs* and on *state* where it lies; return new outputs."""
        assert self._program.arena is not None
        weights = {weight: _bytes_of(weight.array) for weight in self._program.weights}
        memory = Memory(self._program, self._program.arena, weights)
        memory.regions.update(zip(self._program.inputs, map(_bytes_of, inputs), strict=True))
        with np.errstate(all="ignore"), state.for_a_run() as lent:
            for buffer in self._program.state:
                held = lent.array(buffer.name, buffer.type)
                memory.regions[buffer] = held.reshape(-1).view(np.uint8)  # where it lies, no copy
            for kernel in self._work:
                kernel(memory)
        return [memory.array(output) for output in self._program.outputs]


def _bytes_of(array: Array) -> Array:
    return np.array(array, order="C").reshape(-1).view(np.uint8)
