"""Numbers of storage kinds in vectors: their bits to numbers and back, by integer arithmetic.

A vector of a storage kind holds bytes. Floats of a few bits are decoded to ``float32``, which holds
them all, and encoded from it; :mod:`glow_nb.base.conversion` says what the numbers become.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.types import ElementKind
from glow_nb.simd.lanes import FLOAT32, INT32, Lanes
from glow_nb.simd.types import llvm_vector

_BIAS, _MANTISSA_BITS = 127, 23
_INFINITY, _NAN = 0x7F80_0000, 0x7FC0_0000
_NEGATIVE_NAN = _NAN - (1 << 31)
_MAGNITUDE = 0x7FFF_FFFF
_LEAST_E8M0 = 0x0040_0000
_UINT8, _INT8 = ElementKind.UINT8, ElementKind.INT8


@dataclass(frozen=True)
class SmallFloat:
    """A format of one sign bit, *exponent* bits and *mantissa* bits (OCP MX, OCP OFP8, FNUZ).

    Attributes:
        exponent: Bits of the exponent.
        mantissa: Bits of the mantissa.
        bias: Bias of the exponent.
        largest: Bits of the largest finite number.
        nan: Bits that NaN is stored as, of whose sign bit the sign of the NaN is the opposite where
            the format has no NaN.
        infinity: Bits of the infinity, if there is one. All magnitudes above it are NaN, otherwise
            those above ``largest``.
        is_fnuz: There is no negative zero: its bits are the only NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    nan: int
    infinity: int | None = None
    is_fnuz: bool = False

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << self.exponent + self.mantissa

    @property
    def least_normal(self) -> int:
        """Bits of the least number that is not subnormal."""
        return 1 << self.mantissa

    @property
    def spacing(self) -> float:
        """The least positive number, which is the distance between two subnormal ones."""
        return 2.0 ** (1 - self.bias - self.mantissa)


FORMATS: dict[ElementKind, SmallFloat] = {
    ElementKind.FLOAT8E4M3FN: SmallFloat(4, 3, bias=7, largest=0x7E, nan=0x7F),
    ElementKind.FLOAT8E4M3FNUZ: SmallFloat(4, 3, bias=8, largest=0x7F, nan=0x80, is_fnuz=True),
    ElementKind.FLOAT8E5M2: SmallFloat(5, 2, bias=15, largest=0x7B, nan=0x7E, infinity=0x7C),
    ElementKind.FLOAT8E5M2FNUZ: SmallFloat(5, 2, bias=16, largest=0x7F, nan=0x80, is_fnuz=True),
    ElementKind.FLOAT6E2M3: SmallFloat(2, 3, bias=1, largest=0x1F, nan=0x20),
    ElementKind.FLOAT6E3M2: SmallFloat(3, 2, bias=3, largest=0x1F, nan=0x20),
    ElementKind.FLOAT4E2M1: SmallFloat(2, 1, bias=1, largest=0x07, nan=0x08),
}


def decode(x: Lanes) -> Lanes:
    """Return a vector of a storage kind as float32, or as int8 or uint8."""
    if x.kind in FORMATS:
        return _decode_float(_as_int32(x), FORMATS[x.kind])
    if x.kind is ElementKind.FLOAT8E8M0:
        return _decode_power(_as_int32(x))
    unused = 8 - x.kind.bits
    whole = x.like(x.value, _INT8 if x.kind.is_signed else _UINT8)
    return whole.shift_left(unused).shift_right(unused)


def encode(x: Lanes, kind: ElementKind) -> Lanes:
    """Return float32 numbers, or integers if *kind* is one, as a vector of a storage kind."""
    if kind in FORMATS:
        return _as_bytes(_encode_float(x, FORMATS[kind]), kind)
    if kind is ElementKind.FLOAT8E8M0:
        return _as_bytes(_encode_power(x), kind)
    code = x if x.kind.size_bytes == 1 else _as_bytes(x, _UINT8)
    return code.like((code & ((1 << kind.bits) - 1)).value, kind)


def _decode_float(code: Lanes, format: SmallFloat) -> Lanes:
    magnitude = code & (format.sign - 1)
    shift = _MANTISSA_BITS - format.mantissa
    normal = magnitude.shift_left(shift) + ((_BIAS - format.bias) << _MANTISSA_BITS)
    subnormal = _float_of(magnitude) * format.spacing
    bits = (magnitude < format.least_normal).select(subnormal.bits(), normal)
    if format.infinity is not None:
        bits = (magnitude >= format.infinity).select(_INFINITY, bits)
        bits = (magnitude > format.infinity).select(_NAN, bits)
    elif not format.is_fnuz and format.nan < format.sign:
        bits = (magnitude > format.largest).select(_NAN, bits)
    sign = (code & format.sign).shift_left(31 - format.exponent - format.mantissa)
    bits = bits | sign
    if format.is_fnuz:
        bits = _same(code, format.nan).select(_NEGATIVE_NAN, bits)
    return bits.as_float(FLOAT32)


def _encode_float(x: Lanes, format: SmallFloat) -> Lanes:
    bits = x.bits()
    magnitude = bits & _MAGNITUDE
    shift = _MANTISSA_BITS - format.mantissa
    is_odd = magnitude.shift_right(shift) & 1
    rounded = (magnitude + (1 << shift - 1) + is_odd - 1).shift_right(shift)
    normal = rounded - ((_BIAS - format.bias) << format.mantissa)
    # In the sum with a number of this size the last bit is worth one spacing.
    anchor = x.full(format.spacing * 2.0**_MANTISSA_BITS, FLOAT32)
    subnormal = (magnitude.as_float(FLOAT32) + anchor).bits() - anchor.bits()
    least_normal = (_BIAS + 1 - format.bias) << _MANTISSA_BITS
    code = (magnitude < least_normal).select(subnormal, normal)
    code = (code > format.largest).select(format.largest, code)
    sign = bits.shift_right(31) & format.sign
    if format.is_fnuz:
        signed = _same(code, 0).select(0, code | sign)
        return (magnitude > _INFINITY).select(format.nan, signed)
    return (magnitude > _INFINITY).select(code.full(format.nan), code) ^ sign


def _decode_power(code: Lanes) -> Lanes:
    bits = _same(code, 0).select(_LEAST_E8M0, code.shift_left(_MANTISSA_BITS))
    return _same(code, 0xFF).select(_NAN, bits).as_float(FLOAT32)


def _encode_power(x: Lanes) -> Lanes:
    magnitude = x.bits() & _MAGNITUDE
    above = (magnitude + ((1 << _MANTISSA_BITS) - 1)).shift_right(_MANTISSA_BITS)
    code = (above > 0xFE).select(0xFE, above)
    code = (magnitude <= _LEAST_E8M0).select(0, code)
    return (magnitude > _INFINITY).select(0xFF, code)


def _same(x: Lanes, number: int) -> Lanes:
    return x.compare("==", number)


def _float_of(x: Lanes) -> Lanes:
    return x.like(x.builder.sitofp(x.value, llvm_vector(FLOAT32, x.lanes)), FLOAT32)


def _as_int32(x: Lanes) -> Lanes:
    return x.like(x.builder.zext(x.value, llvm_vector(INT32, x.lanes)), INT32)


def _as_bytes(code: Lanes, kind: ElementKind) -> Lanes:
    return code.like(code.builder.trunc(code.value, llvm_vector(kind, code.lanes)), kind)
