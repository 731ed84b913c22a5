"""Products with floats of 28 bits mean products, whatever the bits of their weights are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.types import Array
from tests.unit.kernels.products.test_float28_matmul import run

SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e9, 1e30, 1e-30, 1e-45, -3e38)


def _numbers(data: st.DataObject, rows: int, columns: int) -> Array:
    """Return numbers of like size, some of which are special."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    size = 2.0 ** data.draw(st.sampled_from([-100, -30, -6, 0, 6, 60]))
    array = (random.standard_normal((rows, columns)) * size).astype(np.float32)
    for _ in range(data.draw(st.integers(0, 4))):
        row, column = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
        array[row, column] = data.draw(st.sampled_from(SPECIALS))
    return array


@pytest.mark.jit
@settings(max_examples=max(1, settings().max_examples // 3))
@given(st.data())
def test_results_are_those_of_the_weights_themselves(data: st.DataObject) -> None:
    rows, inner, depth = (data.draw(st.integers(1, most)) for most in (2, 40, 40))
    block = data.draw(st.sampled_from([4, 8, 16]))
    lhs, matrix = _numbers(data, rows, inner), _numbers(data, inner, depth)
    found = run(lhs, matrix, block, has_bias=False, threads=data.draw(st.integers(1, 3)))
    with np.errstate(all="ignore"):
        exact = lhs.astype(float) @ matrix.astype(float)
        sizes = np.abs(lhs.astype(float)) @ np.abs(matrix.astype(float))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    is_finite = sizes < 1e38
    errors = np.abs(found[is_finite] - exact[is_finite])
    assert (errors <= 1e-6 * sizes[is_finite] + 1e-43).all()
