"""What the kernels of a network take, for its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from glow_nb.base.errors import GlowError
from glow_nb.base.feeds import Feeds
from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.random_arrays import random_array
from glow_nb.base.types import Array
from glow_nb.network.profile import KernelTime, Profile
from glow_nb.network.reporting.networks import ReportedNetwork
from glow_nb.network.reporting.programs import ShownProgram, functions_of
from glow_nb.network.views import CompiledViews
from glow_nb.report.data import Measurement, Roof, Time

SEED = 0
"""Seed of the random inputs of a network, if no arrays are given."""


@dataclass(frozen=True)
class Measured:
    """What was measured of one program.

    Attributes:
        times: The time of each kernel by its place; none if it was not measured.
        run: The times of whole runs; None if it was not measured.
        reason: Why it was not; empty if it was.
    """

    times: Mapping[int, Time] = field(default_factory=dict)
    run: Measurement | None = None
    reason: str = ""


def measured(
    network: ReportedNetwork, programs: Sequence[ShownProgram], inputs: Feeds | None, runs: int
) -> list[Measured]:
    """Return what runs of *network* take, for each of its *programs*.

    Without *inputs*, it is fed random numbers. With 0 *runs*, it is not measured.

    Raises:
        GlowError: As :meth:`Network.profile`, for *inputs* that are given.
    """
    if not runs:
        return [Measured(reason="Time was not measured.")] * len(programs)
    functions: Mapping[str, ReportedNetwork] = functions_of(network)
    if functions:
        return [
            one
            for function in functions.values()
            for one in _measured(function, _of(programs, function), None, runs)
        ]
    return _measured(network, programs, inputs, runs)


def _of(programs: Sequence[ShownProgram], function: ReportedNetwork) -> list[ShownProgram]:
    """Return those of *programs* that are of one *function* of a module."""
    own = [function, *getattr(function, "stages", ())]
    return [shown for shown in programs if shown.network in own]


def _measured(
    network: ReportedNetwork, programs: Sequence[ShownProgram], inputs: Feeds | None, runs: int
) -> list[Measured]:
    try:
        feeds = inputs if inputs is not None else random_feeds(network, programs)
        profile = network.profile(feeds, runs=runs)
    except GlowError as error:
        if inputs is not None:
            raise
        reason = f"Time was not measured, as a run on random numbers fails: {error}"
        return [Measured(reason=reason)] * len(programs)
    said = "given arrays" if inputs is not None else "random numbers"
    return [_of_program(shown, profile, said) for shown in programs]


def random_feeds(network: ReportedNetwork, programs: Sequence[ShownProgram]) -> dict[str, Array]:
    """Return random arrays for *network*, of the sizes that its first program is planned for."""
    rng = np.random.default_rng(SEED)
    whole = network if isinstance(network, CompiledViews) else programs[0].network
    border = whole.border
    types = {name: border.inputs[name] for name in network.inputs if name in border.inputs}
    shapes = border.example
    return {name: random_array(type.with_shape(shapes[name]), rng) for name, type in types.items()}


def _of_program(shown: ShownProgram, profile: Profile, inputs: str) -> Measured:
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
    plain = min(profile.timings.plain_seconds, default=0.0)
    seconds = profile.run_seconds or [0.0]
    run = Measurement(
        runs=profile.runs,
        minimum=min(seconds),
        median=float(np.median(seconds)),
        plain=plain,
        inputs=inputs,
        roof=_roof(profile.limits),
    )
    return Measured({place: _time(kernel) for place, kernel in enumerate(own)}, run)


def _time(kernel: KernelTime) -> Time:
    return Time(
        kernel.min_seconds, kernel.median_seconds, kernel.limit_seconds, kernel.bound, kernel.peak
    )


def _roof(limits: MachineLimits | None) -> Roof | None:
    if limits is None:
        return None
    peaks = [("multiply-adds of float32", limits.flop_rate)]
    peaks += [(rate.instruction, rate.operation_rate) for rate in limits.dots]
    return Roof(tuple(peaks), tuple((level.name, level.read_rate) for level in limits.levels))
