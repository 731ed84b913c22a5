"""Taking the time of each kernel of a network, beside its roofline limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_nb.backends.backend import LimitedExecutable, TimedExecutable, Timings
from glow_nb.base.arguments import whole_number
from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.types import Array
from glow_nb.network.profile import Profile, kernel_times
from glow_nb.network.raised_peaks import with_raised_peaks

Profiled = tuple[Any, dict[str, Array]]
"""A network, and what it is fed."""


def profile_network(
    name: str, executable: object, inputs: Sequence[Array], *, runs: int, limits: bool
) -> Profile:
    """Run the network *name* on *inputs* and return the times of its kernels.

    With *limits*, they stand beside those of the machine, which are measured once more if kernels
    beat them.

    Raises:
        OptionError: *runs* is not a positive number, or *limits* no bool.
        UnsupportedError: The backend does not take the time of its kernels.
        MemoryLimitError: The system gives no memory for the runs.
    """
    _require_truth(limits)
    with within_memory(f"network {name!r}"):
        profile = profile_executable(name, executable, inputs, runs=runs, limits=None)
    return beside_limits(profile, executable) if limits else profile


def profile_in_turn(name: str, networks: Sequence[Profiled], *, runs: int, limits: bool) -> Profile:
    """Return the times of the kernels of *networks*, those of one after those of another.

    Of each, there is what it is fed. Errors are those of :func:`profile_network`.
    """
    _require_truth(limits)
    profiles = [one.profile(fed, runs=runs, limits=False) for one, fed in networks]
    reports = [kernel.report for profile in profiles for kernel in profile.kernels]
    timings = _in_turn([profile.timings for profile in profiles])
    profile = Profile(name, profiles[0].threads, kernel_times(reports, timings), timings)
    programs = [getattr(one, "variants", (one,))[0] for one, _ in networks]
    executables = [getattr(one, "executable", None) for one in programs]
    limited = next((one for one in executables if isinstance(one, LimitedExecutable)), None)
    return beside_limits(profile, limited) if limits else profile


def beside_limits(profile: Profile, executable: object) -> Profile:
    """Return *profile* with the limits of the machine, if *executable* knows them.

    A kernel that exceeds a limit triggers one new measurement; a peak of arithmetic that is still
    exceeded is raised.

    Raises:
        MemoryLimitError: The system gives no memory for the measurement.
    """
    if not isinstance(executable, LimitedExecutable):
        return profile
    with within_memory(f"network {profile.network!r}"):
        limited = profile.with_limits(executable.limits())
        if limited.beats_limits:
            limited = profile.with_limits(executable.limits(were_beaten=True))
    return with_raised_peaks(limited)


def _in_turn(timings: Sequence[Timings]) -> Timings:
    """Return the *timings* of programs as if in each run one began when the one before ends."""
    joined, ends = [], np.zeros(len(timings[0].stamps), np.int64)
    for each in timings:
        stamps = each.stamps.copy()
        for run, (marks, end) in enumerate(zip(stamps, ends, strict=True)):
            has_part = marks[..., 1] > 0  # other shares have zeros
            if has_part.any():
                marks[has_part] += end - marks[has_part][:, 0].min()
                ends[run] = marks[..., 1].max()
        joined.append(stamps)
    seconds = zip(*(each.plain_seconds for each in timings), strict=True)
    return Timings(np.concatenate(joined, axis=2), tuple(map(sum, seconds)))


def _require_truth(limits: object) -> None:
    if not isinstance(limits, bool):
        raise OptionError(f"limits={limits!r:.80}: give True or False")


def profile_executable(
    name: str,
    executable: object,
    inputs: Sequence[Array],
    *,
    runs: int,
    limits: MachineLimits | None,
) -> Profile:
    """Run *executable* on *inputs* and return the times of its kernels.

    Raises:
        OptionError: *runs* is not a positive number.
        UnsupportedError: The backend does not take the time of its kernels.
    """
    runs = whole_number("runs", runs, 1)
    if not isinstance(executable, TimedExecutable):
        raise UnsupportedError(
            f"{type(executable).__name__}: this backend does not take the time of its kernels; "
            "give its executable a method timings(inputs, runs)"
        )
    timings = executable.timings(inputs, runs)
    reports: Sequence[KernelReport] = executable.kernels  # type: ignore[attr-defined]
    threads = timings.stamps.shape[1]
    return Profile(name, threads, kernel_times(reports, timings, limits), timings, limits)
