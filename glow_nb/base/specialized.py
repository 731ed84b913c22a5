"""Sizes of a model that were to stay open, and are numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Specialized:
    """A size that was made a number.

    Attributes:
        name: The dimension.
        size: The number: that of the example, or the only one that the model takes.
        reason: The operator or attribute that needs a number.
    """

    name: str
    size: int
    reason: str
