"""The time of the candidates of a product on this machine, measured as in a run.

Each candidate becomes a small program of its own. Its first kernel reads a large block of memory,
so that the weights are no nearer than in a run of the whole network; its second one writes the
operands, so that these are as near as an earlier kernel would leave them; then comes what is
measured. The candidates are measured in turn, some rounds, and the shortest time of each counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from glow_nb.backends.backend import kernel_ns
from glow_nb.backends.cpu.algorithms import Candidate, algorithm_of
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.backends.cpu.products import Product
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.compiler.driver import run_to
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.hlir.ops import Maximum, ReduceMax, Reshape
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Program

PREPARATIONS = frozenset({"reduce_max", "maximum"})
"""Opcodes of the instructions of a program that are not measured."""

ORDER = (
    *("fold_constants", "eliminate_noops", "eliminate_dead_nodes"),
    *("schedule", "generate", "allocate"),
)
"""The steps from a graph to a program to measure: none that could remove the preparations."""

LOWEST = -1e30
"""Below every operand, so that ``maximum`` with it changes nothing."""

DIFFERENT_WEIGHTS = 4093
"""How many random weights are repeated: a prime number, so that few sums of two are zero, which
takes a processor less power."""

SIZE = 0.05
"""Size of a random weight: a usual one, so that results are as large as in networks."""

ROWS = 64
NANOSECONDS = 1e-9
FEWEST_ROUNDS, MOST_ROUNDS = 5, 25
ROUND_SECONDS = 0.25
"""More rounds than the fewest, as long as they take no longer than this."""


def candidate_program(node: Product, candidate: Candidate, far_bytes: int) -> Program:
    """Return the program that measures one *candidate* for *node*.

    Its first input is the block of *far_bytes* bytes to read first; constants are random.
    """
    builder = Builder("candidate")
    columns = max(1, far_bytes // ROWS // 4)
    block = builder.input("block", TensorType(ElementKind.FLOAT32, (ROWS, columns)))
    rows = builder.emit(ReduceMax(block, (1,), True))
    lowest = builder.emit(ReduceMax(rows, (0,), True))

    def operand(value: Value) -> Value:
        if isinstance(value, Constant):
            return builder.constant("weights", _weights(value.type.shape))
        scalar = builder.emit(Reshape(lowest, (1,) * value.type.rank))
        return builder.emit(Maximum(builder.input("operand", value.type), scalar))

    made = builder.emit(node.map_operands(operand))
    builder.save(made, "result")

    def rule(other: Node, rewriter: Rewriter) -> Replacement:
        if isinstance(other, type(node)):
            return algorithm_of(candidate.plan).emit(candidate.plan, other, rewriter)
        return None

    function = rewrite(builder.function(), rule)
    return run_to(Program, function, ORDER)


def _weights(shape: tuple[int, ...]) -> Array:
    """Return random weights, some of which are alike."""
    few = np.random.default_rng(0).normal(scale=SIZE, size=DIFFERENT_WEIGHTS).astype(np.float32)
    return np.resize(few, prod(shape)).reshape(shape)


def measure_programs(programs: Sequence[Program], target: Target, threads: int) -> list[float]:
    """Return the shortest time in seconds that each of *programs* took, run in turn.

    They have the same inputs.
    """
    inputs = _inputs(programs[0])
    clocks = [_clock(CpuExecutable(p, target, threads=threads), inputs) for p in programs]
    best = [clock() for clock in clocks]  # also brings the code into memory
    rounds = int(ROUND_SECONDS / max(sum(best), 1e-6))
    for _ in range(min(max(rounds, FEWEST_ROUNDS), MOST_ROUNDS)):
        best = [min(seconds, clock()) for seconds, clock in zip(best, clocks, strict=True)]
    return best


def _inputs(program: Program) -> list[Array]:
    rng = np.random.default_rng(1)
    block, *operands = (buffer.type for buffer in program.inputs)
    random = (rng.standard_normal(type.shape, np.float32) for type in operands)
    return [np.full(block.shape, LOWEST, np.float32), *random]


def _clock(executable: CpuExecutable, inputs: Sequence[Array]) -> Callable[[], float]:
    """Return a function that runs *executable* and returns the time of what is to be measured."""
    counted = [report.opcode not in PREPARATIONS for report in executable.kernels]
    run = executable.stamped_run(inputs)

    def seconds() -> float:
        return float(kernel_ns(run())[counted].sum()) * NANOSECONDS

    return seconds
