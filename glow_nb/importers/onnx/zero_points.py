"""Quantized operands of products without their zero points."""

from __future__ import annotations

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.importers.onnx.context import Context, broadcast_shape
from glow_nb.types import ElementKind

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16


def centred(ctx: Context, value: Value, zero: Value | None) -> Value:
    """Return *value* - *zero* for a product, whose sums are of int32.

    Bytes stay bytes where the zero point is known to be 0, or where the difference is known and
    fits; any other difference of bytes fits int16, which takes half the memory that int32 does.

    Args:
        ctx: Emits what is needed.
        value: An operand of bytes.
        zero: The zero point, None for 0; it broadcasts to *value*.
    """
    if zero is None:
        return value
    value, zero = ctx.aligned(value, zero)
    if broadcast_shape(ctx, value.type.shape, zero.type.shape) != value.type.shape:
        raise ctx.wrong(f"zero point {zero} does not broadcast to operand {value}")
    bytes_alone = {value.type.kind, zero.type.kind} <= {INT8, UINT8}
    if bytes_alone and isinstance(zero, Constant) and not zero.array.any():
        return value
    kind = INT16 if bytes_alone else ElementKind.INT32
    difference = ctx.emit(ops.Sub(ctx.convert(value, kind), ctx.convert(zero, kind)))
    return ctx.convert(difference, _smallest_kind(difference))


def _smallest_kind(value: Value) -> ElementKind:
    """Return the kind of bytes that holds a constant *value*, or its own."""
    if isinstance(value, Constant) and value.array.size:
        least, greatest = int(value.array.min()), int(value.array.max())
        for kind in (INT8, UINT8):
            low, high = bounds_of(kind)
            if low <= least and greatest <= high:
                return kind
    return value.type.kind
