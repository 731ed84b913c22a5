"""Attention as exporters write it becomes one node, which means the same on every backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.network import compilation as compiler
from tests.property.drawn_operators import draw_graph
from tests.property.test_drawn_operators import check_close, has_kernels

T = TypeVar("T")
FINITE_MINIMUM = float(np.finfo(np.float32).min)


def part_of(builder: Builder, value: Value, axis: int, places: range) -> Value:
    """Return the elements of *value* at *places* along *axis*."""
    starts, stops = [0] * value.type.rank, list(value.type.shape)
    starts[axis], stops[axis] = places.start, places.stop
    return builder.emit(ops.Slice(value, tuple(starts), tuple(stops), (1,) * value.type.rank))


@dataclass
class Writer:
    """Writes one attention in primitives, by choices that are drawn.

    Attributes:
        choice: Draws one of its arguments.
        batch: Samples.
        groups: Heads of keys.
        share: Heads of queries for each of them.
        queries: Their number.
        keys: Their number.
        depth: Elements of a key.
        width: Elements of a value.
        is_flat: Samples and heads are one axis.
    """

    choice: st.DataObject
    batch: int
    groups: int
    share: int
    queries: int
    keys: int
    depth: int
    width: int
    is_flat: bool

    def __post_init__(self) -> None:
        self.b = Builder()
        self.random = np.random.default_rng(self.one_of(range(100)))

    def one_of(self, choices: Sequence[T]) -> T:
        return self.choice.draw(st.sampled_from(choices))

    def numbers(self, *shape: int) -> Array:
        return self.random.normal(size=shape).astype(np.float32)

    @property
    def heads(self) -> int:
        return self.groups * self.share

    def lead(self) -> tuple[int, ...]:
        return (self.batch * self.heads,) if self.is_flat else (self.batch, self.heads)

    def operand(self, name: str, heads: int, tokens: int, depth: int) -> Value:
        """Return heads of tokens, read from an input of one of four layouts."""
        emit, shape = self.b.emit, (self.batch, tokens, heads, depth)
        layout = self.one_of(("heads", "tokens", "channels", "part of channels"))
        if layout == "heads":
            return self.b.input(
                name, TensorType(ElementKind.FLOAT32, (shape[0], heads, tokens, depth))
            )
        if layout == "tokens":
            value: Value = self.b.input(name, TensorType(ElementKind.FLOAT32, shape))
        elif layout == "part of channels":
            wide = TensorType(ElementKind.FLOAT32, (*shape[:2], 3 + heads * depth))
            part = part_of(self.b, self.b.input(name, wide), 2, range(2, 2 + heads * depth))
            value = emit(ops.Reshape(part, shape))
        else:
            wide = TensorType(ElementKind.FLOAT32, (shape[0], tokens, heads * depth))
            value = emit(ops.Reshape(self.b.input(name, wide), shape))
        return emit(ops.Transpose(value, (0, 2, 1, 3)))

    def scaled(self, value: Value) -> Value:
        if not self.one_of((0, 1)):
            return value
        factor = self.b.constant("f", np.full((1,) * value.type.rank, 0.5, np.float32))
        is_product = self.one_of((True, False))
        return self.b.emit((ops.Mul if is_product else ops.Div)(value, factor))

    def repeated(self, value: Value) -> Value:
        """Return each head of *value* once for each head of queries that reads it."""
        batch, groups, tokens, depth = value.type.shape
        emit = self.b.emit
        if self.share > 1 and groups == 1 and self.one_of((False, True)):
            value = emit(ops.Broadcast(value, (batch, self.share, tokens, depth)))
        elif self.share > 1:
            value = emit(ops.Reshape(value, (batch, groups, 1, tokens, depth)))
            value = emit(ops.Broadcast(value, (batch, groups, self.share, tokens, depth)))
        return emit(ops.Reshape(value, (*self.lead(), tokens, depth)))

    def function(self) -> Function:
        emit = self.b.emit
        q = self.operand("q", self.heads, self.queries, self.depth)
        k = self.repeated(self.operand("k", self.groups, self.keys, self.depth))
        v = self.repeated(self.operand("v", self.groups, self.keys, self.width))
        q = emit(ops.Reshape(q, (*self.lead(), self.queries, self.depth)))
        rank = k.type.rank
        t = emit(ops.Transpose(k, (*range(rank - 2), rank - 1, rank - 2)))
        scores = self.scaled(emit(ops.MatMul(self.scaled(q), self.scaled(t))))
        if self.one_of((0, 0, 1)):
            cap = self.b.constant("cap", np.full((1,) * rank, 1.5, np.float32))
            scores = emit(ops.Mul(emit(ops.Tanh(emit(ops.Div(scores, cap)))), cap))
        weights: Value = emit(ops.Softmax(self.hidden(scores), axis=rank - 1))
        if self.one_of((0, 0, 1)):
            zero = self.b.constant("zero", np.zeros((1,) * rank, np.float32))
            weights = emit(ops.Select(emit(ops.IsNaN(weights)), zero, weights))
        result: Value = emit(ops.MatMul(weights, v))
        if self.one_of((0, 1)):
            shape = (self.batch, self.heads, self.queries, self.width)
            result = emit(ops.Reshape(result, shape))
            result = emit(ops.Transpose(result, (0, 2, 1, 3)))
        self.b.save(result, "y")
        return self.b.function()

    def hidden(self, scores: Value) -> Value:
        """Return *scores* with some hidden, in one of the ways that are found."""
        form = self.one_of(("none", "added", "triangle", "chosen", "chosen triangle", "padding"))
        emit, rank = self.b.emit, scores.type.rank
        rows = (self.queries, self.keys)
        seen = np.tri(*rows, self.keys - self.queries, dtype=np.bool_).reshape(
            (1,) * (rank - 2) + rows
        )
        fill = self.one_of((-np.inf, FINITE_MINIMUM) if form != "padding" else (-np.inf,))
        lost = self.b.constant("lost", np.full((1,) * rank, fill, np.float32))
        if form == "added":
            mask = self.numbers(*(1,) * (rank - 2), *rows)
            return emit(ops.Add(scores, self.b.constant("mask", mask)))
        if form == "triangle":
            triangle = self.b.constant("triangle", np.where(seen, 0, fill).astype(np.float32))
            return emit(ops.Add(triangle, scores))
        if form in ("chosen", "chosen triangle"):
            is_known = form == "chosen triangle"
            type = TensorType(ElementKind.BOOL, seen.shape)
            shown = self.b.constant("seen", seen) if is_known else self.b.input("seen", type)
            if self.one_of((0, 1)):
                return emit(ops.Select(shown, scores, lost))
            return emit(ops.Select(emit(ops.Not(shown)), lost, scores))
        if form == "padding":  # for each sample, as a mask of an input
            shape = (self.batch, 1, 1, self.keys)
            shown = self.b.input("seen", TensorType(ElementKind.BOOL, shape))
            bias = emit(ops.Select(shown, self.zero(4), self.filled(4)))
            if self.is_flat:
                whole = (self.batch, self.heads, *rows)
                apart = emit(ops.Reshape(scores, whole))
                return emit(ops.Reshape(emit(ops.Add(apart, bias)), scores.type.shape))
            return emit(ops.Add(scores, bias))
        return scores

    def zero(self, rank: int) -> Value:
        return self.b.constant("zero", np.zeros((1,) * rank, np.float32))

    def filled(self, rank: int) -> Value:
        return self.b.constant("hidden", np.full((1,) * rank, -np.inf, np.float32))


@st.composite
def written(draw: st.DrawFn) -> Function:
    names = ("batch", "groups", "share", "queries", "keys", "depth", "width")
    sizes = {name: draw(st.integers(1, 4)) for name in names}
    return Writer(draw(st.data()), is_flat=draw(st.booleans()), **sizes).function()


def feeds_of(function: Function, *, nan: bool = False) -> dict[str, Array]:
    """Return numbers for the inputs, masks that may hide a row whole, one number NaN if wanted."""
    random = np.random.default_rng(len(function.nodes))
    feeds: dict[str, Array] = {}
    for place in function.inputs:
        shape = place.type.shape
        is_bool = place.type.kind is ElementKind.BOOL
        numbers = random.random(shape) > 0.4 if is_bool else random.normal(size=shape)
        feeds[place.name] = numbers.astype(place.type.kind.dtype)
    if nan:
        feeds["q"].flat[0] = np.nan
    return feeds


def check(function: Function, changed: Function, *, nan: bool) -> None:
    feeds = feeds_of(function, nan=nan)
    check_exactly(evaluate(changed, feeds), evaluate(function, feeds))


def check_exactly(found: dict[str, Array], expected: dict[str, Array]) -> None:
    """Check that results are close, and NaN in the same places."""
    check_close(found, expected)
    for name, want in expected.items():
        np.testing.assert_array_equal(np.isnan(found[name]), np.isnan(want))


@given(written(), st.booleans())
def test_written_attention_is_one_node(function: Function, nan: bool) -> None:
    optimized = compiler.optimize(function)
    assert [n.opcode for n in optimized].count("attention") == 1
    moving = {"transpose", "broadcast", "softmax", "mat_mul"}
    assert not moving & {node.opcode for node in optimized}
    check(function, optimized, nan=nan)


@given(written(), st.booleans())
def test_the_interpreter_computes_written_attention(function: Function, nan: bool) -> None:
    feeds = feeds_of(function, nan=nan)
    net = glow_nb.compile(function, backend="interpreter", threads=1)
    check_exactly(net.run(feeds), evaluate(function, feeds))


@pytest.mark.jit
@given(written(), st.integers(1, 3), st.booleans())
@settings(max_examples=max(1, settings().max_examples // 16))
def test_machine_code_computes_written_attention(
    function: Function, threads: int, nan: bool
) -> None:
    feeds = feeds_of(function, nan=nan)
    check_exactly(glow_nb.compile(function, threads=threads).run(feeds), evaluate(function, feeds))


@pytest.mark.jit
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
@settings(max_examples=max(1, settings().max_examples // 20))
def test_machine_code_of_drawn_attention_keeps_its_meaning(seed: int, threads: int) -> None:
    drawn = draw_graph([ops.Attention] * 4, seed, has_kernels)
    found = glow_nb.compile(drawn.function, threads=threads).run(drawn.feeds)
    check_close(found, evaluate(drawn.function, drawn.feeds))


@pytest.mark.jit
@given(*[st.integers(1, 3)] * 2, *[st.integers(2, 20)] * 2, st.booleans(), st.integers(1, 3))
@settings(max_examples=max(1, settings().max_examples // 20))
def test_heads_are_read_where_one_projection_has_them(
    batch: int, heads: int, tokens: int, depth: int, is_split: bool, threads: int
) -> None:
    b, width = Builder(), heads * depth
    x = b.input("x", TensorType(ElementKind.FLOAT32, (batch, tokens, 3 * width)))
    projected = b.emit(ops.Exp(x))
    parts: list[Value] = []
    for number in range(3):
        if is_split:
            cut = part_of(b, projected, 2, range(number * width, (number + 1) * width))
            cut = b.emit(ops.Reshape(cut, (batch, tokens, heads, depth)))
            parts.append(b.emit(ops.Transpose(cut, (0, 2, 1, 3))))
        else:
            apart = b.emit(ops.Reshape(projected, (batch, tokens, 3, heads, depth)))
            moved = b.emit(ops.Transpose(apart, (2, 0, 3, 1, 4)))
            cut = part_of(b, moved, 0, range(number, number + 1))
            parts.append(b.emit(ops.Reshape(cut, (batch, heads, tokens, depth))))
    query, key, value = parts
    result = b.emit(ops.Attention(query, key, value, None, scale=depth**-0.5))
    b.save(b.emit(ops.Transpose(result, (0, 2, 1, 3))), "y")
    function = b.function()
    net = glow_nb.compile(function, threads=threads)
    assert "copy" not in [instruction.opcode for instruction in net.program.work]
    feeds = feeds_of(function)
    check_exactly(net.run(feeds), evaluate(function, feeds))
