"""Weights to begin with: their sizes, by fixed seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import OptionError
from glow_nb.train import initializers as init

MATRIX, FILTER, GROUPED = (300, 200), (64, 3, 5, 32), (64, 3, 3, 1)


@pytest.mark.parametrize(
    ("shape", "fans"),
    [(MATRIX, (300, 200)), (FILTER, (480, 960)), (GROUPED, (9, 576)), ((8, 3, 2), (6, 24))],
)
def test_fans(shape: tuple[int, ...], fans: tuple[int, int]) -> None:
    assert init.fans_of(shape) == fans


@pytest.mark.parametrize("shape", [MATRIX, FILTER])
@pytest.mark.parametrize("mode", ["fan_in", "fan_out"])
def test_deviation_of_kaimings_weights(shape: tuple[int, ...], mode: init.Mode) -> None:
    fan = init.fans_of(shape)[mode == "fan_out"]
    wanted = math.sqrt(2 / fan)
    for make in (init.kaiming_normal, init.kaiming_uniform):
        weights = make(shape, 0, mode=mode)
        assert weights.shape == shape
        assert weights.dtype == np.float32
        assert weights.std() == pytest.approx(wanted, rel=0.02)
        assert abs(weights.mean()) < 5 * wanted / math.sqrt(weights.size)
    assert abs(init.kaiming_uniform(shape, 0, mode=mode)).max() <= wanted * math.sqrt(3)


@pytest.mark.parametrize("shape", [MATRIX, FILTER])
def test_deviation_of_xaviers_weights(shape: tuple[int, ...]) -> None:
    wanted = 5 / 3 * math.sqrt(2 / sum(init.fans_of(shape)))
    for make in (init.xavier_normal, init.xavier_uniform):
        weights = make(shape, 0, gain=init.gain("tanh"))
        assert weights.std() == pytest.approx(wanted, rel=0.02)


def test_fans_may_be_given() -> None:
    weights = init.kaiming_normal((100, 400), 0, fans=(400, 100))
    assert weights.std() == pytest.approx(math.sqrt(2 / 400), rel=0.02)
    assert init.xavier_normal((40_000,), 0, fans=(1, 1)).std() == pytest.approx(1, rel=0.02)


def test_bounds_and_moments() -> None:
    numbers = init.uniform((40_000,), 0, -3.0, 5.0, dtype=np.float64)
    assert numbers.dtype == np.float64
    assert numbers.min() >= -3
    assert numbers.max() < 5
    assert numbers.mean() == pytest.approx(1, abs=0.06)
    numbers = init.normal((40_000,), 0, 2.0, 0.5)
    assert numbers.mean() == pytest.approx(2, abs=0.02)
    assert numbers.std() == pytest.approx(0.5, rel=0.02)
    assert not init.zeros((3, 4)).any()


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (6, 3, 3, 2), (40, 2, 2, 3), (1, 7)])
def test_rows_or_columns_are_orthogonal(shape: tuple[int, ...]) -> None:
    weights = init.orthogonal(shape, 1, gain=2.0, dtype=np.float64).reshape(shape[0], -1)
    rows, columns = weights.shape
    products = weights @ weights.T if rows <= columns else weights.T @ weights
    np.testing.assert_allclose(products, 4 * np.eye(min(rows, columns)), atol=1e-14)


@pytest.mark.parametrize(
    "make",
    [init.uniform, init.normal, init.xavier_uniform, init.kaiming_normal, init.orthogonal],
)
def test_numbers_follow_the_seed_and_generators_go_on(make: Any) -> None:
    np.testing.assert_array_equal(make((3, 4), 7), make((3, 4), 7))
    assert (make((3, 4), 7) != make((3, 4), 8)).any()
    rng = np.random.default_rng(7)
    np.testing.assert_array_equal(make((3, 4), rng), make((3, 4), 7))
    assert (make((3, 4), rng) != make((3, 4), 7)).any()


@pytest.mark.parametrize(
    ("activation", "wanted"),
    [("relu", math.sqrt(2)), ("tanh", 5 / 3), ("leaky_relu", math.sqrt(2 / (1 + 1e-4)))],
)
def test_gains(activation: init.Activation, wanted: float) -> None:
    assert init.gain(activation) == pytest.approx(wanted)


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(OptionError, match=r"weights of shape \[5\] have no fan in and fan out"):
        init.kaiming_normal((5,), 0)
    with pytest.raises(OptionError, match=r"weights of shape \[5, 0\] have no fan in"):
        init.xavier_normal((5, 0), 0)
    with pytest.raises(OptionError, match=r"weights of shape \[5\] have no rows and columns"):
        init.orthogonal((5,), 0)
    with pytest.raises(OptionError, match="mode 'fan_both' is unknown; choose 'fan_in' or"):
        init.kaiming_uniform((5, 5), 0, mode="fan_both")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="activation 'rleu' has no known gain; did you mean"):
        init.gain("rleu")  # type: ignore[arg-type]
