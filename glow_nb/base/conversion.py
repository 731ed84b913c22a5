"""Conversion between element kinds on NumPy arrays: what ``convert_to`` and ``bit_cast`` mean.

To a float
    Rounds to nearest even. What is too large becomes infinite; in a storage kind it becomes the
    largest number, as infinities do. A storage kind that has no NaN stores it as a zero whose sign
    is flipped.
To ``float8e8m0``
    The least power of two that is not below the magnitude in float32, from 2**-127 to 2**127.
To an integer
    Floats drop the fraction. To int64, and to int32 and everything shorter, which has the low bits
    of the int32, what does not fit, and NaN, becomes the least number. To uint32 and uint64, what
    is below half of the range goes through the integer of the same size that has a sign; the rest
    does so less that half, and then has the highest bit flipped. That is what NumPy, ONNX
    Runtime and PyTorch give on x86 processors, for which no operator says what is right; of long
    arrays, since their own results for uint32 depend on the length. Integers keep their low bits.
To bool
    True where not zero, NaN included.

Another conversion to integers is :func:`saturated`: it rounds, and takes the nearest number of the
kind. Quantization is made of it (paper 4.1).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from glow_nb.base.types import Array, ElementKind, TensorType

_FLOAT32_INFINITY = 0x7F80_0000
_FRACTION = 0x007F_FFFF
_LEAST_E8M0 = 0x0040_0000
"""The bits of 2**-127, which is subnormal, in float32."""


def converted(array: Array, kind: ElementKind) -> Array:
    """Return the elements of *array* in *kind*."""
    source = ElementKind.of(array.dtype)
    if source is kind:
        return array
    with np.errstate(all="ignore"):
        if source.is_storage:
            array = _decoded(array, source)
        if kind is ElementKind.BOOL:
            return np.asarray(array != 0)
        if not kind.is_storage:
            is_whole = source.is_float and not kind.is_float
            return _whole(array, kind) if is_whole else array.astype(kind.dtype)
        return _codes(array, kind).astype(np.uint8).view(kind.dtype)


def saturated(array: Array, kind: ElementKind) -> Array:
    """Return *array*, rounded half to even, as the nearest numbers of *kind*, an integer kind.

    It has at most 32 bits. NaN becomes its least number, as in ONNX Runtime.
    """
    least, greatest = kind.limits
    whole = np.rint(array.astype(np.float64))
    return converted(np.minimum(np.where(whole > least, whole, least), greatest), kind)


def in_float32(array: Array) -> Array:
    """Return the elements of *array* in float32."""
    return converted(array, ElementKind.FLOAT32)


def rounded(ratio: Array, offset: Array, kind: ElementKind) -> Array:
    """Return ``saturate(rint(ratio) + offset)`` in *kind*: how every operator quantizes."""
    return saturated(np.rint(ratio) + in_float32(offset), kind)


def quantized(real: Array, type: TensorType) -> Array:
    """Return *real* numbers as integers of a quantized *type*, contiguous and of its shape.

    ``saturate(rint(real / scale) + offset)``, where the division is that of float32.
    """
    scale, offset = type.quantization
    with np.errstate(all="ignore"):
        ratio = real.astype(np.float32) / np.float32(scale)
        integers = rounded(ratio, np.asarray(offset), type.kind)
    return np.ascontiguousarray(integers).reshape(type.shape)


def dequantized(stored: Array, type: TensorType) -> Array:
    """Return the real numbers, of float32, that integers of a quantized *type* represent."""
    scale, offset = type.quantization
    with np.errstate(all="ignore"):
        distance = stored.astype(np.float32) - np.float32(offset)
        return np.asarray(distance * np.float32(scale))


def bits_as(array: Array, kind: ElementKind) -> Array:
    """Return the bits of the elements of *array* as elements of *kind*, which has the same size."""
    if kind is ElementKind.BOOL:
        return np.asarray(array.view(np.uint8) != 0)
    return array.view(kind.dtype)


def is_small_float(kind: ElementKind) -> bool:
    """True for the storage kinds that are floats."""
    return kind.is_storage and kind.value.startswith("float")


def _decoded(array: Array, kind: ElementKind) -> Array:
    """Return numbers of a storage kind as float32 or int32, whatever its unused bits are."""
    codes = array.view(np.uint8) & ((1 << kind.bits) - 1)
    return codes.view(kind.dtype).astype(np.float32 if is_small_float(kind) else np.int32)


def _whole(array: Array, kind: ElementKind) -> Array:
    """Return floats without their fraction in *kind*, an integer kind of at least 8 bits."""
    wide = array.astype(np.float64)
    signed = np.dtype(f"int{max(kind.bits, 32)}")
    if kind.is_signed or kind.bits < 32:
        return _signed(wide, signed).astype(kind.dtype)
    half = 2.0 ** (kind.bits - 1)
    is_upper = wide >= half
    low = _signed(np.where(is_upper, wide - half, wide), signed)
    return np.asarray(np.where(is_upper, low ^ np.iinfo(signed).min, low)).view(kind.dtype)


def _signed(wide: Array, dtype: np.dtype[Any]) -> Array:
    """Return float64 without its fraction in int32 or int64; the least for what does not fit."""
    limits = np.iinfo(dtype)
    fits = np.abs(wide) < 2.0 ** (limits.bits - 1)
    return np.where(fits, np.where(fits, wide, 0).astype(dtype), dtype.type(limits.min))


def _codes(array: Array, kind: ElementKind) -> Array:
    """Return the bits that represent computed numbers in a storage kind."""
    if not is_small_float(kind):
        is_float = ElementKind.of(array.dtype).is_float
        whole = _whole(array, ElementKind.INT32) if is_float else array
        return whole.astype(np.uint8) & ((1 << kind.bits) - 1)
    if kind is ElementKind.FLOAT8E8M0:
        return _powers_of_two(array)
    # float64 holds every other kind but the wide integers, which are cut to a small number anyhow.
    inside = np.clip(array.astype(np.float64), *finite_limits(kind))
    return _rounded_to_odd(inside).astype(kind.dtype).view(np.uint8)


def finite_limits(kind: ElementKind) -> tuple[float, float]:
    """Return the least and the greatest finite number of a *kind* of floats."""
    limits: Any = ml_dtypes.finfo(kind.dtype)  # type: ignore[no-untyped-call]
    return float(limits.min), float(limits.max)


def _rounded_to_odd(array: Array) -> Array:
    """Return float64 numbers as float32 such that rounding to fewer bits afterwards is right.

    ``ml_dtypes`` goes from float64 through float32. Rounding to odd is towards zero, and then the
    last bit is set if anything was lost (Boldo and Melquiond, "When double rounding is odd").
    """
    single = array.astype(np.float32)
    is_above = np.abs(single.astype(np.float64)) > np.abs(array)
    is_inexact = (single != array) & np.isfinite(array)
    bits: Array = (single.view(np.int32) - is_above) | is_inexact
    return bits.view(np.float32)


def _powers_of_two(array: Array) -> Array:
    magnitude = array.astype(np.float32).view(np.int32) & 0x7FFF_FFFF
    above = (magnitude + _FRACTION) >> 23
    codes = np.where(magnitude <= _LEAST_E8M0, 0, np.minimum(above, 0xFE))
    return np.where(magnitude > _FLOAT32_INFINITY, 0xFF, codes)
