"""Random stacks around heads keep the meaning: all widths of vectors, several threads.

The graphs are made for stacking: elementwise operators over operands of every broadcast shape, with
pools, reductions, softmax and layer normalization in between, and several results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.stack import StackInst
from tests.property.random_graphs import check_same, feeds_of

T = TypeVar("T")
SHAPES = ((3, 4, 5, 9), (1, 6, 7, 20), (2, 3, 3, 1), (7, 2, 1, 33))
UNARY: tuple[Callable[[Value], Node], ...] = (
    ops.Relu,
    ops.Tanh,
    ops.Sigmoid,
    ops.Neg,
    lambda x: ops.Clip(x, minimum=-1.0, maximum=1.0),
    lambda x: ops.ConvertTo(x, kind=ElementKind.FLOAT64),
)
BINARY = (ops.Add, ops.Sub, ops.Mul, ops.Maximum)
REDUCTIONS = (ops.ReduceSum, ops.ReduceMean, ops.ReduceMax, ops.ReduceMin)
SOFTMAXES = (ops.Softmax, ops.LogSoftmax)


class Maker:
    """Draws one graph; *values* of one shape and kind can meet."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.builder = draw, Builder()
        shape = self.choose(SHAPES)
        self.values: list[Value] = [self.input(shape)]

    def choose(self, items: Sequence[T]) -> T:
        """Return one of *items*."""
        return self.draw(st.sampled_from(items))

    def input(self, shape: tuple[int, ...], kind: ElementKind = ElementKind.FLOAT32) -> Value:
        sizes = " x ".join(map(str, shape))
        return self.builder.input(f"in{len(self.builder.inputs)}", f"{kind.value}<{sizes}>")

    def partner(self, value: Value) -> Value:
        same = [v for v in self.values if v.type == value.type]
        if self.draw(st.booleans()):
            return self.choose(same)
        masks = self.draw(st.lists(st.booleans(), min_size=4, max_size=4))
        shape = value.type.shape
        kept = tuple(n if keep else 1 for n, keep in zip(shape, masks, strict=False))
        return self.input(kept, value.type.kind)

    def grow(self) -> None:
        value = self.values[-1] if self.draw(st.integers(0, 2)) else self.choose(self.values)
        what = self.draw(st.integers(0, 9))
        if what < 3:
            node = self.choose(UNARY)(value)
        elif what < 7:
            node = self.choose(BINARY)(value, self.partner(value))
        else:
            node = self.head(value)
        self.values += self.builder.emit(node).results

    def head(self, value: Value) -> Node:
        rank, kind = len(value.type.shape), value.type.kind
        axis = self.draw(st.integers(0, rank - 1))
        what = self.draw(st.integers(0, 4))
        if what == 0:
            return self.choose(SOFTMAXES)(value, axis=axis)
        if what == 1:
            scale, bias = (self.input(value.type.shape[axis:], kind) for _ in range(2))
            return ops.LayerNormalization(value, scale, bias, axis=axis, epsilon=0.5)
        if what == 2 and rank == 4:
            return ops.MaxPool(
                value, kernel=(2, 2), stride=(1, 1), pads=(1, 0, 0, 1), dilation=(1, 1)
            )
        axes = tuple(sorted({axis, self.draw(st.integers(0, rank - 1))}))
        keep = rank - len(axes) < 2 or self.draw(st.booleans())
        return self.choose(REDUCTIONS)(value, axes=axes, keep_dims=keep)

    def function(self) -> Function:
        for _ in range(self.draw(st.integers(3, 12))):
            self.grow()
        saved = [self.values[-1]]
        others = st.lists(st.sampled_from(self.values[1:]), max_size=2, unique=True)
        saved += [value for value in self.draw(others) if value is not saved[0]]
        for number, value in enumerate(saved):
            self.builder.save(value, f"out{number}")
        return self.builder.function()


@st.composite
def stacks(draw: st.DrawFn) -> Function:
    return Maker(draw).function()


@given(stacks())
def test_stacks_keep_the_meaning_on_the_interpreter(function: Function) -> None:
    feeds = feeds_of(function)
    net = glow_nb.compile(function, backend="interpreter")
    check_same(net.run(feeds), evaluate(function, feeds))


@pytest.mark.jit
@given(stacks(), st.sampled_from(LANE_COUNTS), st.integers(1, 3))
@settings(max_examples=settings().max_examples // 6)
def test_stacks_keep_the_meaning_as_machine_code(
    function: Function, lanes: int, threads: int
) -> None:
    feeds = feeds_of(function)
    net = glow_nb.compile(function, backend=CpuBackend(Target.host(lanes)), threads=threads)
    check_same(net.run(feeds), evaluate(function, feeds))


def test_the_graphs_have_producers_and_riders() -> None:
    found = {"prologue": 0, "epilogue": 0}

    @given(stacks())
    @settings(max_examples=60)
    def look(function: Function) -> None:
        for work in glow_nb.compile(function, backend="interpreter").program.work:
            if isinstance(work, StackInst) and work.head is not None:
                found["prologue"] += bool(work.prologue)
                found["epilogue"] += bool(work.epilogue)

    look()
    assert min(found.values()) >= 10, found
