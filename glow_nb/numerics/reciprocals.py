"""Quotients by known divisors, as far as their rounding to whole numbers goes, by multiplications.

A division takes as long as ten multiplications. With ``high + low``, the reciprocal of a divisor in
twice the digits of float32, ``fma(x, high, x * low)`` is ``x / divisor`` but for ``2**-46`` of it
before its one rounding. It is the float32 quotient unless that is so near to the middle of two
floats. What whole number is next to it changes at the halves alone. So of a divisor no multiple of
which is so near to a middle beside a half, all quotients of float32 give the same whole number,
NaN and infinities too: ``high`` and ``low`` are positive.
"""

from __future__ import annotations

import numpy as np

from glow_nb.base.types import Array

MARGIN = 2.0**-45
"""What a quotient must be away from the middle of two floats, as a part of it."""

SMALLEST, LARGEST = 2.0**-64, 2.0**64
"""Limits of divisors of which no product that matters is denormal."""

LEAST_LOW = 2.0**-60
"""The least ``low``, as a part of ``high``, that of powers of two: infinity times 0 is NaN."""

AT_ONCE = 256
"""Divisors that are checked together: each is multiplied by some hundred middles."""


def reciprocals(divisors: Array, most: int) -> tuple[Array, Array] | None:
    """Return the reciprocals of *divisors* in two parts; None if a result would differ.

    Args:
        divisors: Positive numbers of float32, of any shape.
        most: The largest whole number, of either sign, that matters; larger ones are bounded.
    """
    if not divisors.size or divisors.min() < SMALLEST or divisors.max() > LARGEST:
        return None
    exact = 1.0 / divisors.astype(np.float64)
    near = exact.astype(np.float32)
    high = np.where(near > exact, np.nextafter(near, np.float32(0)), near)
    low = np.maximum((exact - high).astype(np.float32), high * np.float32(LEAST_LOW))
    middles, different = _middles(most), np.unique(divisors)
    pieces = (different[begin : begin + AT_ONCE] for begin in range(0, different.size, AT_ONCE))
    return (high, low) if all(_are_far(piece, middles) for piece in pieces) else None


def _middles(most: int) -> Array:
    """Return the middles between each half, up to that of *most*, and the floats next to it."""
    halves = np.arange(most + 1, dtype=np.float32) + np.float32(0.5)
    neighbours = (np.nextafter(halves, np.float32(side)) for side in (0, np.inf))
    return np.concatenate([(n.astype(np.float64) + halves) / 2 for n in neighbours])


def _are_far(divisors: Array, middles: Array) -> bool:
    """Return whether no quotient of float32 by one of *divisors* is next to one of *middles*."""
    products = divisors.astype(np.float64).reshape(-1, 1) * middles  # exact: 24 and 25 bits
    distances = np.abs(products.astype(np.float32) - products)
    return bool((distances > MARGIN * products).all())
