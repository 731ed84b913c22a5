"""Taking the time of each kernel of a network, beside what the machine can do at best."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from glow_nb.backends.backend import LimitedExecutable, TimedExecutable
from glow_nb.base.arguments import whole_number
from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.types import Array
from glow_nb.network.profile import Profile, kernel_times


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
    if not isinstance(limits, bool):
        raise OptionError(f"limits={limits!r:.80}: give True or False")
    profiled = partial(profile_executable, name, executable, inputs, runs=runs)
    with within_memory(f"network {name!r}"):
        if not limits or not isinstance(executable, LimitedExecutable):
            return profiled(limits=None)
        profile = profiled(limits=executable.limits())
        if not profile.beats_limits:
            return profile
        return profile.with_limits(executable.limits(were_beaten=True))


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
