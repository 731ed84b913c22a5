"""Instructions in another order: what is gained, what must stay, and that the model is right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from glow_nb.backends import backend_named
from glow_nb.compiler import pipelines
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.kernels.cpu_kernels import CPU_KERNELS
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.optimize.schedule_instructions import steps_of
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from tests.passes_for_cpu import run_passes
from tests.unit.llir.sampling import check_program, functions

UNSCHEDULED = tuple(name for name in pipelines.INSTRUCTIONS if name != "schedule_instructions")


def bound_of(program: Program) -> int:
    arena = allocate(program).arena
    assert arena is not None
    return arena.lower_bound_bytes


def names(program: Program) -> list[str]:
    return [instruction.name for instruction in program.work]


@given(functions())
def test_results_stay_and_the_peak_never_grows(function: Function) -> None:
    for earlier in ((), UNSCHEDULED[: UNSCHEDULED.index("share_buffers")], UNSCHEDULED):
        before = run_passes(generate(function), earlier)
        after = run_passes(before, ("schedule_instructions",))
        check_program(function, after)
        tail = ("share_buffers", "shrink_lifetimes")
        shared = [run_passes(program, tail) for program in (before, after)]
        assert bound_of(shared[1]) <= bound_of(shared[0])


@given(functions())
def test_steps_have_the_peak_that_the_allocator_finds(function: Function) -> None:
    """Results over operands included, and with sizes rounded up as in the arena."""
    program = run_passes(generate(function), ("stack_instructions", "eliminate_copies"))
    shared = run_passes(program, ("share_buffers", "shrink_lifetimes"))
    assert steps_of(program.work, CPU_KERNELS.traits).peak(range(len(program.work))) == bound_of(
        shared
    )


POOLS = """declare @main {
  %x = input float32<1 x 8 x 8 x 16>
  %y = output float32<1 x 1 x 1 x 16>
  %z = output float32<1 x 1 x 1 x 16>
}
program {
  %a = alloc float32<1 x 8 x 8 x 16>
  max_pool @out %a, @in %x {kernel = [3, 3], stride = [1, 1], pads = [1, 1, 1, 1], \
dilation = [1, 1]} from %a
  %b = alloc float32<1 x 8 x 8 x 16>
  max_pool @out %b, @in %x {kernel = [5, 5], stride = [1, 1], pads = [2, 2, 2, 2], \
dilation = [1, 1]} from %b
  reduce_sum @out %y, @in %a {axes = [1, 2], keep_dims = true} from %y
  dealloc %a
  reduce_sum @out %z, @in %b {axes = [1, 2], keep_dims = true} from %z
  dealloc %b
}
"""


def test_a_consumer_comes_right_behind_its_producer() -> None:
    program = parse_program(POOLS)
    after = run_passes(program, ("schedule_instructions",))
    assert names(after) == ["a", "y", "b", "z"]
    assert (bound_of(program), bound_of(after)) == (2 * 4096, 4096)


def test_a_good_order_stays() -> None:
    program = run_passes(parse_program(POOLS), ("schedule_instructions",))
    assert run_passes(program, ("schedule_instructions",)) is program


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("@out %z, @in %b", "@out %z, @in %a", id="the second reader of one value"),
        pytest.param(
            "max_pool @out %b, @in %x", "max_pool @out %b, @in %a", id="one after another"
        ),
    ],
)
def test_what_is_read_is_written_before(old: str, new: str) -> None:
    text = (
        POOLS.replace(old, new)
        .replace("  dealloc %a\n", "")
        .replace("  dealloc %b\n", "  dealloc %a\n  dealloc %b\n")
    )
    program = parse_program(text)
    after = run_passes(program, ("schedule_instructions",))
    feeds = [np.random.default_rng(0).standard_normal((1, 8, 8, 16)).astype(np.float32)]
    for got, want in zip(run(after, feeds), run(program, feeds), strict=True):
        np.testing.assert_array_equal(got, want)


def run(program: Program, feeds: list[np.ndarray]) -> list[np.ndarray]:
    made = compiler.compile_program(allocate(program), backend_named("interpreter"), threads=1)
    return made.executable.run(feeds)


class Cells:
    """Networks of cells as searches for architectures find them, written breadth first.

    A cell reads the two before it, and adds up five pairs of pools and convolutions of what it has
    made so far; what it does not read itself is concatenated.
    """

    def __init__(self, seed: int) -> None:
        self._choices = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._b = Builder("main")

    def network(self, cells: int) -> Function:
        former: Value = self._b.input("x", "float32<1 x 8 x 8 x 8>")
        last = former
        for _ in range(cells):
            states = [self._convolution(former, 1), self._convolution(last, 1)]
            read: set[int] = set()
            for _ in range(5):
                pair = [self._choices.randrange(len(states)) for _ in range(2)]
                read.update(pair)
                lhs, rhs = (self._pool_or_convolution(states[index]) for index in pair)
                states.append(self._b.emit(ops.Add(lhs, rhs)))
            kept = tuple(state for index, state in enumerate(states) if index not in read)
            former, last = last, self._b.emit(ops.Concat(kept, 3))
        self._b.save(last, "y")
        return self._b.function()

    def _pool_or_convolution(self, x: Value) -> Value:
        if self._choices.random() < 0.7:
            return self._convolution(x, 3)
        window: dict[str, Any] = {"kernel": (3, 3), "stride": (1, 1), "pads": (1,) * 4}
        return self._b.emit(ops.MaxPool(x, **window, dilation=(1, 1)))

    def _convolution(self, x: Value, kernel: int) -> Value:
        shape = (8, kernel, kernel, x.type.shape[-1])
        weights = self._b.constant("w", self._numbers.standard_normal(shape, np.float32))
        bias = self._b.constant("bias", self._numbers.standard_normal(8, np.float32))
        window: dict[str, Any] = {"kernel": (kernel, kernel), "stride": (1, 1)}
        pads = (kernel // 2,) * 4
        return self._b.emit(
            ops.Convolution(x, weights, bias, **window, pads=pads, dilation=(1, 1), group=1)
        )


@pytest.mark.parametrize(("cells", "seed"), [(2, 0), (4, 0)])
def test_networks_of_cells_need_less_memory(cells: int, seed: int) -> None:
    """The graph's schedule does not know that a concat is live from its first part on."""
    cpu = backend_named("cpu")
    lowered = compiler.lower_for(Cells(seed).network(cells), cpu)
    before = compiler.build_program(lowered, cpu, pipeline=UNSCHEDULED)
    after = compiler.build_program(lowered, cpu)
    assert before.arena is not None
    assert after.arena is not None
    assert after.arena.size_bytes == after.arena.lower_bound_bytes
    assert after.arena.size_bytes < before.arena.size_bytes
