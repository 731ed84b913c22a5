"""Integer expressions of generated source, without terms and factors that do nothing."""

from __future__ import annotations


def times(expression: str, factor: int) -> str:
    """Return the product of *expression*, a name or in brackets, and a number."""
    if factor == 0 or expression == "0":
        return "0"
    return expression if factor == 1 else f"{expression} * {factor}"


def plus(*terms: str | int) -> str:
    """Return the sum of *terms*; a negative number is subtracted."""
    kept = [str(term) for term in terms if str(term) != "0"]
    return " + ".join(kept).replace("+ -", "- ") or "0"
