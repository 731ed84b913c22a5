"""Weights in pairs: none is lost, none saturates, and few need a step more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.types import Array
from glow_nb.kernels.operators import pairings
from glow_nb.kernels.operators.pairings import (
    STEP_INPUTS,
    WINDOW,
    order_size,
    paired,
    unpaired,
)

LARGEST_BYTE = 255


def weights_of(shape: tuple[int, int, int], spread: float, seed: int = 0) -> Array:
    """Return weights as those of networks, normal numbers with this standard deviation."""
    random = np.random.default_rng(seed).standard_normal(shape)
    return np.clip(np.round(spread * random), -128, 127).astype(np.int8)


def fewest_steps(shape: tuple[int, int, int], block: int) -> int:
    """Return the steps of weights that are all small."""
    depth, runs, run = shape
    windows = [min(WINDOW, run - first) for first in range(0, run, WINDOW)]
    return -(-depth // block) * runs * sum(-(-size // STEP_INPUTS) for size in windows)


@given(
    st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(0, 70)),
    st.sampled_from([8, 16, 24]),
    st.sampled_from([1.0, 40.0, 70.0, 1000.0]),
    st.integers(0, 99),
)
def test_every_weight_is_multiplied_once_and_no_pair_saturates(
    shape: tuple[int, int, int], block: int, spread: float, seed: int
) -> None:
    weights = weights_of(shape, spread, seed)
    made = paired(weights, block)
    np.testing.assert_array_equal(unpaired(made, *shape), weights)
    pairs = made.filter.reshape(len(made.filter), block, 2, 2).astype(np.int64)
    largest = LARGEST_BYTE * np.maximum(pairs, 0).sum(axis=-1)
    least = LARGEST_BYTE * np.minimum(pairs, 0).sum(axis=-1)
    assert largest.max(initial=0) < 2**15
    assert least.min(initial=0) >= -(2**15)
    panels = -(-shape[0] // block)
    assert made.order.shape == (order_size(panels * shape[1], len(made.filter)),)
    assert made.order[panels * shape[1]] == len(made.filter)


@pytest.mark.parametrize("run", [1, 4, 15, 16, 21, 64])
def test_small_weights_need_the_fewest_steps(run: int) -> None:
    shape = (20, 2, run)
    made = paired(np.full(shape, 64, np.int8), 16)
    assert len(made.filter) == fewest_steps(shape, 16)


@pytest.mark.parametrize("weight", [127, -128, 65])
def test_large_weights_are_alone(weight: int) -> None:
    made = paired(np.full((8, 1, 32), weight, np.int8), 8)
    assert len(made.filter) == 32 // 2
    assert (np.count_nonzero(made.filter.reshape(-1, 2), axis=1) <= 1).all()


def test_large_weights_of_opposite_signs_may_be_a_pair() -> None:
    weights: Array = np.tile(np.array([127, -128], np.int8), (8, 1, 16))
    assert len(paired(weights, 8).filter) == 32 // STEP_INPUTS


@pytest.mark.parametrize(("inner", "block", "most"), [(128, 16, 1.06), (256, 24, 1.06)])
def test_weights_as_those_of_networks_need_few_steps_more(
    inner: int, block: int, most: float
) -> None:
    shape = (240, 1, inner)
    weights = np.random.default_rng(3).standard_normal(shape)
    weights *= 127 / np.abs(weights).max(axis=2, keepdims=True)  # a scale for each channel
    made = paired(np.round(weights).astype(np.int8), block)
    assert len(made.filter) <= most * fewest_steps(shape, block)


def test_runs_of_all_panels_follow_one_another() -> None:
    weights = weights_of((10, 3, 40), 30)
    made = paired(weights, 8)
    begins = made.order[: 2 * 3 + 1]
    assert begins[0] == 0
    assert (np.diff(begins) >= 40 // STEP_INPUTS).all()
    alone = paired(weights[8:, 1:2], 8)  # the second run of the second panel
    steps = slice(begins[4], begins[5])
    np.testing.assert_array_equal(made.filter[steps], alone.filter)


@pytest.mark.parametrize("most", [1, 3000])
def test_many_weights_are_paired_in_parts(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = weights_of((70, 2, 40), 50)
    whole = paired(weights, 16)
    monkeypatch.setattr(pairings, "MOST_BYTES", most)
    parts = paired(weights, 16)
    np.testing.assert_array_equal(parts.filter, whole.filter)
    np.testing.assert_array_equal(parts.order, whole.order)
