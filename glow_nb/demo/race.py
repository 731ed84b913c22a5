"""Timing engines side by side, asked in turn: a clock that drifts slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

FEWEST_SECONDS = 0.1
"""In each round a runner runs at least so long, or once."""


@dataclass
class Runner:
    """Something that is timed.

    Attributes:
        run: Runs once.
        best_seconds: The shortest time of a run so far.
    """

    run: Callable[[], object]
    best_seconds: float = field(default=float("inf"))


def race(runners: Sequence[Runner], rounds: int) -> None:
    """Set ``best_seconds`` of all *runners*, in *rounds* in which each has its turn."""
    for _ in range(rounds):
        for runner in runners:
            deadline = time.perf_counter() + FEWEST_SECONDS
            while True:
                started = time.perf_counter()
                runner.run()
                ended = time.perf_counter()
                runner.best_seconds = min(runner.best_seconds, ended - started)
                if ended >= deadline:
                    break
