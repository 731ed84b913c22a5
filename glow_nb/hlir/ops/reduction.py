"""Reductions over axes, positions of extremes, running sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.extremes import largest, smallest
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.arithmetic import Div
from glow_nb.hlir.ops.families import (
    FLOATS,
    NUMBERS,
    Kinds,
    bounds_of,
    fitted,
    require_axis,
    require_kind,
    widest,
)
from glow_nb.hlir.ops.sizes import size_value
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(Node):
    """Base of reductions: combine all elements along *axes*.

    Attributes:
        axes: Axes to reduce, counted from the front, each once; none reduces nothing.
        keep_dims: Reduced axes stay with size 1; else they disappear.
    """

    kinds: ClassVar[Kinds] = NUMBERS
    input: Value
    axes: tuple[int, ...]
    keep_dims: bool = True

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type.stored if self.type_transparent else type, self.kinds)
        for axis in self.axes:
            require_axis(self, axis, type.rank)
        self.require(len(set(self.axes)) == len(self.axes), f"axes {self.axes} repeat one")
        return type.with_shape(_reduced_shape(type.shape, self.axes, self.keep_dims))

    @property
    def count(self) -> int:
        """Number of elements combined into one."""
        return prod(self.input.type.shape[axis] for axis in self.axes)

    @override
    def evaluate(self, input: Array) -> Array:
        with np.errstate(all="ignore"):
            return fitted(self.combine(widest(input)), self.type)

    def combine(self, x: Any) -> Any:
        """Return *x* reduced along ``self.axes``."""
        raise NotImplementedError(type(self).__name__)

    @override
    def cost(self) -> Cost:
        return Cost(others=self.input.type.size)


def _reduced_shape(
    shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool
) -> tuple[int, ...]:
    if keep_dims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


@define_node("reduce_sum")
class ReduceSum(Reduction):
    """Sum of the elements along *axes*; of none it is 0. Integers wrap."""

    @override
    def combine(self, x: Any) -> Any:
        return np.sum(x, axis=self.axes)


@define_node("reduce_mean")
class ReduceMean(Reduction):
    """Mean of the elements along *axes*; of none it is NaN. Floats only."""

    kinds: ClassVar[Kinds] = FLOATS

    @override
    def combine(self, x: Any) -> Any:
        return np.sum(x, axis=self.axes) / np.float64(self.count)


@lowers(ReduceMean)
def lower_reduce_mean(node: ReduceMean, rewriter: Rewriter) -> Value:
    """Express it as a sum divided by the count: 49 times the reciprocal of 49 is less than 1."""
    total = rewriter.emit(ReduceSum(node.input, node.axes, node.keep_dims))
    with np.errstate(over="ignore"):  # in float16, of which lowering makes float32 afterwards
        count = size_value(rewriter, total.type, node.count, f"{node.name}_count")
    return rewriter.emit(Div(total, count))


@define_node("reduce_max")
class ReduceMax(Reduction):
    """Largest element along *axes*, NaN if one is NaN; of none the least value of the kind.

    -0.0 is less than 0.0.
    """

    type_transparent: ClassVar[bool] = True

    @override
    def combine(self, x: Any) -> Any:
        return largest(x, self.axes, bounds_of(self.type.kind)[0])


@define_node("reduce_min")
class ReduceMin(Reduction):
    """Smallest element along *axes*, NaN if one is NaN; of none the greatest value of the kind.

    -0.0 is less than 0.0.
    """

    type_transparent: ClassVar[bool] = True

    @override
    def combine(self, x: Any) -> Any:
        return smallest(x, self.axes, bounds_of(self.type.kind)[1])


@define_node("reduce_prod")
class ReduceProd(Reduction):
    """Product of the elements along *axes*; of none it is 1. Integers wrap."""

    @override
    def combine(self, x: Any) -> Any:
        return np.prod(x, axis=self.axes)


@dataclass(frozen=True, eq=False, repr=False)
class ArgReduction(Node):
    """Base of searches for the int64 position of an extreme element along *axis*.

    A NaN counts as the extreme. Subclasses give ``find``, a function of NumPy.

    Attributes:
        axis: Axis to search, counted from the front.
        keep_dims: The axis stays with size 1; else it disappears.
        select_last: Take the last of equal extremes; else the first.
    """

    find: ClassVar[Callable[..., Any]]
    input: Value
    axis: int
    keep_dims: bool = True
    select_last: bool = False

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type, NUMBERS)
        require_axis(self, self.axis, type.rank)
        self.require(type.shape[self.axis] > 0, f"axis {self.axis} of {type} is empty")
        shape = _reduced_shape(type.shape, (self.axis,), self.keep_dims)
        return TensorType(ElementKind.INT64, shape)

    @override
    def evaluate(self, input: Array) -> Array:
        x = widest(input)
        if not self.select_last:
            return fitted(self.find(x, axis=self.axis), self.type)
        flipped = np.flip(x, axis=self.axis)
        return fitted(x.shape[self.axis] - 1 - self.find(flipped, axis=self.axis), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(others=self.input.type.size)


@define_node("arg_max")
class ArgMax(ArgReduction):
    """Position of the largest element along *axis*."""

    find = staticmethod(np.argmax)


@define_node("arg_min")
class ArgMin(ArgReduction):
    """Position of the smallest element along *axis*."""

    find = staticmethod(np.argmin)


@define_node("cum_sum")
class CumSum(Node):
    """Running sums: ``result[i] = input[0] + ... + input[i]`` along *axis*.

    Attributes:
        axis: Axis to sum along, counted from the front.
        exclusive: ``result[i]`` leaves ``input[i]`` out.
        reverse: Sum from the end.
    """

    input: Value
    axis: int
    exclusive: bool = False
    reverse: bool = False

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, NUMBERS)
        require_axis(self, self.axis, self.input.type.rank)
        return self.input.type

    @override
    def evaluate(self, input: Array) -> Array:
        x = np.moveaxis(widest(input), self.axis, 0)
        x = x[::-1] if self.reverse else x
        if self.exclusive:
            x = np.concatenate([np.zeros_like(x[:1]), x[:-1]])
        with np.errstate(all="ignore"):
            sums = np.cumsum(x, axis=0)
        sums = sums[::-1] if self.reverse else sums
        return fitted(np.moveaxis(sums, 0, self.axis), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(others=self.input.type.size)


@define_node("top_k")
class TopK(Node):
    """The *k* extreme elements along *axis*: ``[values, indices]``, indices int64.

    Equal elements come in order of their index. NaN counts as larger than any number.

    Attributes:
        k: The number of elements to take, at most the size of the axis.
        axis: Axis to search, counted from the front.
        largest: Take the largest elements; else the smallest.
        sorted: The results must come in order, the most extreme first; else in any order
            (``evaluate`` sorts them all the same).
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    k: int
    axis: int
    largest: bool = True
    sorted: bool = True

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        type = self.input.type
        require_kind(self, "input", type.stored, NUMBERS)
        require_axis(self, self.axis, type.rank)
        size = type.shape[self.axis]
        self.require(0 <= self.k <= size, f"k = {self.k!s} is outside 0..{size!s}, axis of {type}")
        shape = (*type.shape[: self.axis], self.k, *type.shape[self.axis + 1 :])
        return type.with_shape(shape), TensorType(ElementKind.INT64, shape)

    @override
    def evaluate(self, input: Array) -> tuple[Array, Array]:
        x = np.moveaxis(widest(input), self.axis, -1)
        if self.largest:
            # Ascending order of the reversed axis, read backwards, keeps equal elements in order.
            order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        else:
            order = np.argsort(x, axis=-1, kind="stable")
        chosen = order[..., : self.k]
        values = np.take_along_axis(x, chosen, axis=-1)
        values, chosen = (np.moveaxis(a, -1, self.axis) for a in (values, chosen))
        return fitted(values, self.result_types[0]), fitted(chosen, self.result_types[1])

    @override
    def executed_cost(self) -> Cost:
        """Count a comparison an element, and *k* / 2 moves to insert each of those that are found.

        The order of the elements decides how many are inserted.
        """
        found = self.result_types[0].size
        return Cost(others=self.input.type.size + found * self.k // 2)
