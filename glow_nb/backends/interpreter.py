"""The reference backend: executes a program with NumPy over a real arena.

Every operand is a NumPy view at the place that the allocator chose, so a wrong placement, lifetime
or view shows as a wrong number. Memory that holds nothing yet, or nothing any more, is poisoned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from glow_nb.backends.backend import Backend, Timings
from glow_nb.backends.scalar_numpy import evaluate_scalar
from glow_nb.base.errors import FeedError, GlowError, UnsupportedError, VerifyError
from glow_nb.base.foreign import foreign
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.schema import map_operands, operand_specs
from glow_nb.base.steps import Entries
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node
from glow_nb.hlir.ops import Recurrence, RecurrenceGradient
from glow_nb.llir.cost import instruction_cost
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.instructions.normalization import (
    LayerNormalizationInst,
    LogSoftmaxInst,
    SoftmaxInst,
)
from glow_nb.llir.instructions.pooling import AvgPoolInst, MaxPoolInst
from glow_nb.llir.instructions.random import RandomBitsInst
from glow_nb.llir.instructions.reduction import (
    ReduceMaxInst,
    ReduceMeanInst,
    ReduceMinInst,
    ReduceProdInst,
    ReduceSumInst,
)
from glow_nb.llir.instructions.shape import TransposeInst
from glow_nb.llir.print import print_instruction
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
    is_marker,
    mutated,
    read,
)
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import FUSES_BOTH, FUSES_EPILOGUE, KernelTraits, Traits
from glow_nb.system.state_store import StateStore, write_all

POISON = 0xFF
"""The byte of poisoned memory: NaN as a float of any width, -1 or the largest as an integer."""

Bytes = npt.NDArray[np.uint8]

Watch = Callable[[Instruction, Array], None]
Evaluate = Callable[[Node, Sequence[Any]], Any]


def evaluate_node(node: Node, arguments: Sequence[Any]) -> Any:
    """Return what *node* means on the arrays of its operand fields."""
    with foreign(GlowError, f"{node!r}: evaluate"):
        return node.evaluate(*arguments)


TRAITS: Traits = {
    **dict.fromkeys((MaxPoolInst, AvgPoolInst, RandomBitsInst), FUSES_EPILOGUE),
    **dict.fromkeys((ReduceSumInst, ReduceMeanInst, ReduceProdInst), FUSES_BOTH),
    **dict.fromkeys((ReduceMaxInst, ReduceMinInst), FUSES_BOTH),
    **dict.fromkeys((SoftmaxInst, LogSoftmaxInst, LayerNormalizationInst), FUSES_BOTH),
    TransposeInst: KernelTraits(strided=("dest", "input")),
}
"""NumPy can evaluate any stack over any views; these make programs like those of kernels."""


class Interpreter(Backend):
    """Runs programs with NumPy, one instruction after another, on one thread.

    It has no kernels: everything is lowered that has a rule, but for loops over steps, which would
    be unrolled. What passes raise again stays, since NumPy knows what every operator means.
    """

    name = "interpreter"
    traits = TRAITS

    @override
    def should_lower(self, node: Node) -> bool:
        return not isinstance(node, Recurrence | RecurrenceGradient)

    @property
    @override
    def graph_pipeline(self) -> Entries:
        """Nothing to lower again."""
        return ()

    @override
    def compile(self, program: Program, *, threads: int = 1) -> InterpretedProgram:
        """Return an allocated *program*, ready to run; *threads* changes nothing.

        Raises:
            VerifyError: The program is not allocated.
            UnsupportedError: NumPy does not know what an instruction means.
        """
        return InterpretedProgram(program)


class InterpretedProgram:
    """A program that NumPy executes; holds nothing between runs, so threads may share it."""

    source = ""
    scratch_bytes = 0

    def __init__(self, program: Program) -> None:
        """Prepare each instruction of an allocated *program*."""
        if program.arena is None:
            raise VerifyError(program, "the program is not allocated; call allocate() first")
        self._program = program
        self._arena = program.arena
        self._weights = {w: _bytes_of(w.array) for w in program.weights}
        self._steps = tuple(_step_of(instruction) for instruction in program.instructions)

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """One entry for each instruction that computes; nothing is generated."""
        return tuple(
            KernelReport(
                instruction=print_instruction(i),
                origin=i.name,
                family=i.opcode,
                cost=instruction_cost(i),
                origins=i.imported_names,
                opcode=i.opcode,
            )
            for i in self._program.work
        )

    @property
    def constant_bytes(self) -> int:
        """Memory that holds the weights."""
        return sum(weight.type.size_bytes for weight in self._program.weights)

    def run(
        self,
        inputs: Sequence[Array],
        *,
        state: StateStore | None = None,
        watch: Watch | None = None,
        evaluate: Evaluate = evaluate_node,
    ) -> list[Array]:
        """Run on *inputs* in the program's order; return its outputs in order.

        Args:
            inputs: One array for each input.
            state: What the last run has left, and where this one leaves its own; a run that fails
                leaves it as it was. By default, a first run, which leaves nothing.
            watch: Called with each result of each instruction when it is made, those inside of
                stacks included. The array is memory of the run, which is written again later.
            evaluate: Computes what an operator means on the arrays of its operands.

        Raises:
            FeedError: There are not as many arrays as inputs, or one has another type.
            MemoryLimitError: The system gives no memory for the run.
        """
        return self._execute(inputs, self._steps, watch, evaluate, state)

    def run_on(self, state: StateStore, inputs: Sequence[Array]) -> list[Array]:
        """Run on *inputs*, and on *state* as :meth:`run` does."""
        return self.run(inputs, state=state)

    def limits(self, *, were_beaten: bool = False) -> MachineLimits:
        """Return what one core of this machine can do at best, which NumPy runs on as well."""
        from glow_nb.codegen.measure_limits import limits_that_were_beaten, machine_limits

        return limits_that_were_beaten(1) if were_beaten else machine_limits(1)

    def timings(self, inputs: Sequence[Array], runs: int) -> Timings:
        """Run *runs* times with the time taken around each instruction, and as often without."""
        stamps: list[int] = []
        pairs = zip(self._program.instructions, self._steps, strict=True)
        steps = [step if is_marker(i) else _timed(step, stamps) for i, step in pairs]
        seconds: list[float] = []
        for _ in range(runs):
            self._execute(inputs, steps)
            began = time.perf_counter()
            self._execute(inputs, self._steps)
            seconds.append(time.perf_counter() - began)
        shape = (runs, 1, len(self._program.work), 2)
        return Timings(np.array(stamps, np.int64).reshape(shape), tuple(seconds))

    def results_of(
        self, instruction: Instruction, known: Mapping[Buffer, Array], watch: Watch
    ) -> None:
        """Execute one *instruction* of the program on what the buffers hold that are *known*.

        Those are all that it reads, but for weights, and what it writes; *watch* is told of each
        result.
        """
        memory = Memory(self._program, self._arena, self._weights)
        memory.watch = watch
        for buffer, array in known.items():
            memory.regions[buffer] = _bytes_of(array).copy()
        with np.errstate(all="ignore"):
            _step_of(instruction)(memory)

    def _execute(
        self,
        inputs: Sequence[Array],
        steps: Sequence[Step],
        watch: Watch | None = None,
        evaluate: Evaluate = evaluate_node,
        state: StateStore | None = None,
    ) -> list[Array]:
        program = self._program
        store = StateStore(program.state) if state is None else state
        with store.for_a_run() as lent:
            kept = {buffer: lent.array(buffer.name, buffer.type) for buffer in program.state}
            try:
                memory = Memory(program, self._arena, self._weights)
                memory.watch, memory.evaluate = watch, evaluate
                memory.regions.update({b: _bytes_of(a).copy() for b, a in kept.items()})
                self._bind(memory, inputs)
                with np.errstate(all="ignore"):
                    for step in steps:
                        step(memory)
            except MemoryError as error:
                raise out_of_memory(f"network {program.name!r}", error) from error
            write_all((array, memory.array(buffer)) for buffer, array in kept.items())
        return [memory.array(output) for output in program.outputs]

    def _bind(self, memory: Memory, arrays: Sequence[Array]) -> None:
        wanted = self._program.inputs
        if len(arrays) != len(wanted):
            raise FeedError(f"{self._program!r}: {len(wanted)} inputs, got {len(arrays)} arrays")
        for buffer, array in zip(wanted, arrays, strict=True):
            found = TensorType.of(array)
            if (found.kind, found.shape) != (buffer.type.kind, buffer.type.shape):
                raise FeedError(f"input {buffer!r} is {buffer.type}, got an array of {found}")
            memory.regions[buffer] = _bytes_of(array).copy()


class Memory:
    """The memory of one run: the arena, and the regions of weights, inputs and outputs.

    Attributes:
        regions: The bytes of each region.
        watch: What is told of each result, if anything is.
        evaluate: What computes the operators.
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


def _bytes_of(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


Step = Callable[[Memory], None]


def _timed(step: Step, stamps: list[int]) -> Step:
    """Return *step* that also appends to *stamps* when it began and ended, in nanoseconds."""

    def run(memory: Memory) -> None:
        began = time.perf_counter_ns()
        step(memory)
        stamps.extend((began, time.perf_counter_ns()))

    return run


def _step_of(instruction: Instruction) -> Step:
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
        f"{instruction}: the interpreter knows neither a scalar expression nor an operator for it"
    )


def _watched(instruction: Instruction, step: Step) -> Step:
    """Return *step* that also tells who watches the memory what it made."""

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
        steps.append(_step_of(map_operands(instruction, lambda b: arrays.get(b, b))))

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
