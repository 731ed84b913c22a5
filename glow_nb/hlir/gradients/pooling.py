"""Gradients of pools over windows, and of these gradients."""

from __future__ import annotations

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.comparison import Select
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.ops.pooling import AvgPool, MaxPool, MaxPoolWithArgmax, counted_cells
from glow_nb.hlir.ops.pooling_gradients import AvgPoolGradient, MaxPoolGradient, chosen_elements
from glow_nb.hlir.rules import OperandGradients, gradient


@gradient(MaxPool)
def max_pool_gradient(node: MaxPool, upstream: Value, builder: Backward) -> OperandGradients:
    """All goes to the largest element, as in PyTorch to the first of equal ones."""
    return {"input": builder.emit(MaxPoolGradient(node.input, upstream, **node.window.attributes))}


@gradient(MaxPoolWithArgmax)
def max_pool_with_argmax_gradient(
    node: MaxPoolWithArgmax, upstream: tuple[Value, Value | None], builder: Backward
) -> OperandGradients:
    """As of the pool without places; these are whole numbers."""
    values, _ = upstream
    return {"input": builder.emit(MaxPoolGradient(node.input, values, **node.window.attributes))}


@gradient(MaxPoolGradient)
def max_pool_gradient_gradient(
    node: MaxPoolGradient, upstream: Value, builder: Backward
) -> OperandGradients:
    """Each element was moved to one place, and gets what is there.

    The input only decides which: its gradient is 0, but for points where there is none.
    """
    return {"gradient": chosen_elements(node, upstream, builder)}


@gradient(AvgPool)
def avg_pool_gradient(node: AvgPool, upstream: Value, builder: Backward) -> OperandGradients:
    """Each element of a window that counts gets its share."""
    shares = AvgPoolGradient(
        upstream,
        **node.window.attributes,
        size=node.input.type.shape[1:-1],
        count_padding=node.count_padding,
        uncounted=node.uncounted,
    )
    return {"input": builder.emit(shares)}


@gradient(AvgPoolGradient)
def avg_pool_gradient_gradient(
    node: AvgPoolGradient, upstream: Value, builder: Backward
) -> OperandGradients:
    """It is linear, and so is the pool that it is the transpose of.

    A window without a counted cell has shared out nothing, and gets 0 instead of the mean of none.
    """
    type = node.gradient.type
    pool = AvgPool(
        upstream,
        **node.window.attributes,
        count_padding=node.count_padding,
        uncounted=node.uncounted,
    )
    means: Value = builder.emit(pool)
    has_cells = counted_cells(node, node.size, type.shape[1:-1]) > 0
    if not has_cells.all():
        zero = splat(builder, type, 0, "zero")
        means = builder.emit(Select(builder.constant("has_cells", has_cells), means, zero))
    return {"gradient": means}
