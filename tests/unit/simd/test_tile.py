"""Register tiles, and patches that are copied for them."""

import numpy as np
import pytest

from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from tests.in_turn import each_with_one_width
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

FLOAT32, INT32 = ElementKind.FLOAT32, ElementKind.INT32


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"), each_with_one_width([FLOAT32, ElementKind.FLOAT64, INT32, ElementKind.INT64])
)
def test_tile_is_a_small_matrix_product(kind: ElementKind, lanes: int) -> None:
    rows, vectors, depth = 3, 2, 5
    width = vectors * lanes
    out = SourceWriter()
    with out.block("def kernel(dest, x, w, bias, scratch, thread, threads):"):
        out.line(f"t = tile_bias(bias, 0, {rows}, {vectors}, {lanes})")
        with out.block(f"for k in range({depth}):"):
            out.line(f"t = tile_fma(t, x, k, {depth}, w, k * {width})")
        out.line("t = tile_set(t, 1, 1, neg(tile_get(t, 1, 1)))")
        out.line(f"tile_store(dest, 0, {width}, t)")
        out.line(f"u = tile_load(dest, 0, {width}, {rows}, {vectors}, {lanes})")
        out.line(f"tile_store_masked(dest, {rows * width}, {width}, u, {width - 3})")
        out.line(f"z = tile_fill(dest, 0, 1, {vectors}, {lanes})")
        out.line(f"tile_store(dest, {2 * rows * width}, {width}, z)")
    source = KernelSource("tile", out.text, (kind,) * 4)
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (rows, depth)).astype(kind.dtype)
    w = random.integers(-4, 5, (depth, width)).astype(kind.dtype)
    bias = random.integers(-4, 5, width).astype(kind.dtype)
    dest, whole = guarded((2 * rows + 1, width), kind)
    RunningKernel(source, Target.host(lanes))(dest, x, w, bias)
    expected = x @ w + bias
    expected[1, lanes:] *= -1
    np.testing.assert_array_equal(dest[:rows], expected)
    np.testing.assert_array_equal(dest[rows : 2 * rows, :-3], expected[:, :-3])
    assert (dest[rows : 2 * rows, -3:] == 77).all()
    assert (dest[2 * rows] == 0).all()
    assert guards_are_intact(whole)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"), each_with_one_width([ElementKind.UINT8, ElementKind.UINT16, INT32, FLOAT32])
)
def test_tiles_are_transposed_as_they_are_loaded(kind: ElementKind, lanes: int) -> None:
    piece = min(lanes, 16 // kind.size_bytes)
    out = SourceWriter()
    with out.block("def kernel(dest, x, scratch, thread, threads):"):
        tile = f"tile_load_columns(x, 3, 20, {piece}, {lanes})"
        out.line(f"tile_store(dest, 0, {lanes}, {tile})")
    x = np.arange(20 * lanes + 3).astype(kind.dtype)
    dest, whole = guarded((piece, lanes), kind)
    RunningKernel(KernelSource("tile", out.text, (kind,) * 2), Target.host(lanes))(dest, x)
    np.testing.assert_array_equal(dest, x[3:].reshape(lanes, 20)[:, :piece].T)
    assert guards_are_intact(whole)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("tile_is_finite(t)", [1, 0, 0, 0]),
        ("tile_any(less(t, tile_zero(t)))", [0, 0, 0, 1]),
    ],
)
def test_a_tile_tells_of_all_its_elements(condition: str, wanted: list[int], lanes: int) -> None:
    out = SourceWriter()
    with out.block("def kernel(dest, source, scratch, thread, threads):"):
        with out.block("for i in range(4):"):
            load = f"tile_load(source, i * {4 * lanes}, {2 * lanes}, 2, 2, {lanes})"
            out.line(f"put(dest, i, 0)\nt = {load}")
            with out.block(f"if {condition}:"):
                out.line("put(dest, i, 1)")
    target = Target.host(lanes)
    kernel = RunningKernel(KernelSource("t", out.text, (INT32, FLOAT32), 0), target)
    source = np.full((4, 4 * lanes), np.finfo(np.float32).max, np.float32)
    source[1, -1], source[2, 0], source[3, lanes] = np.nan, np.inf, -np.inf
    dest = np.empty(4, np.int32)
    kernel(dest, source)
    assert dest.tolist() == wanted


@pytest.mark.jit
@pytest.mark.parametrize(
    ("step", "kind", "outside"),
    [(3, FLOAT32, 0), (7, FLOAT32, 0), (7, ElementKind.INT8, -3), (3, ElementKind.UINT8, 200)],
)
@pytest.mark.parametrize(("down", "across"), [(1, 1), (3, 2), (1, 6)])
def test_a_patch_has_one_number_outside_the_image(
    step: int, kind: ElementKind, outside: int, down: int, across: int
) -> None:
    out = SourceWriter()
    with out.block("def kernel(dest, source, scratch, thread, threads):"):
        with out.block("for k in range(99):"):
            sizes = f"4, 3, 3, {step}, 4, 5, {down}, {across}, {outside}"
            out.line(f"copy_patch(at(dest, k * 60), source, 1, k // 11 - 5, k % 11 - 6, {sizes})")
    target = Target.host()
    kernel = RunningKernel(KernelSource("t", out.text, (kind, kind), 0), target)
    source = (100 * np.random.default_rng(0).random((2, 4, 3, step))).astype(kind.dtype)
    dest, whole = guarded((9, 11, 4, 5, 3), kind)
    kernel(dest, source)
    padded = np.pad(source[1, ..., :3], [(9, 16), (9, 32), (0, 0)], constant_values=outside)
    for k, found in enumerate(dest.reshape(99, 4, 5, 3)):
        top, left = k // 11 - 5 + 9, k % 11 - 6 + 9
        rows, columns = slice(top, top + 4 * down, down), slice(left, left + 5 * across, across)
        np.testing.assert_array_equal(found, padded[rows, columns])
    assert guards_are_intact(whole)
