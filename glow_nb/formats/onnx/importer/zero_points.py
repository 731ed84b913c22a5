"""Quantized operands of products without their zero points."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.integer_products import centred
from glow_nb.hlir.ops.quantization import BYTES


def along(ctx: Context, parameter: Value, axis: int, rank: int) -> Value:
    """Return one number, or one for each place of *axis*, so that it broadcasts to *rank*."""
    if parameter.type.size == 1:
        return ctx.reshape(parameter, (1,) * rank)
    if parameter.type.rank == 1:
        return ctx.reshape(
            parameter, [parameter.type.size if i == axis else 1 for i in range(rank)]
        )
    return ctx.with_rank(parameter, rank)


def without_zero_point(ctx: Context, value: Value, zero: Value | None, axis: int) -> Value:
    """Return *value* - *zero* for a product, of the smallest kind that surely holds it.

    Args:
        ctx: Emits what is needed.
        value: An operand of bytes.
        zero: The zero point, None for 0: one number, one for each place of *axis*, or a tensor that
            broadcasts to *value*.
        axis: Axis of *value* along which zero points may vary; negative if there is none.

    Raises:
        ModelError: The zero points are of another number.
    """
    if zero is None:
        return value
    require_zero_points(ctx, value, zero, axis)
    zero = along(ctx, zero, axis, value.type.rank)
    if zero.type.kind not in BYTES:  # it may be outside of the kind of bytes
        value = ctx.convert(value, ElementKind.INT32)
    return centred(ctx, value, zero)


def require_zero_points(ctx: Context, value: Value, zero: Value, axis: int) -> None:
    """Raise ModelError unless zero points fit *value* as :func:`without_zero_point` wants."""
    places = value.type.shape[axis] if axis >= 0 else 1
    if zero.type.rank <= 1 and zero.type.size not in (1, places):
        more = f", or {places} for the places of its axis {axis}" if axis >= 0 else ""
        raise ctx.wrong(f"zero points {zero} do not fit operand {value}: give one{more}")
    shape = along(ctx, zero, axis, value.type.rank).type.shape
    if any(size not in (1, wanted) for size, wanted in zip(shape, value.type.shape, strict=True)):
        raise ctx.wrong(f"zero points {zero} do not broadcast to operand {value}")
