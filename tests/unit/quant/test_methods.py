"""Choosing ranges: each method keeps what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.histogram import Histogram
from glow_nb.quant.methods import METHODS, Percentile, chosen, entropy, method_named, minmax, mse
from glow_nb.quant.schemas import SCHEMAS, Encoding, asymmetric, symmetric

UINT8, INT8 = ElementKind.UINT8, ElementKind.INT8
FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)
MANY = st.lists(FLOATS, min_size=1, max_size=60)


def loss(numbers: Array, encoding: Encoding) -> float:
    changes = encoding.rounded(numbers).astype(np.float64) - numbers
    return float(np.sum(changes * changes))


def normal(*outliers: float, count: int = 20_000) -> Histogram:
    numbers = np.random.default_rng(0).standard_normal(count)
    return Histogram.of(np.append(numbers, outliers).astype(np.float32))


@given(MANY, st.sampled_from(sorted(METHODS)), st.sampled_from(sorted(SCHEMAS)))
def test_every_method_and_schema_has_an_answer(
    numbers: list[float], method: str, schema: str
) -> None:
    histogram = Histogram.of(np.array(numbers, np.float32), 512)
    found = METHODS[method](histogram, UINT8, SCHEMAS[schema])
    assert np.isfinite(found.scale)
    assert 0 <= found.offset <= 255
    empty = METHODS[method](Histogram.empty(512), UINT8, SCHEMAS[schema])
    assert empty.scale == 1


@given(MANY, st.sampled_from(sorted(SCHEMAS)))
def test_mse_is_no_worse_than_minmax(numbers: list[float], schema: str) -> None:
    histogram = Histogram.of(np.array(numbers, np.float32), 512)
    occurring = np.repeat(histogram.centers, histogram.counts)
    best = loss(occurring, mse(histogram, INT8, SCHEMAS[schema]))
    assert best <= loss(occurring, minmax(histogram, INT8, SCHEMAS[schema]))


def test_minmax_keeps_all() -> None:
    found = minmax(normal(30.0), INT8, symmetric)
    assert found.highest == pytest.approx(30)


def test_percentile_cuts_equal_shares_off_both_ends() -> None:
    histogram = normal()
    found = Percentile(90)(histogram, UINT8, asymmetric)
    assert found.lowest == pytest.approx(-1.645, abs=0.05)
    assert found.highest == pytest.approx(1.645, abs=0.05)
    assert Percentile(100)(histogram, UINT8, asymmetric) == minmax(histogram, UINT8, asymmetric)


@pytest.mark.parametrize("method", [mse, entropy])
def test_rare_numbers_far_away_are_cut_off(method: Any) -> None:
    histogram = normal(9.0, count=500_000)
    assert method(histogram, UINT8, asymmetric).highest < 6
    assert minmax(histogram, UINT8, asymmetric).highest == pytest.approx(9, abs=0.05)


def test_entropy_keeps_what_is_evenly_spread() -> None:
    histogram = Histogram.of(np.linspace(-1, 1, 10_000, dtype=np.float32))
    found = entropy(histogram, INT8, symmetric)
    assert found.highest > 0.95


@pytest.mark.parametrize("schema", SCHEMAS)
def test_entropy_keeps_a_frequent_greatest_number(schema: str) -> None:
    grey = np.repeat(np.arange(17) / 16, 100).astype(np.float32)  # pixels of few levels
    found = entropy(Histogram.of(grey), UINT8, SCHEMAS[schema])
    assert found.highest > 0.999


def test_entropy_does_not_mind_that_zero_is_frequent() -> None:
    numbers = np.random.default_rng(0).exponential(size=20_000).astype(np.float32)
    plain = entropy(Histogram.of(numbers), UINT8, asymmetric)
    with_zeros = entropy(
        Histogram.of(np.append(numbers, np.zeros(200_000, np.float32))), UINT8, asymmetric
    )
    assert with_zeros.highest > plain.highest / 2


def test_entropy_of_few_bins_keeps_all() -> None:
    histogram = Histogram.of(np.array([0.0, 1.0, 9.0]), 64)
    assert entropy(histogram, UINT8, asymmetric) == minmax(histogram, UINT8, asymmetric)


def test_percentiles_are_those_of_onnxruntime() -> None:
    from onnxruntime.quantization.calibrate import HistogramCollector

    numbers = np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
    collector = HistogramCollector("percentile", False, 2048, 128, 99.0, "same")
    collector.collect({"x": [numbers]})
    low, high, *_ = collector.compute_collection_result()["x"]
    ours = Percentile(99.0)(Histogram.of(numbers), UINT8, asymmetric)
    theirs = asymmetric(float(low), float(high), UINT8)
    assert ours.scale == pytest.approx(theirs.scale, rel=0.005)


def test_methods_that_are_none_are_refused() -> None:
    with pytest.raises(OptionError, match="method='mes'; did you mean 'mse'"):
        method_named("mes")
    assert Percentile(np.float64(99)).kept == 99
    assert Percentile(np.float32(99)).kept == 99  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"Percentile\(True\): give percent above 0"):
        Percentile(True)
    with pytest.raises(OptionError, match=r"Percentile\(0\): give percent above 0"):
        Percentile(0)
    assert method_named(minmax) is minmax

    def broken(*arguments: object) -> Any:
        return arguments[0]

    with pytest.raises(OptionError, match="returned a Histogram, not an Encoding"):
        chosen(broken, normal(), UINT8, asymmetric)
