"""Calibration (paper 4.2): run a network on samples and collect histograms of its values."""

from __future__ import annotations

import itertools
import warnings

import numpy as np

from glow_nb.backends import BackendLike
from glow_nb.base.arguments import whole_number
from glow_nb.base.errors import GlowWarning
from glow_nb.base.progress import report, shown
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, State, Value
from glow_nb.hlir.histogram import Histogram
from glow_nb.hlir.ops.profile import Profile
from glow_nb.network.compilation import optimize
from glow_nb.network.compiling import as_threads, compile
from glow_nb.network.source import Trained, as_source, shapes_of
from glow_nb.quant.ranges import Ranges, profiled_values
from glow_nb.quant.samples import Samples, batches_of, samples_in
from glow_nb.quant.structure import structural_keys
from glow_nb.quant.value_range import ValueRange
from glow_nb.system.state_store import StateStore

MOST_BINS = 1 << 20

Profiles = dict[Value, tuple[State, State]]
"""The states that hold counts and bounds of each value."""


def calibrate(
    model: Trained,
    samples: Samples,
    *,
    bins: int = 2048,
    backend: BackendLike = "cpu",
    threads: int | None = None,
) -> Ranges:
    """Run *model* on *samples* and return the ranges of its values.

    A histogram is collected of each float32 value of the optimized graph, which is the graph that
    is quantized.

    Args:
        model: A model, as for :func:`glow_nb.compile`. Open sizes of a model become those of the
            first sample, and the ranges hold for these sizes; open sizes of a graph stay open.
        samples: Feeds, one after the other. Or arrays of many samples along the first axis, one
            for each input: these are cut into batches of the size that *model* takes (1 if that
            is open), the last one filled up with samples from the beginning.
        bins: The number of bins of each histogram; see :mod:`glow_nb.hlir.histogram`.
        backend: The backend that runs the network.
        threads: Cores that share the work of a run; all that are available by default.

    Raises:
        CalibrationError: There are no samples, some have NaN, or their shapes differ.
        FeedError: A sample does not fit the network.
        OptionError: *bins* is no whole number from 2 to 1048576.
        GlowError: As :func:`glow_nb.compile`.
    """
    whole_number("bins", bins, 2, MOST_BINS)
    cores = as_threads(threads)
    source = as_source(model)
    batches = batches_of(samples, source)
    first = next(batches)
    shapes = shapes_of(first)
    function = optimize(source.open_graph or source.function(shapes))
    profiled, profiles = with_profiles(function, bins)
    with shown("calibrating"):
        network = compile(profiled, backend=backend, threads=cores)
        count = 0
        for feed in itertools.chain([first], batches):
            report(f"{count} samples")
            network.run(feed)
            count += samples_in(feed)
    keys = structural_keys(function)
    found = {
        keys[value]: _range_of(value, network.state, profiles, bins)
        for value in profiled_values(function)
    }
    ranges = Ranges(function.name, dict(shapes), count, found)
    _warn_of_unknown(ranges)
    return ranges


def with_profiles(function: Function, bins: int) -> tuple[Function, Profiles]:
    """Return *function* with a node after each value that collects its histogram in a state."""
    builder = Builder.continuing(function)
    profiles: Profiles = {}
    nothing = np.array([np.inf, -np.inf], np.float32)
    for value in profiled_values(function):
        if value.type.size:
            counts = builder.state(f"{value.name}.counts", np.zeros(bins, np.int64))
            bounds = builder.state(f"{value.name}.bounds", nothing)
            node = builder.emit(Profile(value, counts, bounds), name=f"{value.name}_profile")
            for state, result in zip((counts, bounds), node.results, strict=True):
                builder.update(state, result)
            profiles[value] = counts, bounds
    return builder.function(), profiles


def _range_of(value: Value, state: StateStore, profiles: Profiles, bins: int) -> ValueRange:
    if value not in profiles:  # it has no elements
        return ValueRange(value.name, str(value.type), Histogram.empty(bins))
    counts, bounds = (state[kept.name] for kept in profiles[value])
    if np.isnan(bounds).any():
        return ValueRange(value.name, str(value.type), Histogram.empty(bins), is_finite=False)
    histogram = Histogram(float(bounds[0]), float(bounds[1]), counts)
    return ValueRange(value.name, str(value.type), histogram)


def _warn_of_unknown(ranges: Ranges) -> None:
    unknown = ranges.unreached
    if unknown:
        named = ", ".join(map(repr, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
        warnings.warn(
            f"calibration of {ranges.model!r}: {len(unknown)} of {len(ranges.values)} values have "
            f"no range, since no sample reached them or their numbers were not finite: {named}; "
            "they stay float",
            GlowWarning,
            stacklevel=3,
        )
