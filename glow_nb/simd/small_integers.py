"""Integers of 64 bits that are small, to and from ``float64``, without an instruction for that.

A number added to 1.5 * 2**52 stands in the low bits of the sum.
"""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.simd.lanes import FLOAT64, INT64, Lanes

SMALL_BITS = 50
"""Integers below 2 ** 50 are small: ``float64`` has two bits more for them."""
_SHIFT = 1.5 * 2.0**52


def float_of_small(x: Lanes) -> Lanes:
    """Convert small integers."""
    bits = x.like(x.value, INT64) + x.full(_SHIFT, FLOAT64).bits()
    return bits.as_float(FLOAT64) - _SHIFT


def small_from_float(x: Lanes, kind: ElementKind) -> Lanes:
    """Convert small whole numbers to a *kind* of 64 bits."""
    bits = (x + _SHIFT).bits() - x.full(_SHIFT).bits()
    return bits.like(bits.value, kind)


def high_bits(x: Lanes) -> Lanes:
    """Return numbers that are not 0 where integers are not small."""
    shifted = x + (1 << SMALL_BITS) if x.kind.is_signed else x
    bits = SMALL_BITS + x.kind.is_signed
    return shifted.like(shifted.value, ElementKind.UINT64).shift_right(bits)
