"""Histograms, with bins whose width is determined by the numbers alone.

The bins are ``[n * width, (n + 1) * width)`` for whole n, the width a power of two. The first one
holds the least number, and the width is the smallest for which no more than ``bins`` of them reach
to the greatest. To widen a histogram, neighbouring bins are merged, so no number is counted again
or lost: the result does not depend on the order of the numbers, or on the number of runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array

LEAST_WIDTH = 2.0**-149
"""The smallest positive float32, which divides all others."""

MOST_BINS = 2**24
"""Largest number of bins from 0 to a number: more would be finer than float32."""


def bin_width(minimum: float, maximum: float, bins: int) -> float:
    """Return the width of the bins for numbers from *minimum* to *maximum*."""
    reach = max(abs(minimum), abs(maximum))
    width = LEAST_WIDTH
    while reach >= MOST_BINS * width or maximum // width - minimum // width >= bins:
        width *= 2
    return width


@dataclass(frozen=True, eq=False)
class Histogram:
    """A histogram of finite numbers.

    Attributes:
        minimum: The least of them; infinite if there are none.
        maximum: The greatest of them; minus infinity if there are none.
        counts: ``int64``: the count of each bin; the first bin holds the minimum.
    """

    minimum: float
    maximum: float
    counts: Array

    @classmethod
    def empty(cls, bins: int) -> Histogram:
        """Return the histogram of no numbers."""
        return cls(np.inf, -np.inf, np.zeros(bins, np.int64))

    @classmethod
    def of(cls, numbers: Array, bins: int = 2048) -> Histogram:
        """Return the histogram of *numbers*.

        Raises:
            OptionError: Some of them are not finite.
        """
        wide = np.asarray(numbers, np.float64).reshape(-1)
        if not wide.size:
            return cls.empty(bins)
        minimum, maximum = float(wide.min()), float(wide.max())
        if not np.isfinite(maximum - minimum):
            raise OptionError(
                f"histogram of {wide.size} numbers: {np.sum(~np.isfinite(wide))} are NaN or "
                "infinite; take them out"
            )
        width = bin_width(minimum, maximum, bins)
        places = np.floor(wide / width) - minimum // width
        return cls(minimum, maximum, np.bincount(places.astype(np.int64), minlength=bins))

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.counts)

    @cached_property
    def total(self) -> int:
        """The number of counted numbers."""
        return int(self.counts.sum())

    @cached_property
    def width(self) -> float:
        """The width of each bin."""
        if self.minimum > self.maximum:
            return LEAST_WIDTH
        return bin_width(self.minimum, self.maximum, self.bins)

    @cached_property
    def edges(self) -> Array:
        """Where the bins begin, and where the last one ends."""
        return (self.minimum // self.width + np.arange(self.bins + 1)) * self.width

    @cached_property
    def centers(self) -> Array:
        """The middle of each bin, but never beyond the least and the greatest number."""
        middles = (self.edges[:-1] + self.edges[1:]) / 2
        clipped: Array = np.clip(middles, self.minimum, self.maximum)
        return clipped

    def widened(self, minimum: float, maximum: float) -> Histogram:
        """Return the same counts in bins that also cover the numbers from *minimum* to
        *maximum*.
        """
        minimum, maximum = min(self.minimum, minimum), max(self.maximum, maximum)
        if not self.counts.any():
            return Histogram(minimum, maximum, self.counts)
        width = bin_width(minimum, maximum, self.bins)
        moved = (self.minimum // self.width + np.arange(self.bins)) // (width / self.width)
        places = np.clip(moved - minimum // width, 0, self.bins - 1).astype(np.int64)
        counts = np.zeros(self.bins, np.int64)
        np.add.at(counts, places, self.counts)
        return Histogram(minimum, maximum, counts)

    def merged(self, other: Histogram) -> Histogram:
        """Return the histogram of the numbers of both, which have the same number of bins."""
        ours = self.widened(other.minimum, other.maximum)
        theirs = other.widened(self.minimum, self.maximum)
        return Histogram(ours.minimum, ours.maximum, ours.counts + theirs.counts)

    def quantile(self, share: float) -> float:
        """Return the quantile: *share* of the numbers are not above it.

        Numbers within a bin are assumed to be uniformly distributed.
        """
        below = np.concatenate([[0], np.cumsum(self.counts)])
        place = float(np.interp(share * self.total, below, self.edges))
        return float(np.clip(place, self.minimum, self.maximum))

    @override
    def __eq__(self, other: object) -> bool:
        """Compare bounds and counts."""
        return (
            isinstance(other, Histogram)
            and (self.minimum, self.maximum) == (other.minimum, other.maximum)
            and np.array_equal(self.counts, other.counts)
        )

    @override
    def __hash__(self) -> int:
        return hash((self.minimum, self.maximum, self.counts.tobytes()))

    @override
    def __repr__(self) -> str:
        if not self.total:
            return "<Histogram of no numbers>"
        return f"<Histogram of {self.total} numbers from {self.minimum:.6g} to {self.maximum:.6g}>"


def updated(numbers: Array, counts: Array, bounds: Array) -> tuple[Any, Any]:
    """Return *counts* and *bounds* (least and greatest number) with *numbers* counted, too.

    If the first bound is the greater one, nothing was counted yet. As soon as a number, or a bound
    of a histogram that is not empty, is NaN or infinite, the bounds become NaN and stay NaN, and
    nothing more is counted.
    """
    least, greatest = (float(bound) for bound in bounds)
    if not (np.isfinite(numbers).all() and (least > greatest or np.isfinite(bounds).all())):
        return counts.copy(), np.full_like(bounds, np.nan)
    known = Histogram(least, greatest, counts if least <= greatest else np.zeros_like(counts))
    merged = known.merged(Histogram.of(numbers, len(counts)))
    return merged.counts, np.array([merged.minimum, merged.maximum], bounds.dtype)
