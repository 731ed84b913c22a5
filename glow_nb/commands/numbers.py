"""Options that are numbers."""

from __future__ import annotations

import math
from typing import Any

import click
from typing_extensions import override


class FiniteRange(click.FloatRange):
    """A number from *min* to *max*, both of which are finite.

    NaN, which is neither below nor above any number, is not in the range.
    """

    min: float
    max: float

    def __init__(self, min: float, max: float, *, min_open: bool = False) -> None:
        """Take the range, with *min_open* without *min* itself."""
        super().__init__(min, max, min_open=min_open)

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{number} is not a number from {self.min:g} to {self.max:g}.", param, ctx)
        return number
