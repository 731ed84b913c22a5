"""How far the values of a quantized network are from floats."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.quant.gain import Gains


@dataclass(frozen=True)
class ValueDrift:
    """How far one value is from what it should be, over all samples.

    Attributes:
        name: What the network calls it.
        opcode: What computes it; "input" or "output" of these.
        signal_to_noise: In decibels: ten times the logarithm of the sum of its squares over that of
            the differences; infinite if there are none.
        largest_error: The largest difference.
        saturated: The share of its numbers that are beyond the integers; 0 of an output.
    """

    name: str
    opcode: str
    signal_to_noise: float
    largest_error: float
    saturated: float = 0.0


@dataclass(frozen=True, repr=False)
class DriftValues:
    """How far all values are from floats; :class:`glow_nb.quant.Drift` also shows it.

    Attributes:
        model: The name of the network.
        values: The quantized values, in the order in which they are computed: what they have become
            with all that was rounded before them.
        outputs: The outputs.
        gains: What the integers gain in time, predicted and measured; None if it was not measured.
    """

    model: str
    values: tuple[ValueDrift, ...]
    outputs: tuple[ValueDrift, ...]
    gains: Gains | None = None

    def worst(self, count: int = 10) -> tuple[ValueDrift, ...]:
        """Return the values with the least signal to noise, the worst first."""
        return tuple(sorted(self.values, key=lambda value: value.signal_to_noise)[:count])
