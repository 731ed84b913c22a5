"""How benchmarks take the time: what is compared runs in turn, so that all see the same clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

Run = Callable[[], object]
Clock = Callable[[], float]

SETTLING_SECONDS = 0.005
"""So long after a run with several threads, no engine has a thread that waits in a loop: OpenVINO's
and ours take a core for up to a millisecond, and ONNX Runtime is told to take none."""


def settle(threads: int) -> None:
    """Wait until no thread of an engine that has run on so many *threads* takes a core."""
    if threads > 1:
        time.sleep(SETTLING_SECONDS)


def seconds_of(run: Run, clock: Clock = time.perf_counter) -> float:
    """Return how long *run* takes by the *clock*."""
    began = clock()
    run()
    return clock() - began


def times_in_turn(
    runs: Sequence[Run], rounds: int, *, unmeasured: int = 0, threads: int = 1
) -> list[list[float]]:
    """Return the seconds of each of *runs*, which take turns.

    Args:
        runs: What is compared.
        rounds: How often each has its turn.
        unmeasured: Rounds before these, whose times do not count.
        threads: How many each of them uses; with several, there is a pause before each turn.
    """

    def turn(run: Run) -> float:
        settle(threads)
        return seconds_of(run)

    found = [[turn(run) for run in runs] for _ in range(unmeasured + rounds)]
    return [list(times) for times in zip(*found[unmeasured:], strict=True)]


def times_for(run: Run, seconds: float, clock: Clock = time.perf_counter) -> list[float]:
    """Return the seconds of runs that take some *seconds* together; there is at least one."""
    end = clock() + seconds
    times = [seconds_of(run, clock)]
    while clock() < end:
        times.append(seconds_of(run, clock))
    return times
