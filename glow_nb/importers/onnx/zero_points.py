"""Quantized operands of products without their zero points."""

from __future__ import annotations

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.importers.onnx.context import Context
from glow_nb.types import ElementKind

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16


def along(ctx: Context, parameter: Value, axis: int, rank: int) -> Value:
    """Return one number, or one for each place of *axis*, so that it broadcasts to *rank*."""
    if parameter.type.size == 1:
        return ctx.reshape(parameter, (1,) * rank)
    if parameter.type.rank == 1:
        return ctx.reshape(
            parameter, [parameter.type.size if i == axis else 1 for i in range(rank)]
        )
    return ctx.with_rank(parameter, rank)


def centred(ctx: Context, value: Value, zero: Value | None, axis: int) -> Value:
    """Return *value* - *zero* for a product, whose sums are of int32.

    Bytes stay bytes where the zero point is known to be 0, or where the difference is known and
    fits; any other difference of bytes fits int16, which takes half the memory that int32 does.

    Args:
        ctx: Emits what is needed.
        value: An operand of bytes.
        zero: The zero point, None for 0: one number, one for each place of *axis*, or a tensor that
            broadcasts to *value*.
        axis: Of *value*; negative if it has none that zero points may vary along.

    Raises:
        ModelError: The zero points are of another number.
    """
    if zero is None:
        return value
    require_zero_points(ctx, value, zero, axis)
    zero = along(ctx, zero, axis, value.type.rank)
    bytes_alone = {value.type.kind, zero.type.kind} <= {INT8, UINT8}
    if bytes_alone and isinstance(zero, Constant) and not zero.array.any():
        return value
    kind = INT16 if bytes_alone else ElementKind.INT32
    difference = ctx.emit(ops.Sub(ctx.convert(value, kind), ctx.convert(zero, kind)))
    return ctx.convert(difference, _smallest_kind(difference))


def require_zero_points(ctx: Context, value: Value, zero: Value, axis: int) -> None:
    """Raise ModelError unless the zero points fit *value*, as :func:`centred` wants them."""
    places = value.type.shape[axis] if axis >= 0 else 1
    if zero.type.rank <= 1 and zero.type.size not in (1, places):
        more = f", or {places} for the places of its axis {axis}" if axis >= 0 else ""
        raise ctx.wrong(f"zero points {zero} do not fit operand {value}: give one{more}")
    shape = along(ctx, zero, axis, value.type.rank).type.shape
    if any(size not in (1, wanted) for size, wanted in zip(shape, value.type.shape, strict=True)):
        raise ctx.wrong(f"zero points {zero} do not broadcast to operand {value}")


def _smallest_kind(value: Value) -> ElementKind:
    """Return the kind of bytes that holds a constant *value*, or its own."""
    if isinstance(value, Constant) and value.array.size:
        least, greatest = int(value.array.min()), int(value.array.max())
        for kind in (INT8, UINT8):
            low, high = bounds_of(kind)
            if low <= least and greatest <= high:
                return kind
    return value.type.kind
