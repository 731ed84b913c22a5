"""The groups of neighbouring factors by which the taps of one line of a window are multiplied.

Where channels are convolved by themselves, or with a few others, the lanes of a vector are output
channels, and each lane needs its own factors side by side. So the input is copied, line by line, to
*steps*: for each channel the factors of one group. Of single channels these are neighbouring pixels
of a line, of which several outputs (*phases*) are made; of groups of channels they are neighbouring
channels, and a step has as many *parts* as it takes to hold a group.

The weights of a group are often those of another one, some places further up or down. They are
stored once, in one *row*: of three taps in groups of two there are rows 0, 1 and 1, 2, of which
groups with tap 0 above a zero and with tap 2 below a zero are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDEST = 16
"""Weights lie in whole vectors of this number of channels, which is a multiple of what any target
has."""


Weights = tuple[int | None, ...]


@dataclass(frozen=True)
class Entry:
    """A vector of groups of weights, and what it is multiplied with.

    Attributes:
        step: Steps after the first one of the outputs.
        part: Part of the step.
        phase: The output that the products are added to.
        row: Number of the stored vector that the weights are made of.
        shift: Places that they lie further up in each group, with zeros below them; further down,
            with zeros above them, if it is negative. What has no place in the group is left out.
    """

    step: int
    part: int
    phase: int
    row: int
    shift: int = 0


@dataclass(frozen=True)
class TapGroups:
    """The groups of one line of taps.

    Attributes:
        factors: Factors of a group.
        phases: Neighbouring outputs that are made of the same steps.
        pixels: Input pixels from step to step.
        advance: Steps from the first *phases* outputs to the next.
        parts: Vectors of groups of one step.
        entries: The vectors of weights.
        rows: The vectors that are stored: for each factor the number of the weight in its line,
            ``tap * size + channel``; None for a factor that does not count.
    """

    factors: int
    phases: int
    pixels: int
    advance: int
    parts: int
    entries: tuple[Entry, ...]
    rows: tuple[Weights, ...]

    @classmethod
    def of(
        cls, taps: int, *, stride: int, dilation: int, size: int, factors: int
    ) -> TapGroups | None:
        """Return the groups for *taps* taps of groups of *size* channels; None if none fit."""
        if size > 1:
            return _of_channels(taps, stride, dilation, size, factors)
        return _of_pixels(taps, stride, dilation, factors)

    def steps(self, outputs: int) -> int:
        """Return how many steps a line of *outputs* outputs reads."""
        last = max(entry.step for entry in self.entries)
        return (-(-outputs // self.phases) - 1) * self.advance + last + 1


def _of_channels(
    taps: int, stride: int, dilation: int, size: int, factors: int
) -> TapGroups | None:
    if size % factors:
        return None
    parts = size // factors
    starts = [tap * size + part * factors for tap in range(taps) for part in range(parts)]
    rows = [tuple(range(first, first + factors)) for first in starts]
    entries = [Entry(row // parts * dilation, row % parts, 0, row) for row in range(len(rows))]
    return TapGroups(factors, 1, 1, stride, parts, tuple(entries), tuple(rows))


def _of_pixels(taps: int, stride: int, dilation: int, factors: int) -> TapGroups | None:
    """Steps overlap, so that each output finds its first taps in one of them."""
    phases, pixels = (2, 2) if stride == 1 else (1, stride)
    if factors % pixels:
        return None
    found: dict[tuple[int, int], list[int | None]] = {}
    for phase in range(phases):
        for tap in range(taps):
            group, place = divmod(phase + tap * dilation, factors)
            step = group * factors // pixels
            found.setdefault((phase, step), [None] * factors)[place] = tap
    groups = {place: tuple(numbers) for place, numbers in sorted(found.items())}
    needed: list[Weights] = []
    for weights in sorted(groups.values(), key=lambda weights: weights.count(None)):
        if next(_places(needed, weights), None) is None:
            needed.append(weights)
    rows = list(dict.fromkeys(weights for weights in groups.values() if weights in needed))
    entries = [
        Entry(step, 0, phase, *min(_places(rows, weights), key=lambda found: abs(found[1])))
        for (phase, step), weights in groups.items()
    ]
    entries.sort(key=lambda entry: (entry.step, entry.phase))
    return TapGroups(factors, phases, pixels, 1, 1, tuple(entries), tuple(rows))


def _places(rows: Sequence[Weights], weights: Weights) -> Iterator[tuple[int, int]]:
    """Yield in which of *rows*, moved up by how many places, *weights* are found."""
    size = len(weights)
    for number, row in enumerate(rows):
        for shift in range(1 - size, size):
            places = (place - shift for place in range(size))
            if weights == tuple(row[place] if 0 <= place < size else None for place in places):
                yield number, shift
