"""The ranges of the numbers that a value can hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glow_nb.base.payload import array_or_none
from glow_nb.hlir.graph import Constant, Node, Result, Value, producer_of
from glow_nb.hlir.ops import (
    Abs,
    Add,
    AvgPool,
    Broadcast,
    Clip,
    Concat,
    Erf,
    Exp,
    Gather,
    HardSigmoid,
    MaxPool,
    Mul,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceSum,
    Relu,
    Reshape,
    Sigmoid,
    Slice,
    Softmax,
    Softplus,
    Split,
    Sqrt,
    Tanh,
    Tile,
    Transpose,
)

Range = tuple[float, float]

ANYTHING: Range = (-math.inf, math.inf)
MAX_DEPTH = 6
"""Producers are followed so far up; beyond, nothing is known."""
MAX_CONSTANT_SIZE = 4096


def range_of(value: Value, depth: int = MAX_DEPTH) -> Range:
    """Return bounds of the elements of a float *value*, both included; an element may be NaN.

    Integers, which wrap, are known only by what bounds them directly.
    """
    if isinstance(value, Constant):
        return _range_of_constant(value)
    node = producer_of(value)
    if node is None or depth == 0:
        return ANYTHING
    if isinstance(value, Result) and not isinstance(node, Split):
        return ANYTHING
    rule = _RULES.get(type(node))
    return ANYTHING if rule is None else rule(node, depth - 1)


def _range_of_constant(constant: Constant) -> Range:
    array = array_or_none(constant.payload)
    if array is None or array.size == 0 or array.size > MAX_CONSTANT_SIZE:
        return ANYTHING
    low, high = float(np.min(array)), float(np.max(array))
    return ANYTHING if math.isnan(low) else (low, high)


def _clip(node: Clip, depth: int) -> Range:
    low, high = range_of(node.input, depth)
    least, greatest = map(float, node.bounds)
    return min(max(low, least), greatest), min(max(high, least), greatest)


def _relu(node: Relu, depth: int) -> Range:
    low, high = range_of(node.input, depth)
    return max(low, 0.0), max(high, 0.0)


def _passed_on(node: Any, depth: int) -> Range:
    return range_of(node.input, depth)


def _mean(node: ReduceMean | AvgPool, depth: int) -> Range:
    low, high = range_of(node.input, depth)
    return min(low, 0.0), max(high, 0.0)


def _sum(node: ReduceSum, depth: int) -> Range:
    low, high = range_of(node.input, depth)
    if not node.type.kind.is_float:
        return ANYTHING
    return (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)


def _extreme(node: ReduceMax | ReduceMin | MaxPool, depth: int) -> Range:
    """Return the range of the input, unless a reduction of nothing gives an infinity."""
    empty = node.input.type.size == 0 or (isinstance(node, MaxPool) and node.is_padded)
    return ANYTHING if empty else range_of(node.input, depth)


def _concat(node: Concat, depth: int) -> Range:
    ranges = [range_of(value, depth) for value in node.inputs]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _add(node: Add, depth: int) -> Range:
    if not node.type.kind.is_float:
        return ANYTHING
    (low, high), (other_low, other_high) = range_of(node.lhs, depth), range_of(node.rhs, depth)
    return (
        0.0 if low >= 0 and other_low >= 0 else -math.inf,
        0.0 if high <= 0 and other_high <= 0 else math.inf,
    )


def _mul(node: Mul, depth: int) -> Range:
    if not node.type.kind.is_float:
        return ANYTHING
    if node.lhs is node.rhs:
        return 0.0, math.inf
    is_positive = all(range_of(value, depth)[0] >= 0 for value in (node.lhs, node.rhs))
    return (0.0, math.inf) if is_positive else ANYTHING


def _fixed(low: float, high: float) -> Callable[[Any, int], Range]:
    return lambda _node, _depth: (low, high)


def _absolute(node: Abs, depth: int) -> Range:
    return (0.0, math.inf) if node.type.kind.is_float else ANYTHING


_RULES: dict[type[Node], Callable[[Any, int], Range]] = {
    Abs: _absolute,
    Add: _add,
    AvgPool: _mean,
    Broadcast: _passed_on,
    Clip: _clip,
    Concat: _concat,
    Erf: _fixed(-1.0, 1.0),
    Exp: _fixed(0.0, math.inf),
    Gather: _passed_on,
    HardSigmoid: _fixed(0.0, 1.0),
    MaxPool: _extreme,
    Mul: _mul,
    ReduceMax: _extreme,
    ReduceMean: _mean,
    ReduceMin: _extreme,
    ReduceSum: _sum,
    Relu: _relu,
    Reshape: _passed_on,
    Sigmoid: _fixed(0.0, 1.0),
    Slice: _passed_on,
    Softmax: _fixed(0.0, 1.0),
    Softplus: _fixed(0.0, math.inf),
    Split: _passed_on,
    Sqrt: _fixed(0.0, math.inf),
    Tanh: _fixed(-1.0, 1.0),
    Tile: _passed_on,
    Transpose: _passed_on,
}
