"""How the taps of one line of a window are multiplied in groups of neighbouring factors.

Where channels are convolved by themselves, or with a few others, the lanes of a vector are output
channels, and each lane needs its own factors side by side. So the input is copied, line by line, to
*steps*: for each channel the factors of one group. Of single channels these are neighbouring pixels
of a line, of which several outputs (*phases*) are made; of groups of channels they are neighbouring
channels, and a step has as many *parts* as it takes to hold a group.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDEST = 16
"""Weights lie in whole vectors of so many channels, which is a multiple of what any target has."""


@dataclass(frozen=True)
class Entry:
    """A vector of groups of weights, and what it is multiplied with.

    Attributes:
        step: Steps behind the first one of the outputs.
        part: Part of the step.
        phase: The output that the products are added to.
        weights: For each factor the number of the weight in its line, ``tap * size + channel``;
            None for a factor that does not count.
    """

    step: int
    part: int
    phase: int
    weights: tuple[int | None, ...]


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
    """

    factors: int
    phases: int
    pixels: int
    advance: int
    parts: int
    entries: tuple[Entry, ...]

    @classmethod
    def of(
        cls, taps: int, *, stride: int, dilation: int, size: int, factors: int
    ) -> TapGroups | None:
        """Return the groups for so many *taps* of groups of *size* channels; None if none fit."""
        if size > 1:
            return _of_channels(taps, stride, dilation, size, factors)
        return _of_pixels(taps, stride, dilation, factors)

    def steps(self, outputs: int) -> int:
        """Return how many steps a line of so many *outputs* reads."""
        last = max(entry.step for entry in self.entries)
        return (-(-outputs // self.phases) - 1) * self.advance + last + 1


def _of_channels(
    taps: int, stride: int, dilation: int, size: int, factors: int
) -> TapGroups | None:
    if size % factors:
        return None
    parts = size // factors
    entries = [
        Entry(tap * dilation, part, 0, tuple(range(first, first + factors)))
        for tap in range(taps)
        for part in range(parts)
        for first in [tap * size + part * factors]
    ]
    return TapGroups(factors, 1, 1, stride, parts, tuple(entries))


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
            found.setdefault((step, phase), [None] * factors)[place] = tap
    entries = (Entry(step, 0, phase, tuple(taps)) for (step, phase), taps in sorted(found.items()))
    return TapGroups(factors, phases, pixels, 1, 1, tuple(entries))
