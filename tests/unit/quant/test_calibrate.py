"""Calibration counts the numbers of every value of the optimized graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.base.errors import CalibrationError, FeedError, GlowWarning, OptionError
from glow_nb.base.types import Array
from glow_nb.hlir.histogram import Histogram
from glow_nb.hlir.ops import Add, Log
from tests.unit.quant.networks import convolutional, dense, random


def by_name(ranges: quant.Ranges) -> dict[str, Histogram]:
    return {value.name: value.histogram for value in ranges.values.values()}


def test_every_value_has_the_histogram_of_its_numbers() -> None:
    function, samples = dense(), [random(2, 5, seed=seed) for seed in range(4)]
    found = by_name(quant.calibrate(function, samples, backend="interpreter"))
    assert list(found) == ["x", "first", "hidden", "second"]
    seen = np.concatenate(samples)
    weights = {constant.name: constant.array for constant in function.constants}
    assert found["x"] == Histogram.of(seen)
    first = seen @ weights["w"] + weights["b"]
    assert found["first"].total == first.size
    assert found["first"].minimum == pytest.approx(first.min(), rel=1e-5)
    assert found["hidden"].minimum == 0
    assert found["hidden"].maximum == found["first"].maximum


@pytest.mark.jit
def test_machine_code_counts_as_the_interpreter_does() -> None:
    samples = random(6, 8, 8, 3)
    ours = by_name(quant.calibrate(convolutional(), samples, bins=64, threads=1))
    theirs = by_name(quant.calibrate(convolutional(), samples, bins=64, backend="interpreter"))
    assert ours["x"] == theirs["x"]
    for name, histogram in ours.items():
        assert histogram.total == theirs[name].total
        assert histogram.maximum == pytest.approx(theirs[name].maximum, rel=1e-5)


@pytest.mark.parametrize("count", [4, 3, 1])
def test_stacked_samples_are_cut_into_batches(count: int) -> None:
    samples = random(count, 5)
    ranges = quant.calibrate(dense(), {"x": samples}, backend="interpreter")
    assert ranges.samples == -(-count // 2) * 2
    filled = np.concatenate([samples, samples])[: ranges.samples]
    assert by_name(ranges)["x"] == Histogram.of(filled)


def test_open_sizes_are_those_of_the_samples() -> None:
    ranges = quant.calibrate(dense, [random(3, 5)], backend="interpreter")
    assert ranges.inputs == {"x": (3, 5)}
    assert quant.calibrate(dense, random(4, 5), backend="interpreter").inputs == {"x": (1, 5)}


def with_holes() -> Iterator[Array]:
    yield random(2, 5)
    yield np.full((2, 5), np.nan, np.float32)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "samples: there are none; give at least one feed"),
        (random(0, 5), "samples: there are none"),
        (with_holes(), "sample 2: input 'x' holds 10 NaN"),
        (3, "samples: 3 is no array; give feeds one after the other"),
        ({"x": np.float32(1)}, "samples: the arrays hold {'x': None} samples"),
    ],
)
def test_samples_without_meaning_are_refused(samples: Any, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        quant.calibrate(dense(), samples, backend="interpreter")


def rows_with_hole() -> Array:
    rows = random(6, 5)
    rows[3, 1] = np.nan
    return rows


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (rows_with_hole(), "sample 4: input 'x' holds 1 NaN"),
        ({"x": rows_with_hole()}, "sample 4: input 'x' holds 1 NaN"),
        (list(with_holes()), "sample 2: input 'x' holds 10 NaN"),
        ([random(2, 5), random(3, 5)], "shape is"),
    ],
)
def test_samples_are_checked_before_the_network_is_compiled(
    samples: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("glow_nb.quant.calibration.compile")
    with pytest.raises((CalibrationError, FeedError), match=message):
        quant.calibrate(dense(), samples, backend="interpreter")


def test_samples_of_several_sizes_are_refused() -> None:
    wanted = r"sample 2: its shapes are {'x': \(2, 5\)}.*open_sizes=True"
    with pytest.raises(CalibrationError, match=wanted):
        quant.calibrate(dense, [random(3, 5), random(2, 5)], backend="interpreter")


def test_samples_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FeedError, match="shape is"):
        quant.calibrate(dense(), [random(3, 5)])
    with pytest.raises(FeedError, match="unknown input 'z'"):
        quant.calibrate(dense(), {"z": random(4, 5)})


def test_a_number_of_bins_must_be_one() -> None:
    with pytest.raises(OptionError, match="bins=1: give a whole number"):
        quant.calibrate(dense(), random(4, 5), bins=1)


def test_values_without_finite_numbers_are_named() -> None:
    b = glow_nb.Builder()
    x, empty = b.input("x", "float32<2>"), b.input("empty", "float32<0 x 2>")
    b.save(b.emit(Log(x), name="log"), "y")
    b.save(b.emit(Add(empty, empty), name="sum"), "z")
    feed = {"x": np.zeros(2, np.float32), "empty": np.empty((0, 2), np.float32)}
    with pytest.warns(GlowWarning, match="3 of 4 values have no range.*'empty', 'log', 'sum'"):
        ranges = quant.calibrate(b.function(), [feed], backend="interpreter")
    assert ranges.unreached == ["empty", "log", "sum"]
