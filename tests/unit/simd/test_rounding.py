"""Rounded numbers that meet an offset: in fewer operations, with the same results."""

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from tests.in_turn import each_with_one_width
from tests.unit.kernels.running import RunningKernel

FLOAT32 = ElementKind.FLOAT32
BYTES = [ElementKind.INT8, ElementKind.UINT8]
SHORT = [*BYTES, ElementKind.INT16, ElementKind.UINT16]
ROWS, VECTORS = 3, 2


def numbers() -> Array:
    """Return floats around all that matters: halves, limits with any offset, and beyond them."""
    near = np.arange(-800, 801) / 2
    limits = [
        limit + step for kind in SHORT for limit in kind.limits for step in (-1.5, -0.5, 0, 1)
    ]
    far = [1e5, 2.0**24, 2.0**30, 2.0**31, 2.0**32, 1e20, np.inf]
    edges = [np.nan, -0.0, 0.49999997, *far, *(-number for number in far)]
    found = np.concatenate([near, limits, 2 * np.array(limits), edges]).astype(np.float32)
    return np.resize(found, -(-found.size // 96) * 96)


def offsets(kind: ElementKind) -> list[int]:
    least, greatest = (int(limit) for limit in kind.limits)
    return [least, greatest, 0, 1, 3, greatest // 2]


def quantized(x: Array, offset: int, kind: ElementKind) -> Array:
    """Return the nearest numbers of *kind* to the rounded sums; the least for NaN."""
    least, greatest = kind.limits
    sums = np.rint(x.astype(np.float64)) + offset
    within: Array = np.clip(np.where(np.isnan(sums), least, sums), least, greatest)
    return within


def run(body: str, x: Array, offset: Any, result: ElementKind, lanes: int) -> Array:
    """Return what *body* writes for all of *x*, from i on, with an *offset* ``z`` in each lane."""
    out = SourceWriter()
    with out.block("def kernel(dest, x, offset, scratch, thread, threads):"):
        out.line(f"z = broadcast(offset, 0, {lanes})\nw = convert_float32(z)")
        out.line(body)
    kinds = (result, FLOAT32, ElementKind.of(offset.dtype))
    found = np.zeros(x.size, result.dtype)
    kernel = RunningKernel(KernelSource("rounding", out.text, kinds), Target.host(min(lanes, 16)))
    kernel(found, x, np.array([offset]))
    return found


def in_vectors(call: str, size: int, lanes: int) -> str:
    return (
        f"for i in range(0, {size}, {lanes}):\n    store(dest, i, {call % f'load(x, i, {lanes})'})"
    )


def in_tiles(call: str, size: int, lanes: int) -> str:
    pitch = VECTORS * lanes
    load = f"tile_load(x, i, {pitch}, {ROWS}, {VECTORS}, {lanes})"
    return (
        f"for i in range(0, {size}, {ROWS * pitch}):\n"
        f"    tile_store(dest, i, {pitch}, {call % load})"
    )


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "lanes"), each_with_one_width(SHORT))
@pytest.mark.parametrize("form", [in_vectors, in_tiles])
def test_integers_are_added_to_rounded_numbers(kind: ElementKind, lanes: int, form: Any) -> None:
    x = numbers()
    body = form(f"saturate_sum_{kind.value}(%s, z)", x.size, lanes)
    for number in offsets(kind):
        found = run(body, x, kind.dtype.type(number), kind, lanes)
        np.testing.assert_array_equal(found, quantized(x, number, kind), str(number))


@pytest.mark.jit
@pytest.mark.parametrize("kind", BYTES)
def test_several_vectors_are_rounded_at_once(kind: ElementKind) -> None:
    x = np.resize(numbers(), 1920)
    body = in_vectors(f"saturate_sum_{kind.value}(%s, z)", x.size, 64)
    for number in offsets(kind):
        out = run(body, x, kind.dtype.type(number), kind, 64)
        np.testing.assert_array_equal(out, quantized(x, number, kind), str(number))


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "lanes"), each_with_one_width(SHORT))
@pytest.mark.parametrize("form", [in_vectors, in_tiles])
def test_whole_numbers_stay_within_what_an_offset_leaves(
    kind: ElementKind, lanes: int, form: Any
) -> None:
    x = numbers()
    body = form(f"clamp_around_{kind.value}(rint(%s), w)", x.size, lanes)
    for number in offsets(kind):
        found = run(body, x, kind.dtype.type(number), FLOAT32, lanes)
        np.testing.assert_array_equal(found, quantized(x, number, kind) - number, str(number))
        assert not np.signbit(found[found == 0]).any(), "there is no -0.0 among integers"
