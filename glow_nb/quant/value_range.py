"""What calibration has found of one value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from glow_nb.hlir.histogram import Histogram


@dataclass(frozen=True)
class ValueRange:
    """The range of one value.

    Attributes:
        name: What the network calls it, for people.
        type: Its type as text, for people.
        histogram: How often which numbers occurred.
        is_finite: False if some were NaN or infinite; then the histogram says nothing.
    """

    name: str
    type: str
    histogram: Histogram
    is_finite: bool = True

    @property
    def is_known(self) -> bool:
        """Return whether there were numbers, all of them finite."""
        return self.is_finite and self.histogram.total > 0

    def merged(self, other: ValueRange) -> ValueRange:
        """Return the numbers of both."""
        histogram = self.histogram.merged(other.histogram)
        return replace(self, histogram=histogram, is_finite=self.is_finite and other.is_finite)
