"""How NumPy executes instructions: the memory of a run, and a step for each instruction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from glow_nb.backends.scalar_numpy import evaluate_scalar
from glow_nb.base.errors import GlowError, UnsupportedError
from glow_nb.base.foreign import foreign
from glow_nb.base.schema import map_operands, operand_specs
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Node
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import (
    Alloc,
    Arena,
    Buffer,
    Dealloc,
    Instruction,
    Program,
    Register,
    TensorView,
    Weight,
    mutated,
    read,
)
from glow_nb.llir.stack import StackInst

POISON = 0xFF
"""The byte of poisoned memory: NaN as a float of any width, -1 or the largest as an integer."""

Bytes = npt.NDArray[np.uint8]

Watch = Callable[[Instruction, Array], None]
Evaluate = Callable[[Node, Sequence[Any]], Any]


def evaluate_node(node: Node, arguments: Sequence[Any]) -> Any:
    """Return what *node* means on the arrays of its operand fields."""
    with foreign(GlowError, f"{node!r}: evaluate"):
        return node.evaluate(*arguments)


class Memory:
    """The memory of one run: the arena, and the regions of weights, inputs and outputs.

    Attributes:
        regions: The bytes of each region.
        watch: Called with each result; None for no call.
        evaluate: The function that computes the operators.
    """

    def __init__(self, program: Program, arena: Arena, weights: dict[Weight, Bytes]) -> None:
        """Make the memory for *program*, poisoned but for the *weights*."""
        self.watch: Watch | None = None
        self.evaluate: Evaluate = evaluate_node
        block = np.full(arena.size_bytes, POISON, np.uint8)
        self.regions: dict[Buffer, Bytes] = dict(weights.items())
        for buffer, offset in arena.offsets.items():
            self.regions[buffer] = block[offset : offset + buffer.type.size_bytes]
        for output in program.outputs:
            self.regions[output] = np.full(output.type.size_bytes, POISON, np.uint8)

    def array(self, buffer: Buffer) -> Array:
        """Return *buffer* as an array that lies in its region."""
        dtype = buffer.type.kind.dtype
        if not buffer.type.size:
            return np.empty(buffer.type.shape, dtype)
        return np.ndarray(
            buffer.type.shape,
            dtype,
            buffer=self.regions[buffer.root],
            offset=buffer.offset * dtype.itemsize,
            strides=tuple(step * dtype.itemsize for step in buffer.strides),
        )

    def poison(self, buffer: Buffer) -> None:
        """Make what *buffer* holds useless."""
        self.regions[buffer][...] = POISON


def bytes_of(array: Array) -> Bytes:
    """Return the bytes of *array*, where they lie or in a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


Step = Callable[[Memory], None]


def timed(step: Step, stamps: list[int]) -> Step:
    """Return *step* that also appends to *stamps* when it began and ended, in nanoseconds."""

    def run(memory: Memory) -> None:
        began = time.perf_counter_ns()
        step(memory)
        stamps.extend((began, time.perf_counter_ns()))

    return run


def step_of(instruction: Instruction) -> Step:
    """Return what executes *instruction*."""
    match instruction:
        case TensorView():
            return lambda memory: None  # noqa: ARG005  a view costs nothing
        case Alloc() | Dealloc():
            return lambda memory: memory.poison(instruction.dest)
    if isinstance(instruction, StackInst):
        return _stack_step(instruction)
    if instruction.scalar:
        return _watched(instruction, lambda memory: _run_scalar(instruction, memory))
    if isinstance(instruction, NodeInstruction):
        node = instruction.as_node()
        return _watched(instruction, lambda memory: _run_node(instruction, node, memory))
    raise UnsupportedError(
        f"{instruction}: it has neither a scalar expression nor an operator, one of which the "
        "interpreter needs"
    )


def _watched(instruction: Instruction, step: Step) -> Step:
    """Return *step* that also reports its results to the observer of the memory."""

    def run(memory: Memory) -> None:
        step(memory)
        if memory.watch is not None:
            for dest in mutated(instruction):
                memory.watch(instruction, memory.array(dest))

    return run


def _stack_step(stack: StackInst) -> Step:
    """Return what executes *stack*: its body in order, each result in an array of its own.

    Memory is written at the end, since a result may lie on what a later member of the body reads.
    """
    arrays: dict[Buffer, Buffer] = {}
    steps = []
    for instruction in stack.body:
        (dest,) = mutated(instruction)
        if dest not in read(instruction):
            arrays[dest] = dest if isinstance(dest, Register) else Register(dest.name, dest.type)
        steps.append(step_of(map_operands(instruction, lambda b: arrays.get(b, b))))

    def run(memory: Memory) -> None:
        for register in arrays.values():
            memory.regions[register] = np.full(register.type.size_bytes, POISON, np.uint8)
        for step in steps:
            step(memory)
        for dest, register in arrays.items():
            if dest is not register:
                memory.array(dest)[...] = memory.array(register)
            del memory.regions[register]

    return run


def _run_scalar(instruction: Instruction, memory: Memory) -> None:
    """Evaluate the scalar expression on whole arrays; NumPy broadcasts like instructions do."""
    (dest,) = mutated(instruction)
    operands = {
        spec.name: memory.array(getattr(instruction, spec.name))
        for spec in operand_specs(type(instruction))
    }
    memory.array(dest)[...] = evaluate_scalar(instruction, operands, dest.type.kind)


def _run_node(instruction: Instruction, node: Node, memory: Memory) -> None:
    """Let the node's ``evaluate`` compute what the instruction means, and store the results.

    The operator's definition is the only place that says what a convolution is; so the interpreter
    checks memory, views and order, and the operators themselves are checked against NumPy and other
    engines by their own tests. ``evaluate`` takes one array for each operand field of the node, in
    order, and the instruction repeats these fields after its ``@out`` operands.
    """
    arguments: list[Any] = []
    for spec in operand_specs(type(instruction)):
        if spec.qualifier and spec.qualifier.name == "out":
            continue
        operand = getattr(instruction, spec.name)
        if spec.is_variadic:
            arguments.append(tuple(map(memory.array, operand)))
        else:
            arguments.append(None if operand is None else memory.array(operand))
    results = memory.evaluate(node, arguments)
    arrays: Iterable[Array] = results if isinstance(results, tuple) else (results,)
    for buffer, array in zip(mutated(instruction), arrays, strict=True):
        memory.array(buffer)[...] = array
