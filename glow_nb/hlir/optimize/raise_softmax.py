"""Recognize a softmax that an exporter has written out."""

from __future__ import annotations

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
from glow_nb.hlir.rewriting import ANY, Rewrite, Rules, named, rewrite_once, used_here, wildcards

x, axis, axes = wildcards("x axis axes")


@register_pass
def raise_softmax(function: Function) -> Function:
    """Replace exponentials divided by their sum, with or without a maximum subtracted, by a
    softmax.

    The softmax always subtracts the maximum, so results that overflowed before are correct; so are
    results that underflowed, if the logarithm of a softmax becomes one operator. The exponentials
    must have no other reader.

    ::

        %e = exp(%x)                                          ->
        %s = reduce_sum(%e) {axes = [1], keep_dims = true}
        %y = div(%e, %s)                                          %y = softmax(%x) {axis = 1}

        %l = log(%s)                                          ->
        %y = sub(%x, %l)                                          %y = log_softmax(%x) {axis = 1}
    """
    return rewrite_once(function, _RULES)


def _softmax(x: Value, total: Value, axes: tuple[int, ...]) -> Node | None:
    axis = _one_axis(x, total, axes)
    return None if axis is None else Softmax(_unshifted(x, axis), axis=axis)


def _log_softmax(x: Value, total: Value, axes: tuple[int, ...]) -> Node | None:
    axis = _one_axis(x, total, axes)
    return None if axis is None else LogSoftmax(_unshifted(x, axis), axis=axis)


def _one_axis(x: Value, reduced: Value, axes: tuple[int, ...]) -> int | None:
    """Return the one axis along which *reduced* reduces *x*, of size 1 in it."""
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.type.shape))
    return axes[0] if len(axes) == 1 and reduced.type.shape == kept else None


def _unshifted(value: Value, axis: int) -> Value:
    """Return ``x`` if *value* is ``x`` minus its maximum along *axis*."""
    match value:
        case Sub(lhs=x, rhs=largest, predicate=None):
            reduction = largest.input if isinstance(largest, Reshape) else largest
            match reduction:
                case ReduceMax(input=source, axes=axes, predicate=None) if source is x:
                    return x if _one_axis(x, largest, axes) == axis else value
    return value


_POWER = used_here(named("power", Exp(x)))
_SUM = ReduceSum(_POWER, axes=axes, keep_dims=ANY)
_RULES = Rules(
    "raise_softmax",
    Rewrite(Log(used_here(Softmax(x, axis=axis))), LogSoftmax(x, axis=axis)),
    *(
        rule
        for total in (named("total", _SUM), named("total", Reshape(_SUM, ANY)))
        for rule in (
            Rewrite(Sub(x, Log(total)), _log_softmax),
            Rewrite(Div(_POWER, total), _softmax),
            Rewrite(Mul(_POWER, Reciprocal(total)), _softmax),
        )
    ),
)
