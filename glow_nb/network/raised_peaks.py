"""Peaks of arithmetic that a kernel exceeded, raised to what it reached.

Nothing is faster than the machine: a peak that a kernel exceeds was measured while something else
ran. It holds for all kernels, so all of them are compared with what the fastest one reached.
"""

from __future__ import annotations

import dataclasses

from glow_nb.network.profile import NOTABLE, KernelTime, Profile

HAIR = 1 - 1e-9
"""A raised peak is a hair below what was reached, so that the kernel that did still exceeds it."""


def with_raised_peaks(profile: Profile) -> Profile:
    """Return *profile* with each peak that its notable kernels exceed raised to what they reached.

    The name of a raised peak is in ``raised``.
    """
    limits = profile.limits
    if limits is None:
        return profile
    reached: dict[str, float] = {}
    for kernel in filter(_exceeds_its_peak, profile.kernels):
        rate = limits.dot_rate(kernel.report.dot)
        name = rate.dot if rate else ""
        reached[name] = max(reached.get(name, 0.0), kernel.executed_flop_rate)
    if not reached:
        return profile
    peaks = {name: HAIR * rate for name, rate in reached.items()}
    return dataclasses.replace(profile.with_limits(limits.with_peaks(peaks)), raised=tuple(reached))


def _exceeds_its_peak(kernel: KernelTime) -> bool:
    return kernel.bound == "arithmetic" and kernel.share > NOTABLE and kernel.is_raised
