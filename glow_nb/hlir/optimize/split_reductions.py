"""Reduce what has few results in two steps, of which the first is work for many threads."""

from __future__ import annotations

from math import prod

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.size import hinted
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import (
    ConvertTo,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reshape,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import Shape, shape_before
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.rounding import WIDE, commutes_with_rounding, is_narrow

Reduction = ReduceMax | ReduceMean | ReduceMin | ReduceProd | ReduceSum
ENOUGH_RESULTS = 64
"""Results that threads can share out evenly."""
LEAST_ELEMENTS = 1 << 16
"""Elements that take longer to reduce than a second kernel takes to start."""


@register_pass
def split_reductions(function: Function, *, least_elements: int = LEAST_ELEMENTS) -> Function:
    """Split long reductions into equal parts, and reduce the results of the parts.

    A kernel computes each result on one thread, so a sum of all elements would run on one thread.
    The mean of means over the same number of elements is the mean of all. Errors grow no faster
    than before; the parts of 16-bit floats are summed up in float32. For backends with threads,
    after ``simplify_reductions``, which would merge both again.

    ::

        %y = reduce_sum(%x : <1000 x 512>) {axes = [0, 1], keep_dims = false}
        ->
        %parts = reshape(%x) {shape = [1, 80, 6400, 1]}
        %sums = reduce_sum(%parts) {axes = [2], keep_dims = false}
        %total = reduce_sum(%sums : <1 x 80 x 1>) {axes = [1], keep_dims = false}
        %y = reshape(%total) {shape = []}
    """

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        match node:
            case ReduceMax() | ReduceMean() | ReduceMin() | ReduceProd() | ReduceSum():
                if node.predicate is None and hinted(node.input.type.size) >= least_elements:
                    return _split(node, rewriter)
        return None

    return rewrite(function, rule)


def _split(node: Reduction, rewriter: Rewriter) -> Replacement:
    shape, axes = node.input.type.shape, node.axes
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)) or 0 in shape:
        return None
    before, length = prod(shape[: axes[0]]), prod(shape[axes[0] : axes[-1] + 1])
    after = prod(shape[axes[-1] + 1 :])
    parts = _parts(length, -(-ENOUGH_RESULTS // (before * after)))
    if before * after >= ENOUGH_RESULTS or parts is None:
        return None
    cut = _reshaped(node.input, 1, (before, parts, length // parts, after), rewriter)
    widens = is_narrow(node.type) and not commutes_with_rounding(node)
    cut = rewriter.emit(ConvertTo(cut, WIDE)) if widens else cut
    made = rewriter.emit(type(node)(cut, axes=(2,), keep_dims=False))
    total: Value = rewriter.emit(type(node)(made, axes=(1,), keep_dims=False))
    total = rewriter.emit(ConvertTo(total, node.type.kind)) if widens else total
    return rewriter.emit(Reshape(total, node.type.shape))


def _reshaped(value: Value, uses: int, shape: Shape, rewriter: Rewriter) -> Value:
    """Return *value* in another shape; what only these *uses* read is computed in that shape.

    So elementwise work stands beside the reduction, which may compute it as it reads.
    """
    if isinstance(value, Node) and value.data_parallel and rewriter.use_count(value) == uses:
        operands = tuple(operands_of(value))
        shapes = [shape_before(o.type.shape, value.type.shape, shape) for o in operands]
        if value.predicate is None and None not in shapes:
            wanted = dict(zip(operands, shapes, strict=True))

            def inner(operand: Value) -> Value:
                return _reshaped(operand, operands.count(operand), wanted[operand], rewriter)

            return rewriter.emit(map_operands(value, inner).copied(name=""))
    return rewriter.emit(Reshape(value, shape))


def _parts(length: int, wanted: int) -> int | None:
    """Return in how many equal parts, at least *wanted* and few more, to cut a run of *length*."""
    several = range(wanted, min(16 * wanted, length // wanted) + 1)
    return next((parts for parts in several if length % parts == 0), None)
