"""The reference backend: executes a program with NumPy over a real arena.

Every operand is a NumPy view at the offset that the allocator chose, so a wrong placement, lifetime
or view leads to wrong numbers. Memory outside of lifetimes is poisoned.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from glow_nb.backends.backend import Backend, Timings
from glow_nb.backends.interpreter_steps import (
    POISON as POISON,
)
from glow_nb.backends.interpreter_steps import (
    Evaluate,
    Memory,
    Step,
    Watch,
    bytes_of,
    evaluate_node,
    step_of,
    timed,
)
from glow_nb.base.errors import FeedError, VerifyError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.steps import Entries
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node
from glow_nb.hlir.ops import Recurrence, RecurrenceGradient
from glow_nb.llir.cost import instruction_cost
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
from glow_nb.llir.order_placement import placed_for
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import (
    Buffer,
    Instruction,
    Program,
    is_marker,
)
from glow_nb.llir.traits import FUSES_BOTH, FUSES_EPILOGUE, KernelTraits, Traits
from glow_nb.llir.with_sizes import guards_of, is_open, symbols_of_program
from glow_nb.system.state_store import StateStore, write_all

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

    It has no kernels: every operator with a lowering is lowered, except loops over steps, which
    would be unrolled. Operators that passes raise again stay, since ``evaluate`` defines every
    operator in NumPy.
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
    def compile(
        self, program: Program, *, threads: int = 1
    ) -> InterpretedProgram | OpenInterpretedProgram:
        """Return an allocated *program*, ready to run; *threads* changes nothing.

        Raises:
            VerifyError: The program is not allocated.
            UnsupportedError: An instruction has no meaning in NumPy.
        """
        return OpenInterpretedProgram(program) if is_open(program) else InterpretedProgram(program)


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
        self._weights = {w: bytes_of(w.array) for w in program.weights}
        self._steps = tuple(step_of(instruction) for instruction in program.instructions)

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
            state: The state that the last run has left, to which this run writes its own; a run
                that fails leaves it unchanged. By default, a first run, whose state is dropped.
            watch: Called with each result of each instruction as soon as it is computed, also
                inside of stacks. The array is memory of the run, which is overwritten later.
            evaluate: Computes an operator on the arrays of its operands.

        Raises:
            FeedError: There are not as many arrays as inputs, or one has another type.
            MemoryLimitError: The system gives no memory for the run.
        """
        return self._execute(inputs, self._steps, watch, evaluate, state)

    def run_on(self, state: StateStore, inputs: Sequence[Array]) -> list[Array]:
        """Run on *inputs*, and on *state* as :meth:`run` does."""
        return self.run(inputs, state=state)

    def limits(self, *, were_beaten: bool = False) -> MachineLimits:
        """Return the peak rates of one core of this machine, on which NumPy runs as well."""
        from glow_nb.codegen.measure_limits import limits_that_were_beaten, machine_limits

        return limits_that_were_beaten(1) if were_beaten else machine_limits(1)

    def timings(self, inputs: Sequence[Array], runs: int) -> Timings:
        """Run *runs* times with the time of each instruction measured, and *runs* times without."""
        stamps: list[int] = []
        pairs = zip(self._program.instructions, self._steps, strict=True)
        steps = [step if is_marker(i) else timed(step, stamps) for i, step in pairs]
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

        *known* has all buffers that it reads, except weights, and those that it writes; *watch* is
        called with each result.
        """
        memory = Memory(self._program, self._arena, self._weights)
        memory.watch = watch
        for buffer, array in known.items():
            memory.regions[buffer] = bytes_of(array).copy()
        with np.errstate(all="ignore"):
            step_of(instruction)(memory)

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
                memory.regions.update({b: bytes_of(a).copy() for b, a in kept.items()})
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
            memory.regions[buffer] = bytes_of(array).copy()


class OpenInterpretedProgram:
    """A program with open sizes that NumPy executes: that of the sizes of each run."""

    source = ""
    scratch_bytes = 0

    def __init__(self, program: Program) -> None:
        """Take an allocated *program*."""
        self._program = program
        self._types = {buffer.name: buffer.type for buffer in program.inputs}
        self._symbols = symbols_of_program(program)
        self.guards = guards_of(program)
        self._known: dict[tuple[int, ...], InterpretedProgram] = {}

    def at(self, sizes: Mapping[str, int]) -> InterpretedProgram:
        """Return the program for *sizes* by name, placed as for these."""
        key = tuple(sizes.values())
        if key not in self._known:
            self._known = {key: InterpretedProgram(placed_for(self._program, sizes))}
        return self._known[key]

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """One entry for each instruction that computes, for the sizes of the example."""
        return self.at({symbol.name: symbol.hint for symbol in self._symbols}).kernels

    @property
    def constant_bytes(self) -> int:
        """Memory that holds the weights."""
        return sum(weight.type.size_bytes for weight in self._program.weights)

    def run(self, inputs: Sequence[Array], *, state: StateStore | None = None) -> list[Array]:
        """Run on *inputs*, whose shapes determine the sizes, and on *state*; return the outputs."""
        return self._for(inputs).run(inputs, state=state)

    def run_on(self, state: StateStore, inputs: Sequence[Array]) -> list[Array]:
        """Do what :meth:`run` does, on *state*."""
        return self.run(inputs, state=state)

    def timings(self, inputs: Sequence[Array], runs: int) -> Timings:
        """Run *runs* times with the time of each instruction measured, and *runs* times without."""
        return self._for(inputs).timings(inputs, runs)

    def _for(self, inputs: Sequence[Array]) -> InterpretedProgram:
        shapes = zip(self._types, (array.shape for array in inputs), strict=True)
        return self.at(sizes_of_shapes(self._types, self._symbols, dict(shapes)))
