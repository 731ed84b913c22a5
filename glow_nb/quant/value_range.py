"""The result of calibration for one value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from glow_nb.hlir.histogram import Histogram


@dataclass(frozen=True)
class ValueRange:
    """The range of one value.

    Attributes:
        name: Its name in the network, for display.
        type: Its type as text, for display.
        histogram: The histogram of its numbers.
        is_finite: False if some were NaN or infinite; the histogram is then meaningless.
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
        """Return the range of the numbers of both."""
        histogram = self.histogram.merged(other.histogram)
        return replace(self, histogram=histogram, is_finite=self.is_finite and other.is_finite)
