"""Methods that choose the range of a value from its histogram.

Rare numbers may be clipped: they become the nearest end of the range, and all others are rounded
less. Each method takes a histogram and returns an :class:`Encoding`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Literal

import numpy as np

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.schema import closest
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.histogram import Histogram
from glow_nb.quant.schemas import Encoding, Schema

CANDIDATES = 64
"""The number of candidates between an end of a range and 0, in each step of the search."""

SMOOTHING = 1e-4
"""The share of the rounded numbers that is spread over all bins."""

Encode = Callable[[float, float], Encoding]
"""A schema for one kind."""

Method = Callable[[Histogram, ElementKind, Schema], Encoding]
"""Chooses the encoding of numbers by their histogram."""


def minmax(histogram: Histogram, kind: ElementKind, schema: Schema) -> Encoding:
    """Take the range of all numbers that have occurred."""
    return schema(*_ends(histogram), kind)


@dataclass(frozen=True)
class Percentile:
    """Clip equal shares of the least and of the greatest numbers.

    Attributes:
        kept: Percent of the numbers that are kept.
    """

    kept: float = 99.99

    def __post_init__(self) -> None:
        is_number = isinstance(self.kept, Real) and not isinstance(self.kept, bool)
        if not (is_number and 0 < self.kept <= 100):
            raise OptionError(
                f"Percentile({described(self.kept)}): give percent above 0, at most 100"
            )

    def __call__(self, histogram: Histogram, kind: ElementKind, schema: Schema) -> Encoding:
        """Return the encoding of the numbers that are kept."""
        if not histogram.total:
            return minmax(histogram, kind, schema)
        cut = (1 - self.kept / 100) / 2
        return schema(histogram.quantile(cut), histogram.quantile(1 - cut), kind)


def mse(histogram: Histogram, kind: ElementKind, schema: Schema) -> Encoding:
    """Minimize the mean squared error of rounding and clipping."""
    numbers, counts = _occurring(histogram)
    return _searched(histogram, partial(_encode, schema, kind), _SquareError(numbers, counts))


def entropy(histogram: Histogram, kind: ElementKind, schema: Schema) -> Encoding:
    """Minimize the loss of information (Kullback-Leibler divergence).

    Two distributions are compared: that of the clipped numbers, and that of the quantized numbers,
    in which the count of each integer is spread over its bins. There should be several bins for
    each integer; with fewer bins than integers the divergence has no meaning, and all numbers are
    kept. Zeros are not counted, since 0 is represented exactly.
    """
    if not histogram.total or histogram.bins < 2**kind.bits:
        return minmax(histogram, kind, schema)
    return _searched(histogram, partial(_encode, schema, kind), _Divergence(histogram))


def _encode(schema: Schema, kind: ElementKind, low: float, high: float) -> Encoding:
    return schema(low, high, kind)


def _ends(histogram: Histogram) -> tuple[float, float]:
    """Return the range of the numbers and 0."""
    return min(histogram.minimum, 0.0), max(histogram.maximum, 0.0)


def _occurring(histogram: Histogram) -> tuple[Array, Array]:
    chosen = histogram.counts > 0
    return histogram.centers[chosen], histogram.counts[chosen]


class _SquareError:
    """The sum of squares of what an encoding changes, each bin's numbers being in its middle."""

    def __init__(self, numbers: Array, counts: Array) -> None:
        self._numbers, self._counts = numbers, counts

    def __call__(self, encoding: Encoding) -> float:
        changes = encoding.rounded(self._numbers) - self._numbers
        return float(np.dot(self._counts, changes * changes))


class _Divergence:
    """How much of the distribution an encoding does not show."""

    def __init__(self, histogram: Histogram) -> None:
        counts = histogram.counts.astype(np.float64)
        zero = int(np.clip(-(histogram.minimum // histogram.width), 0, histogram.bins - 1))
        beside = counts[max(zero - 1, 0) : zero + 2 : 2] if zero else counts[1:2]
        counts[zero] = min(counts[zero], beside.max())
        used = np.flatnonzero(counts)
        span = slice(used[0], used[-1] + 1) if used.size else slice(0, 1)
        self._numbers, self._counts = histogram.centers[span], counts[span]

    def __call__(self, encoding: Encoding) -> float:
        half = encoding.scale / 2
        first = np.searchsorted(self._numbers, encoding.lowest - half)
        last = np.searchsorted(self._numbers, encoding.highest + half, side="right")
        inside = self._counts[first:last]
        if not inside.any():
            return np.inf
        whole = inside.copy()
        whole[0] += self._counts[:first].sum()
        whole[-1] += self._counts[last:].sum()
        levels = encoding.stored(self._numbers[first:last]).astype(np.int64)
        levels -= levels[0]
        occurring = inside > 0
        shares = np.bincount(levels, inside) / np.maximum(np.bincount(levels, occurring), 1)
        spread = np.where(occurring, shares[levels], 0.0)
        spread = (1 - SMOOTHING) * spread / spread.sum() + SMOOTHING / len(spread)
        whole /= whole.sum()
        seen = whole > 0
        return float(np.dot(whole[seen], np.log(whole[seen] / spread[seen])))


Measure = Callable[[Encoding], float]
"""The loss of an encoding."""


def _searched(histogram: Histogram, encode: Encode, measure: Measure) -> Encoding:
    """Return the best encoding found; never a worse one than that of all numbers.

    Each end is moved towards 0 while the other one stays, and then both together.
    """
    low, high = _ends(histogram)
    best = encode(low, high)
    if not histogram.total:
        return best
    loss = measure(best)
    shares = 1 - np.arange(CANDIDATES) / CANDIDATES
    for moves_low, moves_high in ((True, True), (True, False), (False, True), (True, True)):
        begin = low, high
        for share in shares:
            ends = begin[0] * (share if moves_low else 1), begin[1] * (share if moves_high else 1)
            tried = encode(*ends)
            found = measure(tried)
            if found < loss:
                best, loss, (low, high) = tried, found, ends
    return best


MethodName = Literal["minmax", "percentile", "mse", "entropy"]

METHODS: Mapping[str, Method] = {
    "minmax": minmax,
    "percentile": Percentile(),
    "mse": mse,
    "entropy": entropy,
}


def method_named(method: str | Method) -> Method:
    """Return the method called *method*, or a function that is one.

    Raises:
        OptionError: There is none.
    """
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]
    if callable(method):
        return method
    raise OptionError(
        f"method={described(method)}{closest(str(method), METHODS)}; choose one of "
        f"{list(METHODS)}, or give a function (histogram, kind, schema) -> Encoding"
    )


def chosen(method: Method, histogram: Histogram, kind: ElementKind, schema: Schema) -> Encoding:
    """Return the encoding that *method*, which may be a user's, chooses; raise OptionError if it is
    invalid.
    """
    with foreign(OptionError, f"method {name_of(method)!r}"):
        found = method(histogram, kind, schema)
    if not isinstance(found, Encoding):
        raise OptionError(
            f"method {name_of(method)!r} returned {described(found)}, not an Encoding"
        )
    return found
