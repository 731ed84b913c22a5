"""The sums of Strassen's algorithm in vectors, against its matrices."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.errors import CompileError
from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.numerics.strassen import BLOCKS, LEFT, PRODUCTS, RECOVERY, RIGHT, SIDE, SUMS, recovered
from tests.unit.kernels.running import RunningKernel

FLOAT32 = ElementKind.FLOAT32
pytestmark = pytest.mark.jit


def run(line: str, shape: tuple[int, ...], x: Array, lanes: int) -> Array:
    """Return what *line* writes to ``dest``, of *shape*, with *x* to read from."""
    out = SourceWriter()
    with out.block("def kernel(dest, x, scratch, thread, threads):"):
        out.line(line)
    kernel = RunningKernel(KernelSource("sums", out.text, (FLOAT32, FLOAT32)), Target.host(lanes))
    found = np.zeros(shape, np.float32)
    kernel(found, x)
    return found


def integers(*shape: int) -> Array:
    """Return small integers, whose sums are exact."""
    return np.random.default_rng(0).integers(-99, 100, shape).astype(np.float32)


@pytest.mark.parametrize("lanes", LANE_COUNTS)
def test_each_product_has_its_left_factor(lanes: int) -> None:
    plane = lanes + 3
    x = integers(BLOCKS, lanes)
    tile = f"tile_load(x, 0, {lanes}, {BLOCKS}, 1, {lanes})"
    line = f"strassen_factors(dest, 2, {plane}, {tile})"
    found = run(line, (PRODUCTS * plane + 2,), x, lanes)
    made = found[2:].reshape(PRODUCTS, plane)
    np.testing.assert_array_equal(made[:, :lanes], LEFT @ x)
    assert not found[:2].any()
    assert not made[:, lanes:].any()


@pytest.mark.parametrize("lanes", LANE_COUNTS)
def test_products_add_up_to_blocks(lanes: int) -> None:
    plane = lanes + 3
    x = integers(PRODUCTS, plane)
    line = f"tile_store(dest, 0, {lanes}, strassen_results(x, 2, {plane}, {lanes}))"
    found = run(line, (BLOCKS, lanes), x, lanes)
    made = SUMS @ x[:, 2 : lanes + 2]
    np.testing.assert_array_equal(found, made)


@pytest.mark.parametrize("lanes", LANE_COUNTS)
def test_rows_of_blocks_are_recovered_without_noise(lanes: int) -> None:
    plane = lanes + 3
    blocks = np.random.default_rng(0).standard_normal((BLOCKS, plane))
    blocks[1::3] *= 2.0**-24  # what is recovered of these is noise
    x = (RIGHT @ blocks).astype(np.float32)
    used = x[:, 2 : lanes + 2]
    wanted = recovered(used[:, np.newaxis])[:, 0]
    plain = RECOVERY.astype(np.float32) @ used
    assert (plain[wanted == 0] != 0).any()
    for row in range(SIDE):
        tile = f"strassen_recovered(x, 2, {plane}, {row}, {lanes})"
        found = run(f"tile_store(dest, 0, {lanes}, {tile})", (SIDE, lanes), x, lanes)
        expected = wanted[row * SIDE : (row + 1) * SIDE]
        np.testing.assert_allclose(found, expected, atol=1e-6)
        np.testing.assert_array_equal(found == 0, expected == 0)


@pytest.mark.parametrize("lanes", LANE_COUNTS)
def test_rows_of_tiles_are_joined_and_taken(lanes: int) -> None:
    x = integers(6, 2 * lanes)
    upper, lower = (
        f"tile_load(x, {first * 2 * lanes}, {2 * lanes}, {rows}, 2, {lanes})"
        for first, rows in ((0, 2), (2, 4))
    )
    taken = f"tile_rows(tile_join({upper}, {lower}), 1, 2, 3)"
    found = run(f"tile_store(dest, 0, {2 * lanes}, {taken})", (3, 2 * lanes), x, lanes)
    np.testing.assert_array_equal(found, x[1::2])
    column = f"tile_columns(tile_load(x, 0, {2 * lanes}, 3, 2, {lanes}), 1, 1)"
    found = run(f"tile_store(dest, 0, {lanes}, {column})", (3, lanes), x, lanes)
    np.testing.assert_array_equal(found, x[:3, lanes:])


FITTING = {
    "tile_rows(t, 1, 2, 1)": ["tile_rows(t, 1, 2, 2)", "tile_rows(t, -1, 1, 1)"],
    "tile_columns(t, 0, 1)": ["tile_columns(t, 1, 1)", "tile_columns(t, 0, 0)"],
    "tile_join(t, tile_fill(x, 0, 2, 1, 8))": [
        "tile_join(t, tile_fill(x, 0, 2, 2, 8))",
        "tile_join(t, tile_fill(x, 0, 2, 1, 4))",
    ],
    "strassen_recovered(x, 0, 8, 1, 8)": ["strassen_recovered(x, 0, 8, 2, 8)"],
    "strassen_results(x, 0, 8, 8)": ["strassen_results(as_float64(x), 0, 8, 8)"],
    "strassen_factors(x, 0, 8, tile_fill(x, 0, 4, 1, 8))": [
        "strassen_factors(x, 0, 8, t)",
        "strassen_factors(as_float64(x), 0, 8, tile_fill(x, 0, 4, 1, 8))",
        "strassen_factors(x, 0, 8, tile_fill(x, 0, 4, 2, 8))",
    ],
}
"""Calls that compile, and others like them that do not."""


@pytest.mark.parametrize("fitting", FITTING)
def test_what_does_not_fit_is_refused(fitting: str) -> None:
    def compiled(call: str) -> None:
        run(f"t = tile_fill(x, 0, 3, 1, 8)\nu = {call}", (7, 8), integers(7, 8), 8)

    compiled(fitting)
    for call in FITTING[fitting]:
        with pytest.raises(CompileError):
            compiled(call)
