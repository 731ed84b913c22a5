"""States in programs: written over their old values, and never before these were read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from glow_nb.backends import backend_named
from glow_nb.base.errors import VerifyError
from glow_nb.fuse.stack_instructions import stack_instructions
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, State, Value
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.reduction import ReduceMaxInst
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Instruction, Program, StateBuffer, mutated, read
from glow_nb.llir.stack import StackInst
from glow_nb.llir.traits import KernelTraits
from glow_nb.llir.verify import may_overlap, verify
from glow_nb.network import compilation as compiler
from tests.property.random_graphs import functions

WIDE = np.ones((8, 16), np.float32)


def layer() -> tuple[Builder, State, Value]:
    """Return a builder of ``y = x w``, the weight, and its gradient ``x^T g``."""
    b = Builder("train")
    x, g = b.input("x", "float32<4 x 8>"), b.input("g", "float32<4 x 16>")
    w = b.state("w", WIDE)
    gradient = b.emit(ops.MatMul(b.emit(ops.Transpose(x, (1, 0))), g))
    b.save(b.emit(ops.MatMul(x, w)), "y")
    return b, w, gradient


def scaled(b: Builder, value: Value, factor: float) -> Value:
    return b.emit(ops.Mul(value, b.constant("c", np.full((1, 1), factor, np.float32))))


def descent() -> Function:
    """Return a step of gradient descent, whose weight is read once more after the update."""
    b, w, gradient = layer()
    b.update(w, b.emit(ops.Sub(w, scaled(b, gradient, 0.1))))
    b.save(b.emit(ops.ReduceSum(w, (0,))), "total")  # emitted after the update
    return b.function()


def momentum() -> Function:
    """Return a step with momentum, whose next value two readers have."""
    b, w, gradient = layer()
    v = b.state("v", WIDE)
    velocity = b.emit(ops.Add(scaled(b, v, 0.9), gradient))
    b.update(v, velocity)
    b.update(w, b.emit(ops.Sub(w, scaled(b, velocity, 0.1))))
    return b.function()


def adam() -> Function:
    """Return a step of Adam without the correction of its bias."""
    b, w, gradient = layer()
    first, second = b.state("first", WIDE), b.state("second", WIDE)
    mean = b.emit(ops.Add(scaled(b, first, 0.9), scaled(b, gradient, 0.1)))
    square = b.emit(ops.Mul(gradient, gradient))
    variance = b.emit(ops.Add(scaled(b, second, 0.999), scaled(b, square, 0.001)))
    step = b.emit(ops.Div(mean, b.emit(ops.Sqrt(variance))))
    b.update(first, mean)
    b.update(second, variance)
    b.update(w, b.emit(ops.Sub(w, scaled(b, step, 0.01))))
    return b.function()


def optimized(function: Function) -> Program:
    cpu = backend_named("cpu", threads=1)
    return compiler.build_program(compiler.lower_for(function, cpu), cpu)


@pytest.mark.parametrize("make", [descent, momentum, adam])
def test_an_update_is_one_kernel_without_memory_of_its_own(make: object) -> None:
    assert callable(make)
    function = make()
    program = optimized(function)
    states = set(program.state)
    updates = [i for i in program.work if any(b.root in states for b in mutated(i))]
    assert len(updates) == 1
    assert {b.root for b in mutated(updates[0])} == states
    assert all(a.type.size_bytes < WIDE.nbytes for a in program.activations), str(program)


def test_a_head_that_may_store_twice_does_not_overwrite_what_it_reads_again() -> None:
    text = """declare @main {
      %w = state float32<2>, splat 1.0
      %x = input float32<2 x 3>
    }
    program {
      %m = alloc float32<2>
      reduce_max @out %m, @in %x {axes = [1], keep_dims = false}
      add @out %w, @in %w, @in %m
      dealloc %m
    }"""
    program = parse_program(text)
    twice = KernelTraits(fuses_epilogue=True, reaches_all=True)
    assert stack_instructions(program, traits={ReduceMaxInst: twice}) is program
    once = dataclasses.replace(twice, stores_once=True)
    (stack,) = stack_instructions(program, traits={ReduceMaxInst: once}).work
    assert isinstance(stack, StackInst)


def test_parts_of_a_next_value_are_made_where_the_state_has_them() -> None:
    b = Builder()
    x, old = b.input("x", "float32<2 x 8>"), b.state("old", np.zeros((4, 8), np.float32))
    b.save(b.emit(ops.ReduceSum(old, (0,))), "y")
    b.update(old, b.emit(ops.Concat((b.emit(ops.Neg(x)), b.emit(ops.Exp(x))), axis=0)))
    program = optimized(b.function())
    assert not program.activations
    verify(program)


def test_a_scatter_into_a_state_is_done_where_it_lies() -> None:
    b = Builder()
    cache = b.state("cache", np.zeros((6, 4), np.float32))
    place, row = b.input("place", "int64<1 x 1>"), b.input("row", "float32<1 x 4>")
    b.update(cache, b.emit(ops.ScatterND(cache, place, row, reduction="none")))
    program = optimized(b.function())
    (scatter,) = program.work
    assert [buffer.root for buffer in mutated(scatter)] == list(program.state)
    assert not program.activations


def old_and_new(work: tuple[Instruction, ...]) -> list[tuple[int, int]]:
    """Return the numbers of instructions that read a state, with a later one that writes it."""
    return [
        (early, late)
        for late, writer in enumerate(work)
        for early, reader in enumerate(work[:late])
        if any(
            isinstance(new.root, StateBuffer) and may_overlap(old, new)
            for new in mutated(writer)
            for old in read(reader)
        )
    ]


def program_of(function: Function, *, optimizes: bool) -> Program:
    return optimized(function) if optimizes else generate(function)


@given(functions(max_nodes=8), st.booleans(), st.integers(0, 99))
@settings(max_examples=settings().max_examples // 5)
def test_an_old_value_is_not_read_behind_the_next(
    function: Function, optimizes: bool, choice: int
) -> None:
    program = program_of(function, optimizes=optimizes)
    pairs = old_and_new(program.work)
    assume(pairs)
    early, late = pairs[choice % len(pairs)]
    work = list(program.work)
    work.insert(late, work.pop(early))
    with pytest.raises(VerifyError):
        verify(program.with_instructions(mark_lifetimes(work)))


@given(functions(max_nodes=8), st.booleans())
@settings(max_examples=settings().max_examples // 5)
def test_a_state_is_not_written_twice(function: Function, optimizes: bool) -> None:
    program = program_of(function, optimizes=optimizes)
    writers = [
        i for i in program.work if any(b.root in program.state and b.type.size for b in mutated(i))
    ]
    assume(writers and not isinstance(writers[0], StackInst))
    work = (*program.work, writers[0])
    with pytest.raises(VerifyError, match="written twice|is read for the old value"):
        verify(program.with_instructions(mark_lifetimes(work)))
