"""Random graphs of many tensors without elements: each rule about sizes meets a size of zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from glow_nb.base.errors import GlowError
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value

T = TypeVar("T")
SIZES = (0, 0, 1, 2, 3)
UNARY: tuple[Callable[[Value], Node], ...] = (
    ops.Relu,
    ops.Tanh,
    ops.Neg,
    lambda x: ops.Clip(x, minimum=-1.0, maximum=1.0),
)
BINARY = (ops.Add, ops.Sub, ops.Mul, ops.Maximum)
REDUCTIONS = (ops.ReduceSum, ops.ReduceMean, ops.ReduceMax, ops.ReduceMin, ops.ReduceProd)


class EmptyMaker:
    """Draws one graph; an operator that the drawn operands do not fit is left out."""

    def __init__(self, draw: st.DrawFn) -> None:
        """Begin with one input."""
        self.draw, self.builder = draw, Builder()
        rank = self.number(1, 4)
        self.values: list[Value] = [self.input([self.choose(SIZES) for _ in range(rank)])]

    def number(self, low: int, high: int) -> int:
        """Draw a whole number from *low* to *high*, both included."""
        return self.draw(st.integers(low, high))

    def choose(self, items: list[T] | tuple[T, ...]) -> T:
        """Draw one of *items*."""
        return items[self.number(0, len(items) - 1)]

    def axis(self, x: Value) -> int:
        """Draw an axis of *x*; 0 of a scalar, which the operator refuses."""
        return self.number(0, max(0, x.type.rank - 1))

    def sizes(self, count: int, low: int = 0, high: int = 3) -> tuple[int, ...]:
        """Draw *count* whole numbers."""
        return tuple(self.number(low, high) for _ in range(count))

    def input(self, shape: list[int] | tuple[int, ...]) -> Value:
        """Add an input of *shape*."""
        text = " x ".join(map(str, shape))
        return self.builder.input(f"x{len(self.builder.inputs)}", f"float32<{text}>")

    def weights(self, *shape: int) -> Value:
        """Return a constant of quarters."""
        numbers = np.arange(math.prod(shape)) % 9 - 4
        return self.builder.constant("w", (numbers / 4).astype(np.float32).reshape(shape))

    def grow(self) -> None:
        """Add one operator, unless its operands do not fit."""
        value = self.values[-1] if self.number(0, 2) else self.choose(self.values)
        makers = (self.unary, self.binary, self.select, self.reduce, self.move, self.cut,
                  self.join, self.look_up, self.window, self.product, self.normalize)  # fmt: skip
        try:
            node = self.choose(makers)(value)
        except GlowError:
            return
        self.values += [r for r in self.builder.emit(node).results if r.type.size <= 4096]

    def unary(self, x: Value) -> Node:
        return self.choose(UNARY)(x)

    def partner(self, x: Value) -> Value:
        """Return a value like *x*, or one that broadcasts with it."""
        same = [v for v in self.values if v.type == x.type]
        if self.number(0, 2):
            return self.choose(same)
        return self.input([n if self.number(0, 1) else 1 for n in x.type.shape])

    def binary(self, x: Value) -> Node:
        return self.choose(BINARY)(x, self.partner(x))

    def select(self, x: Value) -> Node:
        condition = self.builder.emit(ops.Less(x, self.partner(x)))
        if self.number(0, 1):
            return ops.ConvertTo(condition, kind=ElementKind.FLOAT32)
        return ops.Select(condition, x, self.partner(x))

    def reduce(self, x: Value) -> Node:
        axes = tuple(a for a in range(x.type.rank) if self.number(0, 1))
        return self.choose(REDUCTIONS)(x, axes=axes, keep_dims=bool(self.number(0, 1)))

    def move(self, x: Value) -> Node:
        shape = x.type.shape
        axes = list(range(len(shape)))
        what = self.number(0, 4)
        if what == 0:
            drawn = tuple(axes.pop(self.number(0, len(axes) - 1)) for _ in shape)
            return ops.Transpose(x, permutation=drawn)
        if what == 1:
            return ops.Tile(x, repeats=self.sizes(len(shape), 0, 2))
        if what == 2:
            wanted = tuple(self.choose(SIZES) if n == 1 else n for n in shape)
            return ops.Broadcast(x, shape=wanted)
        if what == 3:
            return ops.Reshape(x, shape=self.choose([shape, shape[::-1], (1, *shape), (*shape, 1)]))
        return ops.CumSum(x, axis=self.axis(x))

    def cut(self, x: Value) -> Node:
        shape = x.type.shape
        axis = self.axis(x)
        what = self.number(0, 3)
        if what == 0:
            starts = tuple(self.number(0, n) for n in shape)
            stops = tuple(self.number(a, n) for a, n in zip(starts, shape, strict=True))
            return ops.Slice(x, starts=starts, stops=stops, steps=self.sizes(len(shape), 1, 2))
        if what == 1:
            return ops.Slice(x, starts=(0,) * len(shape), stops=shape, steps=(1,) * len(shape))
        if what == 2:
            pads = self.sizes(2 * len(shape), -1, 2)
            mode = self.choose(("constant", "edge", "reflect", "wrap"))
            return ops.Pad(x, pads=pads, mode=mode, value=0.5)
        first = self.number(0, shape[axis]) if shape else 0
        return ops.Split(x, axis=axis, sizes=(first, *((shape[axis] - first,) if shape else ())))

    def join(self, x: Value) -> Node:
        axis = self.axis(x)
        others = [self.partner(x) for _ in range(self.number(0, 2))]
        if x.type.rank and self.number(0, 1):
            shape = list(x.type.shape)
            shape[axis] = self.choose(SIZES)
            others.append(self.input(shape))
        return ops.Concat((x, *others), axis=axis)

    def look_up(self, x: Value) -> Node:
        shape = self.sizes(self.number(1, 2), 0, 2)
        axis = self.axis(x)
        what = self.number(0, 5)
        if what == 4:
            zeros = self.builder.constant("i", np.zeros(self.sizes(x.type.rank, 0, 2), np.int64))
            return ops.ScatterElements(x, zeros, self.input(zeros.type.shape), axis=axis)
        if what == 5:
            depth = self.number(1, 2)
            zeros = self.builder.constant("i", np.zeros((shape[0], depth), np.int64))
            news = self.input((shape[0], *x.type.shape[depth:]))
            return ops.ScatterND(x, zeros, news, reduction="add")
        if what == 0:
            return ops.TopK(x, k=self.number(0, 2), axis=axis, largest=True, sorted=True)
        if what == 1:
            zeros = self.builder.constant("i", np.zeros(self.sizes(x.type.rank, 0, 2), np.int64))
            return ops.GatherElements(x, zeros, axis=axis)
        zeros = self.builder.constant("i", np.zeros(shape, np.int64))
        return ops.Gather(x, zeros, axis=axis) if what == 2 else ops.GatherND(x, zeros)

    def window(self, x: Value) -> Node:
        rank = x.type.rank - 2
        where: dict[str, Any] = {
            "kernel": self.sizes(rank, 1, 2),
            "stride": self.sizes(rank, 1, 2),
            "pads": self.sizes(2 * rank, 0, 1),
            "dilation": (1,) * rank,
        }
        what = self.number(0, 3)
        if what == 0:
            return ops.MaxPool(x, **where)
        if what == 1:
            return ops.AvgPool(x, **where, count_padding=bool(self.number(0, 1)))
        if what == 2:
            return ops.MaxPoolWithArgmax(x, **where)
        depth, channels = self.choose(SIZES), x.type.shape[-1] if rank > 0 else 0
        filter, bias = self.weights(depth, *where["kernel"], channels), self.weights(depth)
        return ops.Convolution(x, filter, bias, **where)

    def product(self, x: Value) -> Node:
        inner, depth = x.type.shape[-1] if x.type.rank else 1, self.choose(SIZES)
        if self.number(0, 1) and x.type.rank == 2:
            return ops.FullyConnected(x, self.weights(inner, depth), self.weights(depth))
        batch = x.type.shape[:-2] if self.number(0, 1) else ()
        rhs = self.weights if self.number(0, 1) else lambda *shape: self.input(shape)
        return ops.MatMul(x, rhs(*batch, inner, depth))

    def normalize(self, x: Value) -> Node:
        axis = self.axis(x)
        size = x.type.shape[axis] if x.type.rank else 1
        what = self.number(0, 4)
        if what == 0:
            return ops.Softmax(x, axis=axis)
        if what == 1:
            return ops.LogSoftmax(x, axis=axis)
        if what == 2:
            scale, bias = self.weights(*x.type.shape[axis:]), self.weights(*x.type.shape[axis:])
            return ops.LayerNormalization(x, scale, bias, axis=axis, epsilon=0.5)
        if what == 3:
            return ops.LocalResponseNormalization(x, size=3, alpha=0.5, beta=0.75, bias=1.0)
        ones = self.builder.constant("n", np.ones(size, np.float32))
        return ops.BatchNormalization(x, ones, ones, ones, ones, epsilon=0.5, channel_axis=axis)

    def function(self) -> Function:
        """Grow the graph; what is made last and some other values are outputs."""
        for _ in range(self.number(2, 10)):
            self.grow()
        saved = [self.values[-1]]
        for _ in range(self.number(0, 3)):
            saved.append(self.choose(self.values))
        for number, value in enumerate(dict.fromkeys(saved)):
            self.builder.save(value, f"y{number}")
        return self.builder.function()


@st.composite
def empty_functions(draw: st.DrawFn) -> Function:
    """Draw a function in which about every second tensor has no elements."""
    return EmptyMaker(draw).function()
