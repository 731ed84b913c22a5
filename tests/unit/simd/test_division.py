"""Quotients and remainders are exact: integers against Python's own, floats against NumPy."""

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from tests.in_turn import each_with_one_width
from tests.unit.kernels.running import RunningKernel

INTEGERS = [ElementKind(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = [ElementKind.FLOAT32, ElementKind.FLOAT64]
FUNCTIONS = ("div", "fmod", "floor_div", "mod")


def results(kind: ElementKind, x: Array, y: Array, lanes: int) -> dict[str, Array]:
    """Return each function of all pairs, whose number is a multiple of the lanes."""
    out = SourceWriter()
    with out.block("def kernel(dest, x, y, scratch, thread, threads):"):
        with out.block(f"for i in range(0, {x.size}, {lanes}):"):
            out.line(f"a = load(x, i, {lanes})\nb = load(y, i, {lanes})")
            for number, name in enumerate(FUNCTIONS):
                out.line(f"store(dest, i + {number * x.size}, {name}(a, b))")
    found = np.empty((len(FUNCTIONS), x.size), kind.dtype)
    kernel = RunningKernel(KernelSource("division", out.text, (kind,) * 3), Target.host(lanes))
    kernel(found, x, y)
    return dict(zip(FUNCTIONS, found, strict=True))


def every_pair(first: Array, second: Array) -> tuple[Array, Array]:
    pairs = np.meshgrid(first, second)
    x, y = (np.pad(each.ravel(), (0, -each.size % 64), mode="edge") for each in pairs)
    return x, y


def trying_integers(kind: ElementKind) -> tuple[Array, Array]:
    """Return pairs that trouble a division by way of floats: near multiples, of all sizes."""
    least, greatest = kind.limits
    if kind.size_bytes == 1:
        every = np.arange(least, greatest + 1).astype(kind.dtype)
        return every_pair(every, every)
    rng = np.random.default_rng(0)
    bits = 8 * kind.size_bytes
    sizes = [1 << n for n in range(bits)]
    edges = {0, *(s * sign + d for s in sizes for sign in (1, -1) for d in (-1, 0, 1))}
    edges = {each for each in edges | {least, greatest} if least <= each <= greatest}
    divisors = [*edges, *(int(rng.integers(1, s + 1, dtype=np.uint64)) for s in sizes)]
    divisors = [d for d in divisors if least <= d <= greatest]
    numbers = [*edges]
    for divisor in divisors:
        for quotient in (1, 3, 1000, greatest // max(abs(divisor), 1)):
            numbers += [n for d in (-1, 0, 1) if least <= (n := divisor * quotient + d) <= greatest]
    chosen = rng.choice(np.array(numbers, kind.dtype), 400)
    return every_pair(chosen, np.array(divisors, kind.dtype))


def exact_integers(x: Array, y: Array) -> dict[str, Array]:
    """Return what Python gives, 0 for a division by zero; results wrap."""
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    mask = (1 << 8 * x.itemsize) - 1
    floored = [divmod(a, b) if b else (0, 0) for a, b in pairs]
    towards_zero = [
        (q + 1, r - b) if r and (a < 0) != (b < 0) else (q, r)
        for (q, r), (a, b) in zip(floored, pairs, strict=True)
    ]
    columns = zip(*towards_zero, strict=True), zip(*floored, strict=True)
    rows = [row for both in columns for row in both]
    return {
        name: np.array([each & mask for each in row], f"u{x.itemsize}").view(x.dtype)
        for name, row in zip(FUNCTIONS, rows, strict=True)
    }


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "lanes"), each_with_one_width(INTEGERS))
def test_integers_are_divided_exactly(kind: ElementKind, lanes: int) -> None:
    x, y = trying_integers(kind)
    found, wanted = results(kind, x, y, lanes), exact_integers(x, y)
    for name in FUNCTIONS:
        np.testing.assert_array_equal(found[name], wanted[name], name)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", LANE_COUNTS[:1])
def test_large_integers_among_small_ones_are_divided_exactly(lanes: int) -> None:
    """A vector with one number that ``float64`` does not hold goes another way as a whole."""
    x = np.arange(64, dtype=np.int64) - 32
    y = np.where(x % 7 == 0, -3, 5)
    x[5], y[9] = -(2**63), 2**62 + 1
    found, wanted = results(ElementKind.INT64, x, y, lanes), exact_integers(x, y)
    for name in FUNCTIONS:
        np.testing.assert_array_equal(found[name], wanted[name], name)


def trying_floats(kind: ElementKind) -> tuple[Array, Array]:
    """Return pairs of all sizes, with quotients that are, or are near, whole numbers."""
    info: Any = np.finfo(kind.dtype)
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 2.5, info.max, info.tiny, -info.max]
    special = [*special, info.smallest_subnormal, -3 * info.smallest_subnormal, 1 / 3, 0.1]
    span = 0.9 * float(np.log(info.max))
    wide = np.exp(rng.uniform(-span, span, 3000)) * rng.choice([-1, 1], 3000)
    near = rng.uniform(-50, 50, 3000)
    y = np.concatenate([wide, near]).astype(kind.dtype)
    whole = np.rint(np.exp(rng.uniform(0, 30, 6000)))
    with np.errstate(over="ignore"):
        products = (y * whole.astype(kind.dtype)).astype(kind.dtype)
    others = [products, np.nextafter(products, -products), rng.permutation(y), near.repeat(2)]
    first, second = every_pair(np.array(special, kind.dtype), np.array(special, kind.dtype))
    pairs = np.concatenate([first, *others]), np.concatenate([second, *[y] * 4])
    x, y = (np.pad(each.astype(kind.dtype), (0, -each.size % 64)) for each in pairs)
    return x, y


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "lanes"), each_with_one_width(FLOATS))
def test_remainders_of_floats_are_exact(kind: ElementKind, lanes: int) -> None:
    x, y = trying_floats(kind)
    found = results(kind, x, y, lanes)
    with np.errstate(all="ignore"):
        wanted = {"fmod": np.fmod(x, y), "mod": np.mod(x, y), "floor_div": np.floor_divide(x, y)}
    for name, row in wanted.items():
        np.testing.assert_array_equal(found[name], row, name)
        is_number = ~np.isnan(row)
        np.testing.assert_array_equal(
            np.signbit(found[name][is_number]), np.signbit(row[is_number]), name
        )
