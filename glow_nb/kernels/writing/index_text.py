"""Integer expressions of generated source, without terms and factors that do nothing."""

from __future__ import annotations

from collections.abc import Sequence

from glow_nb.base.size import symbols_of


def times(expression: str, factor: int) -> str:
    """Return the product of *expression*, a name or in brackets, and a number."""
    if factor == 0 or expression == "0":
        return "0"
    return expression if factor == 1 else f"{expression} * {factor}"


def plus(*terms: str | int) -> str:
    """Return the sum of *terms*; a negative number is subtracted."""
    text = ""
    for term in terms:
        if term in (0, "0"):
            continue
        if not text:
            text = f"{term}"
        elif isinstance(term, int) and term < 0:
            text += f" - {-term}"
        else:
            text += f" + {term}"
    return text or "0"


def index_text(indices: Sequence[str], strides: Sequence[int], offset: int = 0) -> str:
    """Return ``i0 * 12 + i1 * 4 + j + 3`` for indices and their strides."""
    terms = (times(i, stride) for i, stride in zip(indices, strides, strict=True))
    return plus(*terms, f"{offset}")


def real_text(number: int) -> str:
    """Return a whole *number*, which may be open, as a number with a fraction: ``128.0``."""
    return f"({number} * 1.0)" if symbols_of(number) else f"{number}.0"
