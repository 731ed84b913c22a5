"""Random numbers have the same bits for any threads, vectors and neighbours, and on any backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.kernels.target import Target
from tests.in_turn import one_in

FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64
SIZES = (1, 2, 3, 4, 5, 8, 17, 64, 67)
Neighbour = Callable[[Builder, Value, Value], Value]


def row_added(builder: Builder, x: Value, row: Value) -> Value:
    return builder.emit(ops.Add(x, row))


def turned_over(builder: Builder, x: Value, row: Value) -> Value:
    transposed = builder.emit(ops.Transpose(x, (1, 0)))
    return builder.emit(ops.Transpose(builder.emit(ops.Neg(transposed)), (1, 0)))


def summed(builder: Builder, x: Value, row: Value) -> Value:
    return builder.emit(ops.ReduceMax(x, axes=(1,), keep_dims=True))


def sliced(builder: Builder, x: Value, row: Value) -> Value:
    shape = x.type.shape
    return builder.emit(ops.Slice(x, (0, shape[1] // 2), shape, (1, 1)))


NEIGHBOURS: tuple[Neighbour, ...] = (row_added, turned_over, summed, sliced)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Function, dict[str, Array]]:
    """Draw a dropout, whose operand and result have neighbours, and numbers by themselves."""
    shape = draw(st.sampled_from(SIZES)), draw(st.sampled_from(SIZES))
    builder, rng = Builder(), np.random.default_rng(draw(st.integers(0, 99)))
    generator = builder.input("generator", "int64<2>")
    x = builder.input("x", f"float32<{shape[0]} x {shape[1]}>")
    row = builder.input("row", f"float32<1 x {shape[1]}>")
    stream = draw(st.integers(0, 2**32 - 1))
    value: Value = x
    for neighbour in draw(st.lists(st.sampled_from(NEIGHBOURS[:2]), max_size=1)):
        value = neighbour(builder, value, row)
    ratio = draw(st.sampled_from((0.0, 0.1, 0.5, 1.0)))
    value = builder.emit(ops.Dropout(value, generator, ratio, stream))
    for neighbour in draw(st.lists(st.sampled_from(NEIGHBOURS), max_size=1)):
        value = neighbour(builder, value, row)
    builder.save(value, "dropped")
    kind = draw(st.sampled_from((FLOAT32, FLOAT64)))
    uniform = ops.RandomUniform(generator, shape[:1], kind, stream=stream)
    builder.save(builder.emit(uniform), "uniform")
    between = ops.RandomUniform(generator, shape[1:], low=-0.1, high=0.2, stream=stream)
    builder.save(builder.emit(between), "between")
    feeds: dict[str, Any] = {"generator": rng.integers(-(2**63), 2**63 - 1, 2)}
    feeds |= {p.name: rng.standard_normal(p.type.shape, np.float32) for p in (x, row)}
    return builder.function(), feeds


@given(graphs())
@settings(max_examples=max(1, settings().max_examples // 5))
def test_the_interpreter_draws_the_same_bits(graph: tuple[Function, dict[str, Array]]) -> None:
    function, feeds = graph
    check(function, feeds, backend="interpreter")


@pytest.mark.jit
@given(graphs(), st.sampled_from((4, 8, 16)), st.integers(1, 3))
@settings(max_examples=max(1, settings().max_examples // 20))
def test_machine_code_draws_the_same_bits(
    graph: tuple[Function, dict[str, Array]], lanes: int, threads: int
) -> None:
    function, feeds = graph
    check(function, feeds, backend=CpuBackend(Target.host(lanes)), threads=threads)


def check(function: Function, feeds: dict[str, Array], **options: Any) -> None:
    """Check that compiled with *options* it computes the bits that its operators say."""
    expected, found = evaluate(function, feeds), glow_nb.compile(function, **options).run(feeds)
    for name, want in expected.items():
        np.testing.assert_array_equal(found[name], want, err_msg=name)


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "ulp"), [(FLOAT32, 2), (FLOAT64, 8)])
@pytest.mark.parametrize("lanes", one_in(3, [4, 8, 16], first=2))
def test_normal_numbers_differ_by_rounding_alone(kind: ElementKind, ulp: int, lanes: int) -> None:
    builder = Builder()
    generator = builder.input("generator", "int64<2>")
    builder.save(builder.emit(ops.RandomNormal(generator, (10_001,), kind)), "y")
    function, feeds = builder.function(), {"generator": np.array([5, 6])}
    found = glow_nb.compile(function, backend=CpuBackend(Target.host(lanes)), threads=2).run(feeds)
    want = evaluate(function, feeds)["y"]
    apart = abs(found["y"] - want) / np.spacing(abs(want))
    assert apart.max() <= ulp
