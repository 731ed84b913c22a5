"""Conversions between element kinds.

Floats to integers drop the fraction; what does not fit is as :mod:`glow_nb.base.conversion` says.
Narrowing floats rounds to nearest,
ties to even, once: from ``float64`` to 16 bits the ``float32`` step rounds to odd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glow_nb.base.types import ElementKind
from glow_nb.simd.arithmetic import absolute, rint, trunc
from glow_nb.simd.half import narrow_to_half, widen_half
from glow_nb.simd.lanes import BOOL, FLOAT32, FLOAT64, INT32, INT64, Lanes, joined
from glow_nb.simd.packing import packs_bytes, rounded_to_bytes
from glow_nb.simd.rare import unless
from glow_nb.simd.small_integers import SMALL_BITS, float_of_small, high_bits, small_from_float
from glow_nb.simd.storage import FORMATS, decode, encode
from glow_nb.simd.types import is_narrow, llvm_vector

FLOAT16, BFLOAT16 = ElementKind.FLOAT16, ElementKind.BFLOAT16
_SUFFIXES = {FLOAT32: "f32", FLOAT64: "f64"}
_QUIET_BIT = 0x0040_0000


def convert(x: Lanes, kind: ElementKind) -> Lanes:
    """Convert every lane of *x* to *kind*."""
    if x.kind is kind:
        return x
    if x.kind.is_storage:
        return convert(decode(x), kind)
    if kind.is_storage:
        return encode(_encodable(x, kind), kind)
    if kind is BOOL:
        wide = convert(x, FLOAT32) if is_narrow(x.kind) else x
        return wide.compare("!=", 0)
    if is_narrow(x.kind):
        return convert(_widen(x), kind)
    if is_narrow(kind):
        return _narrow(x, kind)
    if x.kind.is_float:
        return _from_float(x, kind)
    return _from_integer(x, kind)


def saturate(x: Lanes, kind: ElementKind) -> Lanes:
    """Round every lane of *x* half to even to the nearest number of *kind*; the least for NaN.

    This is for integer kinds of at most 32 bits; to another kind it converts.
    """
    if not _is_short_integer(kind):
        return convert(x, kind)
    if is_narrow(x.kind) or not x.kind.is_float:
        x = convert(x, FLOAT64 if x.kind.size_bytes > 2 else FLOAT32)
    least, greatest = kind.limits
    if kind.size_bytes <= 2 and not kind.is_storage and x.kind is FLOAT32:
        return _packed(x, kind) or _round_few_bits(x, kind)
    whole = rint(x)
    if greatest >= 1 << 24 and x.kind is FLOAT32:  # which rounds it up to what does not fit
        above = (whole > least).select(whole, whole.full(least))  # a NaN is not above
        return (above >= greatest).select(greatest, convert(above, kind))
    return convert(clamp(whole, kind), kind)


def saturate_sum(x: Lanes, offset: Lanes, kind: ElementKind) -> Lanes:
    """Round every lane of *x* half to even, and return the number of *kind* nearest to the sum.

    *x* is of ``float32``, *offset* of *kind*, which has at most 16 bits; the least stands for NaN.
    """
    packed = _packed(x, kind, convert(offset, INT32))
    return packed or saturate(rint(x) + convert(offset, FLOAT32), kind)


def clamp(x: Lanes, kind: ElementKind) -> Lanes:
    """Return every lane of *x* as the nearest number between the limits of *kind*; least for NaN.

    The kind of *x* holds both limits of *kind*, and stays.
    """
    least, greatest = kind.limits
    above = (x > least).select(x, x.full(least))  # a NaN is not above
    return (above < greatest).select(above, above.full(greatest))


def clamp_around(x: Lanes, offset: Lanes, kind: ElementKind) -> Lanes:
    """Return ``clamp(x + offset, kind) - offset`` for whole numbers, of *kind* in *offset*."""
    least, greatest = (x.full(limit) - offset for limit in kind.limits)
    above = (x > least).select(x, least)  # a NaN is not above
    return (above < greatest).select(above, greatest) + 0.0  # of -0.0 it makes 0.0


def saturate_all(
    parts: Sequence[Lanes], kind: ElementKind, offsets: Sequence[Lanes] = ()
) -> list[Lanes]:
    """Saturate vectors of equal lanes, several at once where the processor packs them.

    If there are *offsets*, one for each, it is as :func:`saturate_sum` does.
    """
    if len(parts) > 1 and packs_bytes(parts[0], kind) == parts[0].lanes:
        return rounded_to_bytes(parts, kind, [convert(offset, INT32) for offset in offsets])
    if offsets:
        return [saturate_sum(*each, kind) for each in zip(parts, offsets, strict=True)]
    return [saturate(part, kind) for part in parts]


def _packed(x: Lanes, kind: ElementKind, offset: Lanes | None = None) -> Lanes | None:
    """Saturate a vector that is several of the processor's, if that packs them.

    An *offset* of int32 is added to the rounded numbers first.
    """
    lanes = packs_bytes(x, kind)
    if not lanes or x.lanes <= lanes:
        return None

    count = x.lanes // lanes
    return joined(rounded_to_bytes(x.split(count), kind, offset.split(count) if offset else ()))


_LAST_BIT_IS_ONE = 1.5 * 2.0**23
"""The last bit of this number in ``float32`` stands for one, and the last 22 are zeros."""


def _round_few_bits(x: Lanes, kind: ElementKind) -> Lanes:
    """Saturate ``float32`` to integers of at most 16 bits.

    Added to a number whose last bit stands for one, a small number is rounded, and is what the last
    bits are. That is one operation instead of several.
    """
    bits = (clamp(x, kind) + _LAST_BIT_IS_ONE).bits()
    return _cast(bits, x.builder.trunc, kind)


def _is_short_integer(kind: ElementKind) -> bool:
    return kind.value.startswith(("int", "uint")) and kind.bits <= 32


def bit_cast(x: Lanes, kind: ElementKind) -> Lanes:
    """Take the bits of every lane of *x* as an element of *kind*, which has as many."""
    if kind is BOOL:
        return x.like(x.value, ElementKind.UINT8).compare("!=", 0)
    if x.kind is BOOL:
        return x.like(x.builder.zext(x.value, llvm_vector(kind, x.lanes)), kind)
    return x.like(x.builder.bitcast(x.value, llvm_vector(kind, x.lanes)), kind)


def _encodable(x: Lanes, kind: ElementKind) -> Lanes:
    """Return *x* in the kind that :func:`encode` makes numbers of a storage *kind* from."""
    if kind in FORMATS:
        return _to_float32_once(x)
    if kind is ElementKind.FLOAT8E8M0:
        return convert(x, FLOAT32)
    return convert(x, INT32) if x.kind.is_float or x.kind is BOOL else x


def in_float32(operation: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """Let *operation* take 16-bit floats: widen, compute in ``float32``, round the result."""

    def widened(*operands: Lanes) -> Lanes:
        narrow = next((x.kind for x in operands if is_narrow(x.kind)), None)
        if narrow is None:
            return operation(*operands)
        wide = [convert(x, FLOAT32) if is_narrow(x.kind) else x for x in operands]
        result = operation(*wide)
        return convert(result, narrow) if result.kind is FLOAT32 else result

    return widened


def _from_float(x: Lanes, kind: ElementKind) -> Lanes:
    if kind.is_float:
        cast = x.builder.fpext if kind is FLOAT64 else x.builder.fptrunc
        return _cast(x, cast, kind)
    if kind.size_bytes == INT64.size_bytes:
        is_large = (absolute(x) < 2.0**SMALL_BITS) ^ True  # or is NaN
        usual = small_from_float(trunc(convert(x, FLOAT64)), kind)
        (result,) = unless(is_large, [usual], lambda: [_any_from_float(x, kind)])
        return result
    return _any_from_float(x, kind)


def _any_from_float(x: Lanes, kind: ElementKind) -> Lanes:
    """Convert floats to an integer kind, whether they fit or not."""
    if kind.is_signed or kind.size_bytes < INT32.size_bytes:
        return _from_integer(_whole(x, INT64 if kind is INT64 else INT32), kind)
    signed = INT64 if kind is ElementKind.UINT64 else INT32
    half = 2.0 ** (8 * kind.size_bytes - 1)
    is_upper = x >= half
    low = _whole(is_upper.select(x - half, x), signed)
    return _from_integer(is_upper.select(low ^ signed.limits[0], low), kind)


def _whole(x: Lanes, kind: ElementKind) -> Lanes:
    """Return floats without their fraction in *kind*, int32 or int64; the least if it is too small.

    LLVM leaves open what its conversion makes of a number that does not fit.
    """
    least = float(kind.limits[0])
    small = (x < -least).select(x, x.full(least))  # a NaN is not below
    return _cast((small > least).select(small, x.full(least)), x.builder.fptosi, kind)


def _from_integer(x: Lanes, kind: ElementKind) -> Lanes:
    is_signed = x.kind.is_signed
    if kind.is_float:
        if x.kind is ElementKind.UINT64:
            return _float_from_long(x, kind)
        return _cast(x, x.builder.sitofp if is_signed else x.builder.uitofp, kind)
    from_bits = 1 if x.kind is BOOL else x.kind.size_bytes * 8
    to_bits = kind.size_bytes * 8
    if from_bits == to_bits:
        return x.like(x.value, kind)
    widen = x.builder.sext if is_signed else x.builder.zext
    return _cast(x, widen if from_bits < to_bits else x.builder.trunc, kind)


def _float_from_long(x: Lanes, kind: ElementKind) -> Lanes:
    """Convert uint64 to floats, rounded once: small ones are exact in ``float64``."""
    usual = convert(float_of_small(x), kind)
    is_large = high_bits(x).compare("!=", 0)
    (result,) = unless(is_large, [usual], lambda: [_cast(x, x.builder.uitofp, kind)])
    return result


def _cast(x: Lanes, instruction: Any, kind: ElementKind) -> Lanes:
    return x.like(instruction(x.value, llvm_vector(kind, x.lanes)), kind)


def _widen(x: Lanes) -> Lanes:
    """Convert a 16-bit float to ``float32``, exactly."""
    if x.kind is FLOAT16:
        return widen_half(x)
    bits = _cast(x, x.builder.zext, INT32)
    return bits.shift_left(16).as_float(FLOAT32)


def _narrow(x: Lanes, kind: ElementKind) -> Lanes:
    """Convert *x* to a 16-bit float, rounding once."""
    single = _to_float32_once(x)
    if kind is FLOAT16:
        return narrow_to_half(single)
    bits = single.bits()
    is_odd = bits.shift_right(16) & 1
    rounded = bits + 0x7FFF + is_odd
    kept = single.is_nan().select(bits | _QUIET_BIT, rounded)
    return _cast(kept.shift_right(16), x.builder.trunc, BFLOAT16)


def _to_float32_once(x: Lanes) -> Lanes:
    """Convert to ``float32`` such that rounding to fewer bits afterwards is right."""
    if x.kind is FLOAT32 or is_narrow(x.kind):
        return convert(x, FLOAT32)
    return _float32_to_odd(x)


def _float32_to_odd(x: Lanes) -> Lanes:
    """Convert to ``float32`` such that a second rounding to fewer bits is right.

    Rounding to odd: towards zero, then the last bit set if anything was lost (Boldo and
    Melquiond, "When double rounding is odd").
    """
    double = x if x.kind is FLOAT64 else _from_integer(x, FLOAT64)
    single = _from_float(double, FLOAT32)
    back = _from_float(single, FLOAT64)
    too_far = _bool32(absolute(back) > absolute(double))
    inexact = _bool32(back.compare("!=", double) & (absolute(double) < float("inf")))
    return ((single.bits() - too_far) | inexact).as_float(FLOAT32)


def _bool32(x: Lanes) -> Lanes:
    return _cast(x, x.builder.zext, INT32)
