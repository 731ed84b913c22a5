"""Random numbers: what they are, and that they are distributed as they should be.

Seeds are fixed, so that the statistics come out the same each time; their bounds are those that a
right generator exceeds once in a million seeds or less.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import GlowError, VerifyError
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node
from glow_nb.hlir.ops.random import inverse_error_function
from glow_nb.numerics.philox import random_words
from tests.unit.hlir.ops.applying import Numbers, apply, check_lowering, floats, value

GENERATOR = np.array([2026, 11])
FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64
COUNT = 100_000
SIGMAS = 5.0
"""How many standard deviations off a mean may be: once in two million times it is more."""


def drawn(node_class: type[Node], **attributes: Any) -> Numbers:
    found: Numbers = apply(node_class, GENERATOR, shape=(COUNT,), **attributes)
    return found


def check_mean(numbers: Any, mean: float, deviation: float) -> None:
    assert abs(np.mean(numbers) - mean) <= SIGMAS * deviation / math.sqrt(numbers.size)


def check_equally_filled(places: Any, bins: int) -> None:
    """Check *places* in 0..1 by chi-square; by Wilson and Hilferty its cube root is normal."""
    counts, _ = np.histogram(places, bins, (0, 1))
    chi = ((counts - places.size / bins) ** 2).sum() / (places.size / bins)
    freedom = bins - 1
    normal = ((chi / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert abs(normal) < SIGMAS


@pytest.mark.parametrize("kind", [FLOAT32, FLOAT64])
def test_uniform_numbers_are_the_high_bits_of_words(kind: ElementKind) -> None:
    found = apply(ops.RandomUniform, GENERATOR, shape=(5, 3), kind=kind, stream=9)
    if kind is FLOAT32:
        wanted = random_words(GENERATOR, 9, (5, 3)) // 2**8 / 2**24
    else:
        high, low = random_words(GENERATOR, 9, (2, 5, 3)).astype(np.uint64)
        wanted = (high // 2**5 * 2**26 + low // 2**6) / 2.0**53
    np.testing.assert_array_equal(found, wanted.astype(kind.dtype))


@pytest.mark.parametrize("kind", [FLOAT32, FLOAT64])
def test_uniform_numbers_are_equally_likely(kind: ElementKind) -> None:
    numbers = drawn(ops.RandomUniform, kind=kind)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    check_mean(numbers, 0.5, math.sqrt(1 / 12))
    check_mean(numbers**2, 1 / 3, math.sqrt(4 / 45))
    check_equally_filled(numbers, 128)
    check_equally_filled(numbers * 2**12 % 1, 64)  # the lower bits


@pytest.mark.parametrize("kind", [FLOAT32, FLOAT64])
def test_normal_numbers_are_distributed_normally(kind: ElementKind) -> None:
    numbers = drawn(ops.RandomNormal, kind=kind).astype(np.float64)
    assert np.isfinite(numbers).all()
    check_mean(numbers, 0, 1)
    check_mean(numbers**2, 1, math.sqrt(2))
    check_mean(numbers**4, 3, math.sqrt(96))
    check_equally_filled(np.array([NormalDist().cdf(number) for number in numbers]), 128)


def test_streams_runs_and_seeds_have_nothing_in_common() -> None:
    others = [(GENERATOR, 1), (np.array([2026, 12]), 0), (np.array([2027, 11]), 0)]
    first = drawn(ops.RandomNormal).astype(np.float64)
    for generator, stream in others:
        other = apply(ops.RandomNormal, generator, shape=(COUNT,), stream=stream)
        check_mean(first * other, 0, 1)
    for step in (1, 2, 3, 4, 64):
        check_mean(first[step:] * first[:-step], 0, 1)


def test_bounds_and_scales() -> None:
    uniform, normal = drawn(ops.RandomUniform), drawn(ops.RandomNormal)
    between = drawn(ops.RandomUniform, low=-3.0, high=5.0)
    np.testing.assert_array_equal(between, (uniform * 8.0 - 3.0).astype(np.float32))
    scaled = drawn(ops.RandomNormal, mean=10.0, scale=0.5)
    np.testing.assert_allclose(scaled, 10 + 0.5 * normal, rtol=2e-7)


def test_a_uniform_number_is_never_rounded_up_to_its_bound() -> None:
    low, high = 2.0**24, 2.0**24 + 4  # floats between them are two apart
    numbers = drawn(ops.RandomUniform, low=low, high=high)
    assert set(numbers.tolist()) == {low, low + 2}
    assert set(drawn(ops.RandomUniform, low=3.0, high=3.0).tolist()) == {3.0}


def test_bernoulli_is_true_as_often_as_its_probability_says() -> None:
    probabilities = np.array([[0, 0.001, 0.3, 0.5, 0.9, 1, 2, -1, np.nan]], np.float32)
    wanted = np.clip(np.nan_to_num(probabilities), 0, 1)
    found = apply(ops.Bernoulli, np.repeat(probabilities, COUNT, axis=0), GENERATOR)
    deviation = np.sqrt(wanted * (1 - wanted) / COUNT)
    assert (abs(found.mean(axis=0) - wanted) <= SIGMAS * deviation).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("ratio", [0.0, 0.25, 0.9, 1.0])
def test_dropout_keeps_where_bernoulli_is_true(ratio: float, dtype: Any) -> None:
    x = floats(100, 99).astype(dtype)
    keep = apply(ops.Bernoulli, np.full(x.shape, 1 - ratio, np.float32), GENERATOR, stream=5)
    assert abs(keep.mean() - (1 - ratio)) <= SIGMAS * 0.5 / math.sqrt(x.size)
    found = apply(ops.Dropout, x, GENERATOR, ratio=ratio, stream=5)
    factor = 1 / (1 - ratio) if ratio < 1 else 0.0
    np.testing.assert_array_equal(found[~keep], 0)
    np.testing.assert_allclose(found[keep], x[keep] * dtype(factor), rtol=2 * np.finfo(dtype).eps)
    assert found.dtype == x.dtype


def test_a_dropped_element_is_zero_whatever_it_was() -> None:
    x = np.full(1000, np.nan, np.float32)
    found = apply(ops.Dropout, x, GENERATOR)
    assert set(found[~np.isnan(found)].tolist()) == {0.0}


@pytest.mark.parametrize(
    ("node_class", "attributes"),
    [
        (ops.RandomUniform, {"low": -1.0, "high": 2.5}),
        (ops.RandomUniform, {"kind": FLOAT64, "low": -1.0, "high": 2.5}),
        (ops.RandomNormal, {"mean": 1.0, "scale": 3.0}),
        (ops.RandomNormal, {"kind": FLOAT64}),
    ],
)
def test_lowering_of_what_makes_numbers(node_class: type[Node], attributes: dict[str, Any]) -> None:
    for shape in ((), (7,), (3, 0), (5, 1, 3)):
        check_lowering(node_class, GENERATOR, shape=shape, **attributes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lowering_of_what_takes_numbers(dtype: Any) -> None:
    x = floats(5, 7).astype(dtype)
    check_lowering(ops.Dropout, x, GENERATOR, ratio=0.3, stream=4)
    check_lowering(ops.Bernoulli, x, GENERATOR)


def test_the_inverse_error_function_is_that() -> None:
    x = np.array([0, 1e-300, -1e-10, 0.1, -0.499, 0.5, 0.9, 1 - 2.0**-24, 1 - 2.0**-53])
    found = inverse_error_function(x)
    np.testing.assert_allclose([math.erf(y) for y in found], x, rtol=4e-16)
    inverse = -NormalDist().inv_cdf(2.0**-54) / math.sqrt(2)
    np.testing.assert_allclose(found[-1], inverse, rtol=1e-14)
    np.testing.assert_array_equal(
        inverse_error_function(np.array([1, -1, 1.5, np.nan])), [np.inf, -np.inf, np.nan, np.nan]
    )


def test_what_cannot_be_drawn_is_told() -> None:
    generator = value("int64<2>")
    with pytest.raises(VerifyError, match=r"'generator' is int32<2>; it must be int64<2>"):
        ops.RandomBits(value("int32<2>"), (3,))
    with pytest.raises(VerifyError, match=r"stream 4294967296 must be from 0 to 4294967295"):
        ops.RandomBits(generator, (3,), 2**32)
    with pytest.raises(GlowError, match=r"shape \[-1\]: a dimension is negative"):
        ops.RandomBits(generator, (-1,))
    with pytest.raises(VerifyError, match="kind is float16; make float32 or float64"):
        ops.RandomUniform(generator, (3,), ElementKind.FLOAT16)
    for low, high in ((1.0, 0.0), (-3e38, 3e38), (math.nan, 1.0)):
        with pytest.raises(VerifyError, match="there is no finite interval of float32 from"):
            ops.RandomUniform(generator, (3,), low=low, high=high)
    with pytest.raises(VerifyError, match=r"mean 0\.0 and scale -1\.0 must be finite"):
        ops.RandomNormal(generator, (3,), scale=-1.0)
    with pytest.raises(VerifyError, match=r"ratio 1\.5 must be from 0 to 1"):
        ops.Dropout(value("float32<3>"), generator, 1.5)
