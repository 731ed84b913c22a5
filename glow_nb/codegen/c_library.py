"""The functions of a C library that generated code may call: memory and mathematics."""

from __future__ import annotations

_MEMORY = frozenset({"memcpy", "memmove", "memset"})
_MATHEMATICS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1
    fabs floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 logb modf nearbyint pow
    remainder rint round roundeven sin sincos sinh sqrt tan tanh tgamma trunc
"""

C_LIBRARY = _MEMORY | {name + suffix for name in _MATHEMATICS.split() for suffix in ("", "f")}
"""The functions by their symbols."""
