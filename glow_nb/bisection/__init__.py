"""Finding the step of the compiler that made a result wrong, or a value too noisy or not finite.

It imports `network` and what stands below that.
"""

from __future__ import annotations

from glow_nb.bisection.calibrated import OutsideRange
from glow_nb.bisection.finite import FiniteSearch, NonFiniteValue, bisect_finite
from glow_nb.bisection.noise import LEAST_DECIBELS, NoiseSearch, ValueNoise, bisect_noise
from glow_nb.bisection.search import Bisection, StepResult, bisect

__all__ = [
    "LEAST_DECIBELS",
    "Bisection",
    "FiniteSearch",
    "NoiseSearch",
    "NonFiniteValue",
    "OutsideRange",
    "StepResult",
    "ValueNoise",
    "bisect",
    "bisect_finite",
    "bisect_noise",
]
