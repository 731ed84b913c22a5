"""Ranges: exact in files, merged exactly, and of one network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glow_nb
from glow_nb import quant
from glow_nb.base.errors import CalibrationError
from glow_nb.hlir.histogram import Histogram
from glow_nb.hlir.ops import Log
from glow_nb.quant.ranges import Ranges
from glow_nb.quant.value_range import ValueRange
from tests.unit.quant.networks import dense, random

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def calibrated(seed: int = 0, scale: float = 1.0, batch: int = 2) -> Ranges:
    function = dense(batch, scale=scale)
    return quant.calibrate(function, [random(batch, 5, seed=seed)], backend="interpreter")


@given(st.lists(FLOATS, max_size=20), st.text(max_size=20))
def test_files_keep_every_bit(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[float], name: str
) -> None:
    histogram = Histogram.of(np.array(numbers, np.float32), 32)
    value = ValueRange(name, "float32<3>", histogram)
    ranges = Ranges(name, {name: (2, 3)}, 7, {"key": value})
    path = tmp_path_factory.mktemp("ranges") / "ranges.yaml"
    ranges.save(path)
    assert Ranges.load(path) == ranges


def test_values_without_numbers_are_kept_in_files(tmp_path: Path) -> None:
    value = ValueRange("x", "float32<3>", Histogram.empty(8), is_finite=False)
    ranges = Ranges("main", {}, 1, {"key": value})
    ranges.save(tmp_path / "ranges.yaml")
    assert Ranges.load(tmp_path / "ranges.yaml") == ranges
    assert ranges.unreached == ["x"]


def test_several_runs_are_merged() -> None:
    merged = calibrated(1).merge(calibrated(2))
    both = [random(2, 5, seed=seed) for seed in (1, 2)]
    assert merged == quant.calibrate(dense(), both, backend="interpreter")
    assert repr(merged) == "<Ranges of 'dense': 4 values, 4 samples>"


def test_names_have_no_part_in_what_ranges_are_of() -> None:
    renamed = dense(name="other")
    text = str(glow_nb.optimize(renamed)).replace("%first", "%erste").replace("%hidden", "%h")
    assert "%erste" in text
    weights = {constant.name: constant.array for constant in renamed.constants}
    parsed = glow_nb.hlir.parse.parse_function(text, constants=weights)
    found = calibrated().of_values(parsed)
    assert {value.name: known.name for value, known in found.items()} == {
        "x": "x",
        "erste": "first",
        "h": "hidden",
        "second": "second",
    }


@pytest.mark.parametrize(
    ("scale", "batch", "message"),
    [
        (2.0, 2, "3 of 4 values .* 'first' is computed with other weights or attributes"),
        (1.0, 3, r"4 of 4 .* they were made for the inputs {'x': \(2, 5\)}, the network has"),
    ],
)
def test_ranges_of_another_network_are_refused(scale: float, batch: int, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        calibrated().of_values(glow_nb.optimize(dense(batch, scale=scale)))


def test_ranges_of_other_operators_are_refused() -> None:
    b = glow_nb.Builder("logarithm")
    x = b.input("x", "float32<2 x 5>")
    b.save(b.emit(Log(x), name="log"), "y")
    with pytest.raises(CalibrationError, match="1 of 2 values .*: they know no value 'log'"):
        calibrated().of_values(b.function())
    b = glow_nb.Builder("logarithm")
    x = b.input("x", "float32<2 x 5>")
    b.save(b.emit(Log(x), name="first"), "y")
    message = "'first' was float32<2 x 7> and is float32<2 x 5>"
    with pytest.raises(CalibrationError, match=message):
        calibrated().of_values(b.function())


def test_ranges_of_two_networks_are_not_merged() -> None:
    with pytest.raises(CalibrationError, match="6 values are in but one of them, the first is"):
        calibrated().merge(calibrated(scale=2.0))
    with pytest.raises(CalibrationError, match="their inputs are"):
        calibrated().merge(calibrated(batch=3))
    other = quant.calibrate(dense(), random(2, 5), bins=8, backend="interpreter")
    with pytest.raises(CalibrationError, match="they have 2048 and 8 bins"):
        calibrated().merge(other)
    with pytest.raises(CalibrationError, match="3 is no Ranges"):
        calibrated().merge(3)  # type: ignore[arg-type]


GOOD = """\
format: glow_nb ranges 1
model: main
inputs: {x: [2, 3]}
samples: 1
bins: 4
values:
- {key: k, name: x, type: t, finite: true, minimum: 0.0, maximum: 1.0, counts: 1 2}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("glow_nb ranges 1", "other", "it does not begin with 'format: glow_nb ranges 1'"),
        (GOOD, "- 1", "it does not begin with"),
        (GOOD, "{", "not valid YAML"),
        ("bins: 4", "bins: 99999999", "'bins' is 99999999, but must be from 0 to 1048576"),
        ("samples: 1", "samples: true", "'samples' is True, but must be a whole number"),
        ("samples: 1", "samples: -1", "'samples' is -1, but must be from 0"),
        ("[2, 3]", "[a]", r"input 'x': \['a'\] is no shape"),
        ("counts: 1 2", "counts: 1 2 3 4 5", "value 'x': its counts are no 4 whole numbers"),
        ("counts: 1 2", "counts: 1 -2", "value 'x': its counts are no 4 whole numbers"),
        ("minimum: 0.0", "minimum: 2.0", "value 'x': its counts do not fit 2.0 to 1.0"),
        ("maximum: 1.0", "maximum: 1.0e+300", r"value 'x': its counts do not fit 0.0 to 1e\+300"),
        ("maximum: 1.0", "maximum: .nan", "value 'x': its counts do not fit 0.0 to nan"),
        ("name: x", "name: 3", "'name' is 3, but must be text"),
        ("- {", "- 5\n- {", "the value 5 has no fields"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "ranges.yaml"
    path.write_text(GOOD)
    assert Ranges.load(path).values["k"].histogram.total == 3
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(CalibrationError, match=message):
        Ranges.load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="cannot be read as ranges"):
        Ranges.load(tmp_path / "none.yaml")
