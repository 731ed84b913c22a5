"""Sums of values divided by the total of their weights."""

from __future__ import annotations

from glow_nb.hlir.ops.attention import ZERO, ZERO_FOR_NAN


def quotient(sums: str, total: str, zero: str, masked_rows: str) -> str:
    """Return the text of *sums* by *total*, vectors like *zero*.

    For a row of which nothing is seen the total is 0, and the quotient NaN. *masked_rows* says
    whether it is 0 there, or also where the total is NaN.
    """
    y = f"mul({sums}, reciprocal({total}))"
    if masked_rows == ZERO:
        return f"where(equal({total}, {zero}), {zero}, {y})"
    if masked_rows == ZERO_FOR_NAN:
        return f"where(greater({total}, {zero}), {y}, {zero})"
    return y
