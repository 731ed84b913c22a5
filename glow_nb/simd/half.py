"""``float16`` to ``float32`` and back, on every processor.

Where the processor has no instruction for it, LLVM would call a function of its compiler's runtime
library, which a process need not have; there the bits are put together by integer arithmetic.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from glow_nb.base.types import ElementKind
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import FLOAT32, INT32, Lanes, call_named
from glow_nb.simd.types import llvm_vector

FLOAT16 = ElementKind.FLOAT16
CONVERSIONS = "convert_float16"
"""The instruction set that converts ``float16``."""

_SIGN, _SIZE = 0x8000, 0x7FFF
_SIGN_BIT = -(2**31)
_INFINITY = 0x7C00
_QUIET_NAN = 0x7E00
_INFINITY_32 = 0x7F80_0000
_DROPPED = 13
"""Bits of the mantissa that ``float16`` lacks."""
_REBIAS = 112
"""Difference of the exponents' biases, 127 and 15."""
_SUBNORMAL_STEP = 0.5
"""Its neighbours are as far apart as the subnormal numbers of ``float16``, 2 ** -24."""


def _has_instructions(x: Lanes) -> bool:
    return has_instruction_set(x.builder, CONVERSIONS)


def _half_vector(x: Lanes) -> Any:
    return ir.VectorType(ir.HalfType(), x.lanes)


def _fenced(x: Lanes, single: Any) -> Any:
    """Return the LLVM vector *single* of ``float32``, of as many lanes as *x* has, as it is."""
    name = f"llvm.arithmetic.fence.v{x.lanes}f32"
    return call_named(x.builder, name, single.type, [single])


def widen_half(x: Lanes) -> Lanes:
    """Convert ``float16`` to ``float32``, exactly."""
    builder, wide = x.builder, llvm_vector(FLOAT32, x.lanes)
    if _has_instructions(x):
        # Without the fence LLVM may put this and a conversion to float64 together, lane by lane.
        single = builder.fpext(builder.bitcast(x.value, _half_vector(x)), wide)
        return x.like(_fenced(x, single), FLOAT32)
    bits = x.like(builder.zext(x.value, llvm_vector(INT32, x.lanes)), INT32)
    size = (bits & _SIZE).shift_left(_DROPPED)
    is_finite = size < _INFINITY << _DROPPED
    # The product is exact, of subnormal numbers too.
    scaled = (size.as_float(FLOAT32) * 2.0**_REBIAS).bits()
    number = is_finite.select(scaled, size | _INFINITY_32)
    return (number | (bits & _SIGN).shift_left(16)).as_float(FLOAT32)


def narrow_to_half(x: Lanes) -> Lanes:
    """Round ``float32`` to ``float16``, halves to even."""
    builder, narrow = x.builder, llvm_vector(FLOAT16, x.lanes)
    if _has_instructions(x):
        # Without the fence LLVM may put this rounding and one from float64 before it together,
        # which would round otherwise, and by a function of the runtime library.
        half = builder.fptrunc(_fenced(x, x.value), _half_vector(x))
        return x.like(builder.bitcast(half, narrow), FLOAT16)
    sign = x.bits() & _SIGN_BIT
    size = x.bits() ^ sign
    is_odd = size.shift_right(_DROPPED) & 1
    rebiased = size - (_REBIAS << 23)
    normal = (rebiased + ((1 << _DROPPED - 1) - 1) + is_odd).shift_right(_DROPPED)
    shifted = (size.as_float(FLOAT32) + _SUBNORMAL_STEP).bits()
    subnormal = shifted - shifted.full(_SUBNORMAL_STEP, FLOAT32).bits()
    result = (size < (_REBIAS + 1) << 23).select(subnormal, normal)
    result = (size < (_REBIAS + 31) << 23).select(result, size.full(_INFINITY))
    result = x.is_nan().select(_QUIET_NAN, result)
    signed = result | (sign.shift_right(16) & _SIGN)
    return x.like(builder.trunc(signed.value, narrow), FLOAT16)
