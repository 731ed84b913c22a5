"""Integers of 64 bits, to and from floats: vectors of small ones have a way of their own."""

import numpy as np
import pytest

from glow_nb.base.conversion import converted
from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from tests.in_turn import each_with_one_width
from tests.unit.kernels.running import RunningKernel

LONG = [ElementKind.INT64, ElementKind.UINT64]
FLOATS = [ElementKind.FLOAT32, ElementKind.FLOAT64, ElementKind.FLOAT16, ElementKind.BFLOAT16]


def convert_all(x: Array, kind: ElementKind, lanes: int) -> Array:
    """Return the numbers *x*, which are a multiple of the lanes, in *kind*."""
    source = ElementKind.of(x.dtype)
    out = SourceWriter()
    with out.block("def kernel(dest, x, scratch, thread, threads):"):
        with out.block(f"for i in range(0, {x.size}, {lanes}):"):
            out.line(f"store(dest, i, convert_{kind.value}(load(x, i, {lanes})))")
    found = np.empty(x.size, kind.dtype)
    kernel = RunningKernel(KernelSource("c", out.text, (kind, source)), Target.host(lanes))
    kernel(found, x)
    return found


def vectors_of(numbers: Array) -> Array:
    """Return vectors that all numbers are in alone, among small ones, and together."""
    alone = np.ones((numbers.size, 16), numbers.dtype)
    alone[np.arange(numbers.size), np.arange(numbers.size) % 16] = numbers
    return np.concatenate([alone.ravel(), np.pad(numbers, (0, -numbers.size % 16))])


@pytest.mark.jit
@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize(("source", "lanes"), each_with_one_width(FLOATS))
def test_floats_of_all_sizes_become_integers(
    source: ElementKind, lanes: int, kind: ElementKind
) -> None:
    sizes = [2.0**n * f for n in range(-2, 66) for f in (1, 1.5, 0.9999999, 1.0000001)]
    numbers = [sign * size for size in sizes for sign in (1, -1)]
    numbers = [0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, -0.99, 2.5, 1e300, *numbers]
    with np.errstate(over="ignore"):
        x = vectors_of(np.array(numbers).astype(source.dtype))
    np.testing.assert_array_equal(convert_all(x, kind, lanes), converted(x, kind))


@pytest.mark.jit
@pytest.mark.parametrize("source", LONG)
@pytest.mark.parametrize(("kind", "lanes"), each_with_one_width(FLOATS[:2]))
def test_integers_of_all_sizes_are_rounded_once(
    source: ElementKind, kind: ElementKind, lanes: int
) -> None:
    least, greatest = source.limits
    sizes = [sign * ((1 << n) + d) for n in range(64) for sign in (1, -1) for d in (-1, 0, 1)]
    near_halves = [(1 << n) + (1 << n - 24) + d for n in range(26, 63) for d in (-1, 0, 1)]
    numbers = [n for n in [*sizes, *near_halves, least, greatest] if least <= n <= greatest]
    x = vectors_of(np.array(numbers, source.dtype))
    np.testing.assert_array_equal(convert_all(x, kind, lanes), x.astype(kind.dtype))
