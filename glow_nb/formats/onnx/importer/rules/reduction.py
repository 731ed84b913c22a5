"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

import math

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.decided_operands import may_decide, size_from
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.rules.conversion import in_floats
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.formulas.terms import where
from glow_nb.hlir.ops.reduction import Reduction

_AXES_BY_INPUT_SINCE = {"ReduceSum": 13}
_DEFAULT_AXES_BY_INPUT_SINCE = 18


def reduced_axes(ctx: Context, node: OnnxNode) -> tuple[int, ...]:
    """Return the axes to reduce: an attribute of old, an operand now; none given means all."""
    rank = node.operand(0).type.rank
    axes: tuple[int, ...]
    if node.opset < _AXES_BY_INPUT_SINCE.get(node.op, _DEFAULT_AXES_BY_INPUT_SINCE):
        axes = node.integers("axes", ())
    else:
        operand = node.optional(1)
        axes = () if operand is None else ctx.known_integers(operand, "'axes'")
        if not axes and node.flag("noop_with_empty_axes", False):
            return ()
    return ctx.axes(axes, rank) if axes else tuple(range(rank))


def _reduce(
    ctx: Context, node: OnnxNode, node_class: type[Reduction], x: Value | None = None
) -> Reduction:
    return node_class(
        x or node.operand(0),
        axes=reduced_axes(ctx, node),
        keep_dims=node.flag("keepdims"),
    )


@onnx_op("ReduceSum")
def reduce_sum(ctx: Context, node: OnnxNode) -> Value:
    """Sum along axes."""
    return _reduce(ctx, node, ops.ReduceSum)


@onnx_op("ReduceProd")
def reduce_prod(ctx: Context, node: OnnxNode) -> Value:
    """Product along axes."""
    return _reduce(ctx, node, ops.ReduceProd)


@onnx_op("ReduceMean")
def reduce_mean(ctx: Context, node: OnnxNode) -> Value:
    """Mean along axes; integers truncate."""
    x = node.operand(0)
    if x.type.kind.is_float:
        return _reduce(ctx, node, ops.ReduceMean)
    mean = _reduce(ctx, node, ops.ReduceMean, ctx.convert(x, ElementKind.FLOAT64))
    return ops.ConvertTo(ctx.emit(mean), x.type.kind)


@onnx_op("ReduceMax", "ReduceMin")
def reduce_extreme(ctx: Context, node: OnnxNode) -> Value:
    """Largest or smallest element along axes; false is less than true."""
    x = node.operand(0)
    node_class = ops.ReduceMax if node.op == "ReduceMax" else ops.ReduceMin
    if x.type.kind is not ElementKind.BOOL:
        return _reduce(ctx, node, node_class)
    extreme = _reduce(ctx, node, node_class, ctx.convert(x, ElementKind.UINT8))
    if extreme.count == 0:
        return ctx.filled(x.type, node.op == "ReduceMin", extreme.type.shape)
    return ops.ConvertTo(ctx.emit(extreme), ElementKind.BOOL)


@onnx_op("ReduceL1")
def reduce_l1(ctx: Context, node: OnnxNode) -> Value:
    """``sum of |x|``."""
    return _reduce(ctx, node, ops.ReduceSum, ctx.emit(ops.Abs(node.operand(0))))


@onnx_op("ReduceSumSquare")
def reduce_sum_square(ctx: Context, node: OnnxNode) -> Value:
    """``sum of x ** 2``."""
    x = node.operand(0)
    return _reduce(ctx, node, ops.ReduceSum, ctx.emit(ops.Mul(x, x)))


@onnx_op("ReduceL2")
def reduce_l2(ctx: Context, node: OnnxNode) -> Value:
    """``sqrt(sum of x ** 2)``."""
    x = node.operand(0)
    total = ctx.emit(_reduce(ctx, node, ops.ReduceSum, ctx.emit(ops.Mul(x, x))))
    return in_floats(ctx, total, ops.Sqrt)


@onnx_op("ReduceLogSum")
def reduce_log_sum(ctx: Context, node: OnnxNode) -> Value:
    """``log(sum of x)``."""
    return in_floats(ctx, ctx.emit(_reduce(ctx, node, ops.ReduceSum)), ops.Log)


@onnx_op("ReduceLogSumExp")
def reduce_log_sum_exp(ctx: Context, node: OnnxNode) -> Value:
    """``m + log(sum of exp(x - m))``, where ``m`` is the largest element: nothing overflows."""
    return in_floats(ctx, node.operand(0), lambda x: _log_sum_exp(ctx, node, x))


def _log_sum_exp(ctx: Context, node: OnnxNode, x: Value) -> Value:
    axes = reduced_axes(ctx, node)
    largest = ctx.term(ctx.emit(ops.ReduceMax(x, axes=axes, keep_dims=True)))
    # -inf - -inf has no value; shifting by 0 then is as good.
    shift = where(largest.apply(ops.IsInf), 0, largest)
    powers = (ctx.term(x) - shift).apply(ops.Exp).value
    total = ctx.term(ctx.emit(ops.ReduceSum(powers, axes=axes, keep_dims=True)))
    # Of nothing but -inf the total is 0; the logarithm of another number has a gradient.
    is_empty = total.equals(0)
    result = where(is_empty, -math.inf, shift + where(is_empty, 1, total).apply(ops.Log)).value
    if node.flag("keepdims"):
        return result
    return ctx.reshape(result, [n for axis, n in enumerate(x.type.shape) if axis not in axes])


@onnx_op("CumSum")
def cum_sum(ctx: Context, node: OnnxNode) -> Value:
    """Running sums along an axis."""
    x = node.operand(0)
    return ops.CumSum(
        x,
        axis=ctx.axis(ctx.known_integer(node.operand(1), "'axis'"), x.type.rank),
        exclusive=node.flag("exclusive"),
        reverse=node.flag("reverse"),
    )


@onnx_op("CumProd")
def cum_prod(ctx: Context, node: OnnxNode) -> Value:
    """Running products by doubling: each step doubles the number of factors."""
    x = node.operand(0)
    axis = ctx.axis(ctx.known_integer(node.operand(1), "'axis'"), x.type.rank)
    size, reverse = x.type.shape[axis], node.flag("reverse")
    if node.flag("exclusive"):
        x = _shifted(ctx, x, axis, min(1, size), reverse=reverse)
    distance = 1
    while distance < size:
        x = ctx.emit(ops.Mul(x, _shifted(ctx, x, axis, distance, reverse=reverse)))
        distance *= 2
    return x


def _shifted(ctx: Context, x: Value, axis: int, distance: int, *, reverse: bool) -> Value:
    """Return *x* moved along *axis*, ones coming in."""
    step = -distance if reverse else distance
    begins = tuple(step if i == axis else 0 for i in range(x.type.rank))
    return ctx.emit(ops.Pad(x, pads=(*begins, *(-n for n in begins)), value=1.0))


@onnx_op("TopK")
def top_k_by_attribute(ctx: Context, node: OnnxNode) -> Value:
    """The ``k`` largest elements and their places, ``k`` an attribute up to opset 9."""
    return _top_k(ctx, node, node.integer("k"))


@onnx_op("TopK", since=10)
def top_k(ctx: Context, node: OnnxNode) -> Value | tuple[Value, ...]:
    """The ``k`` extreme elements and their places."""
    x, given = node.operand(0), node.operand(1)
    if not may_decide(ctx, given):
        return _top_k(ctx, node, ctx.known_integer(given, "'K'"))
    axis = ctx.axis(node.integer("axis"), x.type.rank)
    k = size_from(ctx, given, "'K'", high=x.type.shape[axis])
    found = ctx.emit_all(_top_k(ctx, node, x.type.shape[axis]))
    return tuple(ctx.part(result, axis, 0, k) for result in found)


def _top_k(ctx: Context, node: OnnxNode, k: int) -> ops.TopK:
    x = node.operand(0)
    return ops.TopK(
        x,
        k=k,
        axis=ctx.axis(node.integer("axis"), x.type.rank),
        largest=node.flag("largest", True),
        sorted=node.flag("sorted", True),
    )
