"""Finding the step of the compiler that made a result wrong."""

from __future__ import annotations

from glow_nb.bisection.search import Bisection, StepResult, bisect

__all__ = ["Bisection", "StepResult", "bisect"]
