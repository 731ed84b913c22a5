"""Random graphs of integers and booleans, of any rank and size, none and nothing included.

Their results are compared bit for bit: integers wrap, and no pass may change that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, Node, Value
from tests.property.random_graphs import Draw

KINDS = (
    ElementKind.INT32,
    ElementKind.INT64,
    ElementKind.INT8,
    ElementKind.UINT8,
    ElementKind.UINT32,
)
ARITHMETIC = (ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum, ops.Div)
BITWISE = (ops.BitwiseAnd, ops.BitwiseOr, ops.BitwiseXor)
COMPARISONS = (ops.Less, ops.LessEqual, ops.Greater, ops.GreaterEqual, ops.Equal)
LOGIC = (ops.And, ops.Or, ops.Xor)
REDUCTIONS = (ops.ReduceSum, ops.ReduceMax, ops.ReduceMin, ops.ReduceProd)
NUMBERS = (0, 1, -1, 2, 3, 127, -128, 2**31 - 1, -(2**31))


@dataclass
class IntegerGraph:
    """Draws one graph, node by node, over a pool of the values made so far."""

    draw: Draw
    builder: Builder = field(default_factory=Builder)
    pool: list[Value] = field(default_factory=list)

    def integer(self, low: int, high: int) -> int:
        """Draw a whole number from *low* to *high*, both included."""
        return self.draw(st.integers(low, high))

    def pick(self, items: Any) -> Any:
        """Draw one of *items*."""
        return items[self.integer(0, len(items) - 1)]

    def numbers(self, kind: ElementKind) -> list[Value]:
        return [value for value in self.pool if value.type.kind is kind]

    def constant(self, value: Value) -> Constant:
        """Return a constant that broadcasts to *value*: one number, or several."""
        shape = tuple(n if self.integer(0, 1) else 1 for n in value.type.shape)
        first, second = (self.pick(NUMBERS) for _ in range(2))
        array = np.full(shape, first, np.int64)
        if self.integer(0, 1) and array.size:
            array.flat[-1] = second
        return self.builder.constant("c", array.astype(value.type.kind.dtype))

    def partner(self, value: Value) -> Value:
        same = [other for other in self.pool if other.type == value.type]
        return self.pick(same) if self.integer(0, 1) else self.constant(value)

    def add(self, node: Node) -> None:
        self.pool.extend(self.builder.emit(node).results)

    def grow(self) -> None:
        """Add one random operator."""
        value = self.pick(self.pool)
        makers = (self.arithmetic, self.unary, self.choose, self.reduce, self.move, self.cut,
                  self.scatter)  # fmt: skip
        self.pick(makers)(value)

    def arithmetic(self, value: Value) -> None:
        other = self.partner(value)
        if value.type.kind is ElementKind.BOOL:
            node = self.pick(LOGIC)
        elif value.type.kind.is_float:
            node = self.pick((ops.Add, ops.Maximum, ops.Minimum))
        else:
            node = self.pick((*ARITHMETIC, *BITWISE))
        if node is ops.Div:
            other = self.builder.constant(
                "d", np.full((1,) * value.type.rank, 3, value.type.kind.dtype)
            )
        pair = (value, other) if self.integer(0, 1) or node is ops.Div else (other, value)
        self.add(node(*pair))

    def unary(self, value: Value) -> None:
        kind = value.type.kind
        if kind is ElementKind.BOOL:
            self.add(ops.Not(value))
        elif self.integer(0, 1):
            low = self.integer(0, 5)
            self.add(ops.Clip(value, minimum=float(low), maximum=float(low + self.integer(-1, 3))))
        elif kind in ops.Neg.kinds:
            self.add(self.pick((ops.Neg, ops.Abs, ops.Sign, ops.Relu))(value))
        else:
            self.add(ops.ConvertTo(value, kind=self.pick(KINDS)))

    def choose(self, value: Value) -> None:
        if value.type.kind is ElementKind.BOOL:
            same = [v for v in self.pool if v.type.shape == value.type.shape]
            lhs = self.pick(same)
            self.add(ops.Select(value, lhs, self.partner(lhs)))
        else:
            pair = (value, self.partner(value))
            self.add(self.pick(COMPARISONS)(*(pair if self.integer(0, 1) else pair[::-1])))

    def reduce(self, value: Value) -> None:
        if value.type.kind is ElementKind.BOOL or value.type.kind.is_float:
            return
        axes = tuple(a for a in range(value.type.rank) if self.integer(0, 1))
        keep = bool(self.integer(0, 1))
        self.add(self.pick(REDUCTIONS)(value, axes=axes, keep_dims=keep))

    def move(self, value: Value) -> None:
        rank, shape = value.type.rank, value.type.shape
        choice = self.integer(0, 4)
        if choice == 0:
            axes = list(range(rank))
            order = tuple(axes.pop(self.integer(0, len(axes) - 1)) for _ in range(rank))
            self.add(ops.Transpose(value, permutation=order))
        elif choice == 1 and rank < 5:
            place = self.integer(0, rank)
            self.add(ops.Reshape(value, (*shape[:place], 1, *shape[place:])))
        elif choice == 2:
            self.add(ops.Reshape(value, (math.prod(shape),)))
        elif choice == 3:
            wide = tuple(3 if n == 1 and self.integer(0, 1) else n for n in shape)
            self.add(ops.Broadcast(value, wide))
        elif rank:
            self.add(ops.Tile(value, repeats=tuple(self.integer(0, 2) for _ in shape)))

    def scatter(self, value: Value) -> None:
        """Combine a value with constants at indices that repeat."""
        if not value.type.size or not value.type.rank:
            return
        axis = self.integer(0, value.type.rank - 1)
        shape, size = value.type.shape, value.type.shape[axis]
        wanted = tuple(3 if a == axis else n for a, n in enumerate(shape))
        places = [self.integer(-size, size - 1) for _ in range(math.prod(wanted))]
        indices = self.builder.constant("i", np.array(places, np.int64).reshape(wanted))
        news = np.array([self.pick(NUMBERS) for _ in range(3)], np.int64).repeat(
            math.prod(wanted) // 3
        )
        updates = self.builder.constant("u", news.reshape(wanted).astype(value.type.kind.dtype))
        reductions = ("none", "add", "mul", "max", "min")
        reduction = "none" if value.type.kind is ElementKind.BOOL else self.pick(reductions)
        self.add(ops.ScatterElements(value, indices, updates, axis=axis, reduction=reduction))

    def cut(self, value: Value) -> None:
        rank, shape = value.type.rank, value.type.shape
        if not rank:
            return
        axis = self.integer(0, rank - 1)
        choice = self.integer(0, 4)
        if choice == 0:
            first = self.integer(0, shape[axis])
            self.add(ops.Split(value, axis=axis, sizes=(first, shape[axis] - first)))
        elif choice == 1:
            same = [v for v in self.pool if v.type == value.type]
            self.add(ops.Concat((value, self.pick(same), value), axis=axis))
        elif choice == 2:
            starts = tuple(self.integer(0, n) for n in shape)
            stops = tuple(self.integer(a, n) for a, n in zip(starts, shape, strict=True))
            self.add(ops.Slice(value, starts, stops, tuple(self.integer(1, 2) for _ in shape)))
        elif choice == 3 and value.type.kind is not ElementKind.BOOL:
            pads = tuple(self.integer(0, 2) for _ in range(2 * rank))
            self.add(ops.Pad(value, pads=pads, mode="constant", value=float(self.integer(0, 2))))
        elif shape[axis]:
            size = shape[axis]
            places = [self.integer(-size, size - 1) for _ in range(self.integer(0, 3))]
            indices = self.builder.constant("i", np.array(places, np.int64))
            self.add(ops.Gather(value, indices, axis=axis))


@st.composite
def integer_functions(draw: st.DrawFn, max_nodes: int = 10) -> Function:
    """Draw a function of up to *max_nodes* operators on integers; each leaf is an output."""
    graph = IntegerGraph(lambda strategy: draw(strategy))
    for index in range(draw(st.integers(1, 2))):
        shape = tuple(draw(st.integers(0, 3)) for _ in range(draw(st.integers(0, 3))))
        kind = draw(st.sampled_from((*KINDS, ElementKind.BOOL)))
        graph.pool.append(graph.builder.input(f"x{index}", TensorType(kind, shape)))
    for _ in range(draw(st.integers(1, max_nodes))):
        if graph.pool[-1].type.size <= 512:
            graph.grow()
    used = {operand for node in graph.builder.nodes for operand in operands_of(node)}
    leaves = [value for value in graph.pool if value not in used] or graph.pool[-1:]
    for index, leaf in enumerate(leaves[-4:]):
        graph.builder.save(leaf, f"y{index}")
    return graph.builder.function()


def integer_feeds(function: Function) -> dict[str, Array]:
    """Return numbers over the whole range of each input's kind."""
    rng = np.random.default_rng(0)
    feeds = {}
    for placeholder in function.inputs:
        kind, shape = placeholder.type.kind, placeholder.type.shape
        high = 2 if kind is ElementKind.BOOL else 2**62
        feeds[placeholder.name] = rng.integers(0, high, shape).astype(kind.dtype)
    return feeds
