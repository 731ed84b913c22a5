"""Kernels of Strassen's algorithm mean products, whatever their sizes and numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.numerics.strassen import SIDE
from tests.unit.kernels.strassen.test_matmul import run

SPECIALS = (np.nan, np.inf, -np.inf, 0.0, 1e9, 1e-9, -0.0)


def _numbers(data: st.DataObject, rows: int, columns: int) -> Array:
    """Return numbers of rows that differ in size, some of which are special."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    sizes = np.array(data.draw(st.lists(st.integers(-8, 8), min_size=rows, max_size=rows)))
    array = random.standard_normal((rows, columns)) * 10.0 ** sizes[:, np.newaxis]
    for _ in range(data.draw(st.integers(0, 3))):
        row, column = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
        array[row, column] = data.draw(st.sampled_from(SPECIALS))
    return array.astype(np.float32)


@pytest.mark.jit
@settings(max_examples=max(1, settings().max_examples // 4))
@given(st.data())
def test_results_are_as_precise_as_rows_and_columns_are(data: st.DataObject) -> None:
    lanes = data.draw(st.sampled_from(LANE_COUNTS))
    rows, depth = data.draw(st.integers(1, 20)), SIDE * data.draw(st.integers(1, 30))
    inner = SIDE * data.draw(st.integers(lanes, 2 * lanes + 3))
    block = lanes * data.draw(st.integers(1, 3))
    nest = StrassenNest(rows, inner, depth, ElementKind.FLOAT32, block)
    lhs = _numbers(data, rows, inner)
    plain = np.random.default_rng(1).standard_normal((depth, inner))
    sizes = 10.0 ** np.random.default_rng(2).integers(-4, 5, (depth, 1))
    rhs = np.ascontiguousarray((plain * sizes).T.astype(np.float32))
    found = run(nest, Target.host(lanes), (lhs, rhs, None), threads=data.draw(st.integers(1, 3)))
    with np.errstate(all="ignore"):
        exact = lhs.astype(float) @ rhs.astype(float)
        rounded = exact.astype(np.float32)
        bounds = np.outer(
            np.linalg.norm(lhs.astype(float), axis=1), np.linalg.norm(rhs.astype(float), axis=0)
        )
    is_finite = np.isfinite(rounded) & (np.abs(rounded) < 1e38)
    assert np.isfinite(found[is_finite]).all()
    errors = np.abs(found[is_finite] - exact[is_finite])
    assert (errors <= 1e-6 * bounds[is_finite] + 1e-37).all()
    is_lost = ~np.isfinite(lhs).all(axis=1)
    np.testing.assert_array_equal(np.isnan(found[is_lost]), np.isnan(rounded[is_lost]))
