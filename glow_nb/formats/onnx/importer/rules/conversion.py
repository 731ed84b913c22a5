"""Conversions of elements: Cast, CastLike and BitCast.

``convert_to`` converts as ONNX does by default: it saturates, and rounds up to ``float8e8m0``.
Other modes are composed of it and of integer arithmetic on the bits.
"""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.families import Comparison
from glow_nb.hlir.ops.formulas.terms import where

UINT8, UINT32 = ElementKind.UINT8, ElementKind.UINT32
E8M0 = ElementKind.FLOAT8E8M0

_MANTISSA_BITS = 23
_NAN = 0xFF

_OVERFLOWS: dict[ElementKind, tuple[type[Comparison], float, int]] = {
    ElementKind.FLOAT8E4M3FN: (ops.Greater, 464.0, 0x01),
    ElementKind.FLOAT8E4M3FNUZ: (ops.GreaterEqual, 248.0, 0x80),
    ElementKind.FLOAT8E5M2: (ops.GreaterEqual, 61440.0, 0x01),
    ElementKind.FLOAT8E5M2FNUZ: (ops.GreaterEqual, 61440.0, 0x80),
}
"""Which magnitudes round to more than the largest number; and how the bits of that number or its
negative become those of the infinity or NaN of its sign: add 1, or take the only NaN, 0x80."""

_ROUNDINGS: dict[str, tuple[int, int]] = {
    "up": (0x7F_FFFF, 0x40_0001),
    "nearest": (0x40_0000, 0x60_0000),
    "down": (0, 0x80_0000),
}
"""What to add to the bits of a normal float32 so that its exponent is that of the power of two, and
from which bits on a subnormal one becomes 2**-126 instead of 2**-127."""


@onnx_op("Cast")
def cast(ctx: Context, node: OnnxNode) -> Value:
    """Convert to the kind that attribute ``to`` names."""
    return _cast(ctx, node, ctx.kind(node.integer("to")))


@onnx_op("CastLike")
def cast_like(ctx: Context, node: OnnxNode) -> Value:
    """Convert to the kind of the second operand."""
    return _cast(ctx, node, node.operand(1).type.kind)


@onnx_op("BitCast")
def bit_cast(ctx: Context, node: OnnxNode) -> Value:
    """Reinterpret the bits of each element as another kind of the same size."""
    return ops.BitCast(node.operand(0), ctx.kind(node.integer("to")))


def in_floats(
    ctx: Context,
    x: Value,
    compute: Callable[[Value], Value],
    kind: ElementKind = ElementKind.FLOAT64,
) -> Value:
    """Return what *compute* makes of *x*; integers become of *kind*, the result truncates."""
    if x.type.kind.is_float:
        return compute(x)
    result = ctx.emitted(compute(ctx.convert(x, kind)))[0]
    assert result is not None
    return ctx.convert(result, x.type.kind)


def _cast(ctx: Context, node: OnnxNode, kind: ElementKind) -> Value:
    x = node.operand(0)
    saturates = node.flag("saturate", True)
    if kind is not E8M0:
        return ctx.convert(x, kind) if saturates else unsaturated(ctx, x, kind)
    mode = node.text("round_mode", "up")
    if mode not in _ROUNDINGS:
        raise ctx.wrong(f"round_mode {mode!r} must be one of {list(_ROUNDINGS)}")
    if saturates and mode == "up":
        return ctx.convert(x, kind)
    return _power(ctx, x, mode, saturates)


def unsaturated(ctx: Context, x: Value, kind: ElementKind) -> Value:
    """Return *x* in *kind*; what is too large for an 8-bit float becomes infinite or NaN."""
    nearest = ctx.convert(x, kind)
    if kind not in _OVERFLOWS or x.type.kind is kind:
        return nearest
    comparison, limit, change = _OVERFLOWS[kind]
    wide = x if x.type.kind is ElementKind.FLOAT64 else ctx.convert(x, ElementKind.FLOAT32)
    is_over = ctx.term(wide).apply(ops.Abs).joined(comparison, limit)
    bits = ctx.term(ctx.emit(ops.BitCast(nearest, UINT8)))
    changed = where(is_over, bits.number(change) if change == 0x80 else bits + change, bits)
    return ctx.emit(ops.BitCast(changed.value, kind))


def _power(ctx: Context, x: Value, mode: str, saturates: bool) -> Value:
    """Return *x* as ``float8e8m0``: the power of two that *mode* makes of the magnitude.

    Unless it *saturates*, what is below 2**-127 or rounds to more than 2**127 becomes NaN.
    """
    if x.type.kind is E8M0:
        return x
    bits = ctx.term(ctx.emit(ops.BitCast(ctx.convert(x, ElementKind.FLOAT32), UINT32)))
    added, least_double = _ROUNDINGS[mode]
    magnitude = bits.joined(ops.BitwiseAnd, 0x7FFF_FFFF)
    rounded, places = (magnitude + added).value, bits.number(_MANTISSA_BITS).value
    exponent = ctx.term(ctx.emit(ops.BitShift(rounded, places, direction="right")))
    code = where(magnitude >= least_double, bits.number(1), 0)
    code = where(magnitude >= 1 << _MANTISSA_BITS, exponent, code)
    code = code.joined(ops.Minimum, 0xFE if saturates else _NAN)
    if not saturates:
        code = where(magnitude >= 0x40_0000, code, _NAN)
    code = where(magnitude >= 0x7F80_0001, _NAN, code)
    return ctx.emit(ops.BitCast(ctx.convert(code.value, UINT8), E8M0))
