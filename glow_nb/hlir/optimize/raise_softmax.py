"""Recognize a softmax that an exporter has written out."""

from __future__ import annotations

from typing import Any

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import (
    Div,
    Exp,
    Log,
    LogSoftmax,
    Mul,
    Reciprocal,
    ReduceMax,
    ReduceSum,
    Reshape,
    Softmax,
    Sub,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def raise_softmax(function: Function) -> Function:
    """Make exponentials divided by their own sum a softmax, with or without a maximum subtracted.

    The softmax subtracts it in any case, so what overflowed before is right now; so is what
    underflowed where the logarithm of a softmax becomes one operator. The exponentials must have no
    other reader.

    ::

        %e = exp(%x)                                          ->
        %s = reduce_sum(%e) {axes = [1], keep_dims = true}
        %y = div(%e, %s)                                          %y = softmax(%x) {axis = 1}

        %l = log(%s)                                          ->
        %y = sub(%x, %l)                                          %y = log_softmax(%x) {axis = 1}
    """
    return rewrite(function, _rule, Log, Sub, Div, Mul)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    match node:
        case Log(input=Softmax(predicate=None) as softmax) if rewriter.use_count(softmax) == 1:
            return rewriter.emit(LogSoftmax(softmax.input, axis=softmax.axis))
        case Sub(lhs=shifted, rhs=Log(input=total, predicate=None)):
            return _log_softmax(shifted, total, rewriter)
        case Div(lhs=Exp(predicate=None) as power, rhs=total):
            pass
        case (
            Mul(lhs=Exp(predicate=None) as power, rhs=Reciprocal(input=total, predicate=None))
            | Mul(lhs=Reciprocal(input=total, predicate=None), rhs=Exp(predicate=None) as power)
        ):
            pass
        case _:
            return None
    axis = _reduced_axis(total, power, ReduceSum)
    if axis is None or rewriter.use_count(power) != 2:
        return None
    return rewriter.emit(Softmax(_unshifted(power.input, axis), axis=axis))


def _log_softmax(value: Value, total: Value, rewriter: Rewriter) -> Replacement:
    """``x - log(sum(exp(x)))``."""
    reduction: Any = total.input if isinstance(total, Reshape) else total
    power = getattr(reduction, "input", None)
    if not isinstance(power, Exp) or power.predicate is not None or power.input is not value:
        return None
    axis = _reduced_axis(total, power, ReduceSum)
    if axis is None or rewriter.use_count(power) != 1:
        return None
    return rewriter.emit(LogSoftmax(_unshifted(value, axis), axis=axis))


def _reduced_axis(value: Value, source: Value, kind: type[ReduceSum | ReduceMax]) -> int | None:
    """Return the one axis along which *value* is the reduction of *source*, of size 1 in it."""
    shape = value.type.shape
    reduction: Any = value.input if isinstance(value, Reshape) else value
    if not isinstance(reduction, kind) or reduction.predicate is not None:
        return None
    if reduction.input is not source or len(reduction.axes) != 1:
        return None
    (axis,) = reduction.axes
    kept = tuple(1 if i == axis else n for i, n in enumerate(source.type.shape))
    return axis if shape == kept else None


def _unshifted(value: Value, axis: int) -> Value:
    """Return ``x`` if *value* is ``x`` minus its maximum along *axis*."""
    match value:
        case Sub(lhs=x, rhs=largest, predicate=None) if (
            _reduced_axis(largest, x, ReduceMax) == axis
        ):
            return x
    return value
