"""How benchmarks take the time: what is compared runs in turn, so that all see the same clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

Run = Callable[[], object]
Clock = Callable[[], float]


def seconds_of(run: Run, clock: Clock = time.perf_counter) -> float:
    """Return how long *run* takes by the *clock*."""
    began = clock()
    run()
    return clock() - began


def times_in_turn(runs: Sequence[Run], rounds: int, *, unmeasured: int = 0) -> list[list[float]]:
    """Return the seconds of each of *runs*, which take turns.

    Args:
        runs: What is compared.
        rounds: How often each has its turn.
        unmeasured: Rounds before these, whose times do not count.
    """
    found = [[seconds_of(run) for run in runs] for _ in range(unmeasured + rounds)]
    return [list(times) for times in zip(*found[unmeasured:], strict=True)]


def times_for(run: Run, seconds: float, clock: Clock = time.perf_counter) -> list[float]:
    """Return the seconds of runs that take some *seconds* together; there is at least one."""
    end = clock() + seconds
    times = [seconds_of(run, clock)]
    while clock() < end:
        times.append(seconds_of(run, clock))
    return times
