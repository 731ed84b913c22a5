"""The distance of two results: the measures of tests, experiments and commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from glow_nb.base.types import Array


def distance(expected: Array, found: Array, *, least: float = 0.0) -> float:
    """Return the largest difference over the largest finite number that is expected.

    NaN is equal to NaN and an infinity to itself; where only one has them, or shapes differ, the
    distance is infinite. If nothing but zeros is expected, it is the largest difference itself.

    Args:
        expected: The numbers to be compared with.
        found: The numbers in question.
        least: The least divisor, for a reference with small numbers.
    """
    if expected.shape != found.shape:
        return np.inf
    wide, other = expected.astype(np.float64), found.astype(np.float64)
    odd = ~(np.isfinite(wide) & np.isfinite(other))
    if not np.array_equal(wide[odd], other[odd], equal_nan=True):
        return np.inf
    difference = float(np.abs(wide[~odd] - other[~odd]).max(initial=0.0))
    largest = max(least, float(np.abs(wide[~odd]).max(initial=0.0)))
    return difference / largest if largest else difference


def differences_of(expected: Array, found: Array) -> Array:
    """Return how far each number *found* is from the one *expected*, both float64.

    NaN is equal to NaN and an infinity to itself; where only one has them, it is infinity.
    """
    is_same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    with np.errstate(over="ignore"):
        differences = np.abs(np.subtract(found, expected, where=~is_same, out=np.zeros_like(found)))
    return np.where(np.isnan(differences), np.inf, differences)


def decibels(expected: Array, found: Array) -> float:
    """Return :func:`signal_to_noise` of what is *found*, instead of what is *expected*."""
    wide = expected.astype(np.float64)
    noise = differences_of(wide, found.astype(np.float64))
    return signal_to_noise(energy(wide[np.isfinite(wide)]), energy(noise))


def energy(numbers: Array) -> float:
    """Return the sum of the squares of *numbers*, float64; infinite if it overflows."""
    with np.errstate(over="ignore"):
        return float(np.sum(np.square(numbers)))


def signal_to_noise(signal: float, noise: float) -> float:
    """Return the ratio of two energies, sums of squares, in decibels: infinite without noise."""
    if not noise:
        return np.inf
    if not signal or np.isinf(noise):
        return -np.inf
    return 10 * (float(np.log10(signal)) - float(np.log10(noise)))


def largest_distance(expected: Iterable[Array], found: Iterable[Array]) -> float:
    """Return the largest :func:`distance` among pairs of arrays; infinite if some have no match."""
    pairs, others = list(expected), list(found)
    if len(pairs) != len(others):
        return np.inf
    return max(map(distance, pairs, others), default=0.0)


def relative_error(expected: Sequence[Array], found: Sequence[Array]) -> float:
    """Return the root mean square of the errors of *found*, over that of what is *expected*.

    ``sqrt(sum((found - expected) ** 2) / sum(expected ** 2))`` over all arrays together: over those
    of floats, if there are any, since an index may be far from another that is as good. NaN is
    equal to NaN and an infinity to itself. Where only one has them, or shapes or the numbers of
    arrays differ, the error is infinite; so is any where nothing but zeros is expected.
    """
    if [array.shape for array in expected] != [array.shape for array in found]:
        return np.inf
    pairs = list(zip(expected, found, strict=True))
    pairs = [pair for pair in pairs if pair[0].dtype.kind not in "biu"] or pairs
    signal = noise = 0.0
    for some, others in pairs:
        wide = some.astype(np.float64)
        signal += energy(wide[np.isfinite(wide)])
        noise += energy(differences_of(wide, others.astype(np.float64)))
    if not noise:
        return 0.0
    return float(np.sqrt(noise / signal)) if signal else np.inf
