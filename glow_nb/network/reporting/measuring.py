"""The times of the kernels of a network, for its report."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from glow_nb.backends.backend import Timings
from glow_nb.base.errors import GlowError
from glow_nb.base.feeds import Feeds
from glow_nb.base.random_arrays import random_array
from glow_nb.base.types import Array
from glow_nb.network.profile import KernelTime, Profile, kernel_times
from glow_nb.network.profiling import beside_limits
from glow_nb.network.reporting.machine import roof_of
from glow_nb.network.reporting.networks import ReportedNetwork
from glow_nb.network.reporting.programs import ShownProgram, functions_of
from glow_nb.network.views import CompiledViews
from glow_nb.report.data import Measurement, Time

SEED = 0
"""Seed of the random inputs of a network, if no arrays are given."""

ROUND = 5
"""Runs of one network before the next one has its turn, where two are compared."""


@dataclass(frozen=True)
class Measured:
    """The measurements of one program.

    Attributes:
        times: The time of each kernel by its place; none if it was not measured.
        run: The times of whole runs; None if it was not measured.
        reason: Why it was not; empty if it was.
    """

    times: Mapping[int, Time] = field(default_factory=dict)
    run: Measurement | None = None
    reason: str = ""


@dataclass(frozen=True)
class Subject:
    """A network and its programs, in order.

    Attributes:
        network: The network.
        programs: The programs that a page shows.
    """

    network: ReportedNetwork
    programs: Sequence[ShownProgram]


def measured(subjects: Sequence[Subject], inputs: Feeds | None, runs: int) -> list[list[Measured]]:
    """Return what runs of each of *subjects* take, for each of its programs.

    Several networks run in turn, a few runs each, so that other work on the machine slows down all
    of them alike. Without *inputs*, they are fed random numbers. With 0 *runs*, nothing is
    measured.

    Raises:
        GlowError: As :meth:`Network.profile`, for *inputs* that are given.
    """
    if not runs:
        unmeasured = Measured(reason="Time was not measured.")
        return [[unmeasured] * len(subject.programs) for subject in subjects]
    meters = [[_Meter(one, inputs) for one in _runnable(subject)] for subject in subjects]
    counts = rounds_of(runs) if len(subjects) > 1 else [runs]
    for count in counts:
        for meter in itertools.chain.from_iterable(meters):
            meter.run(count)
    in_turn = len(subjects) > 1
    return [[found for meter in own for found in meter.found(in_turn)] for own in meters]


def rounds_of(runs: int) -> list[int]:
    """Return how many runs each network makes before it is the turn of the next one."""
    whole, rest = divmod(runs, ROUND)
    return [ROUND] * whole + [rest] * bool(rest)


def _runnable(subject: Subject) -> list[Subject]:
    """Return *subject*, of a module each of its functions with its own programs."""
    functions: Mapping[str, ReportedNetwork] = functions_of(subject.network)
    if not functions:
        return [subject]
    return [Subject(one, _of(subject.programs, one)) for one in functions.values()]


def _of(programs: Sequence[ShownProgram], function: ReportedNetwork) -> list[ShownProgram]:
    """Return those of *programs* that are of one *function* of a module."""
    own = [function, *getattr(function, "stages", ())]
    return [shown for shown in programs if shown.network in own]


class _Meter:
    """Takes the times of a network in several rounds."""

    def __init__(self, subject: Subject, inputs: Feeds | None) -> None:
        """Measure *subject* on *inputs*, by default on random numbers."""
        self._subject, self._inputs = subject, inputs
        self._feeds: Feeds | None = inputs
        self._profiles: list[Profile] = []
        self._reason = ""

    def run(self, runs: int) -> None:
        """Run so often."""
        if self._reason:
            return
        try:
            if self._feeds is None:
                self._feeds = random_feeds(self._subject.network, self._subject.programs)
            profile = self._subject.network.profile(self._feeds, runs=runs, limits=False)
            self._profiles.append(profile)
        except GlowError as error:
            if self._inputs is not None:
                raise
            self._reason = f"Time was not measured, as a run on random numbers fails: {error}"

    def found(self, in_turn: bool) -> list[Measured]:
        """Return what was measured of each program, beside the machine's limits."""
        if self._reason:
            return [Measured(reason=self._reason)] * len(self._subject.programs)
        executable = self._subject.programs[0].network.executable
        profile = beside_limits(joined(self._profiles), executable)
        inputs = "random numbers" if self._inputs is None else "given arrays"
        return [_of_program(shown, profile, inputs, in_turn) for shown in self._subject.programs]


def joined(profiles: Sequence[Profile]) -> Profile:
    """Return the runs of all *profiles* of one network as one."""
    last = profiles[-1]
    reports = [kernel.report for kernel in last.kernels]
    alike = [one for one in profiles if [kernel.report for kernel in one.kernels] == reports]
    if len(alike) == 1:
        return last
    timings = Timings(
        np.concatenate([one.timings.stamps for one in alike]),
        tuple(seconds for one in alike for seconds in one.timings.plain_seconds),
    )
    return Profile(last.network, last.threads, kernel_times(reports, timings), timings)


def random_feeds(network: ReportedNetwork, programs: Sequence[ShownProgram]) -> dict[str, Array]:
    """Return random arrays for *network*, of the sizes that its first program is planned for."""
    rng = np.random.default_rng(SEED)
    whole = network if isinstance(network, CompiledViews) else programs[0].network
    border = whole.border
    types = {name: border.inputs[name] for name in network.inputs if name in border.inputs}
    shapes = border.example
    return {name: random_array(type.with_shape(shapes[name]), rng) for name, type in types.items()}


def _of_program(shown: ShownProgram, profile: Profile, inputs: str, in_turn: bool) -> Measured:
    """Return what *profile* has of one program: its kernels follow one another there."""
    reports = list(shown.network.kernels)
    known = [kernel.report for kernel in profile.kernels]
    places = range(len(known) - len(reports) + 1)
    begin = next((n for n in places if known[n : n + len(reports)] == reports), None)
    if begin is None:
        return Measured(
            reason="Time was not measured: the runs went through another program of the network."
        )
    own = profile.kernels[begin : begin + len(reports)]
    plain = profile.timings.plain_seconds or (0.0,)
    seconds = profile.run_seconds or [0.0]
    run = Measurement(
        runs=profile.runs,
        minimum=min(seconds),
        median=float(np.median(seconds)),
        plain=min(plain),
        inputs=inputs,
        roof=None if profile.limits is None else roof_of(profile.limits, profile.raised),
        plain_median=float(np.median(plain)),
        in_turn=in_turn,
    )
    return Measured({place: _time(kernel) for place, kernel in enumerate(own)}, run)


def _time(kernel: KernelTime) -> Time:
    return Time(
        minimum=kernel.min_seconds,
        median=kernel.median_seconds,
        limit=kernel.limit_seconds,
        bound=kernel.bound,
        peak=kernel.peak,
        level=kernel.level,
    )
