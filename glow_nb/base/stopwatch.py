"""The wall time of the steps of one piece of work."""

from __future__ import annotations

import time


class Stopwatch:
    """Adds up the time of steps that follow each other without a gap.

    Attributes:
        seconds: By name, in the order of the first lap.
    """

    def __init__(self) -> None:
        """Start the first step."""
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    def lap(self, step: str) -> None:
        """Name the *step* that ends now, and start the next one."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._began
        self._began = now
