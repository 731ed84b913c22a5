"""The quantization error of the values of a network."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.quant.gain import Gains


@dataclass(frozen=True)
class ValueDrift:
    """The error of one value over all samples.

    Attributes:
        name: Its name in the network.
        opcode: The operator that computes it; "input" or "output" for these.
        signal_to_noise: In decibels: ten times the logarithm of the sum of its squares over that of
            the errors; infinite if there are none.
        largest_error: The largest error.
        saturated: The share of its numbers that are out of the range of the integers; 0 for an
            output.
    """

    name: str
    opcode: str
    signal_to_noise: float
    largest_error: float
    saturated: float = 0.0


@dataclass(frozen=True, repr=False)
class DriftValues:
    """The errors of all values; :class:`glow_nb.quant.Drift` also plots them.

    Attributes:
        model: The name of the network.
        values: The quantized values in the order of computation. An error includes those of all
            values before it.
        outputs: The outputs.
        gains: The speedup, predicted and measured; None if it was not measured.
    """

    model: str
    values: tuple[ValueDrift, ...]
    outputs: tuple[ValueDrift, ...]
    gains: Gains | None = None

    def worst(self, count: int = 10) -> tuple[ValueDrift, ...]:
        """Return the values with the lowest signal-to-noise ratios, the worst first."""
        return tuple(sorted(self.values, key=lambda value: value.signal_to_noise)[:count])
