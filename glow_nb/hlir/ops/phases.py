"""The taps of a window that meet an element, by the element's remainder modulo the stride."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class Phase:
    """One dimension of the convolution for the results ``stride * q + number``, all q.

    Attributes:
        tap: The first tap of the filter that such results meet.
        taps: The number of taps.
        begin, end: Cells of padding; negative for cells of the input that are not read.
    """

    tap: int
    taps: int
    begin: int
    end: int


@dataclass(frozen=True)
class Line:
    """One dimension of a transposed convolution, or of an image that columns are added up in.

    Result number ``o`` is the sum over i of ``x[i] * w[k]`` where
    ``o + begin = stride * i + dilation * k``. The taps that fit are every ``step``-th one, so that
    the results at every stride-th place are an ordinary convolution, of distance ``apart``.
    """

    inputs: int
    results: int
    kernel: int
    stride: int
    dilation: int
    begin: int

    @property
    def step(self) -> int:
        """Distance of the taps of a phase in the filter."""
        return self.stride // gcd(self.stride, self.dilation)

    @property
    def apart(self) -> int:
        """Distance of the elements of the input that the taps of a phase meet."""
        return self.dilation // gcd(self.stride, self.dilation)

    @property
    def places(self) -> int:
        """Number of results of each phase; the last may be one too many."""
        return -(-self.results // self.stride)

    @property
    def phases(self) -> list[Phase]:
        """The convolution for each remainder of a result's number."""
        return [self._phase(number) for number in range(self.stride)]

    @property
    def is_even(self) -> bool:
        """Return whether each phase has the same number of taps, in order, and the same padding."""
        taps, rest = divmod(self.kernel, self.stride)
        first = self._phase(0)
        return rest == 0 and self.phases == [
            Phase(number, taps, first.begin, first.end) for number in range(self.stride)
        ]

    def _phase(self, number: int) -> Phase:
        for tap in range(min(self.step, self.kernel)):
            skipped, rest = divmod(number + self.begin - self.dilation * tap, self.stride)
            if rest == 0:
                taps = -(-(self.kernel - tap) // self.step)
                begin = self.apart * (taps - 1) - skipped
                end = self.places + skipped - self.inputs
                if self.inputs + min(begin, 0) + min(end, 0) > 0:
                    return Phase(tap, taps, begin, end)
        return Phase(0, 0, 0, 0)
