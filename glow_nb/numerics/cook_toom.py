"""Winograd's short convolutions, made from the points at which polynomials are compared.

``m`` neighbouring outputs of a convolution with ``r`` taps are ``y = A ((G g) * (B d))``: ``g`` the
taps, ``d`` the ``n = m + r - 1`` inputs, ``*`` element by element. So they take ``n`` products in
place of ``m r``. In two dimensions ``Y = A ((G g G^T) * (B d B^T)) A^T``.

**Strides.** With stride s, outputs read inputs s apart. Taps p, p + s, p + 2 s, ... meet inputs p,
p + s, ... alone, for each of the s *phases* p: so y is the sum of s short convolutions with stride
1. Their matrices B and G stand one below the other, their matrices A side by side. Together they
have ``n = (m - 1) s + r`` inputs and as many products. Three taps with stride 2 are two taps and
one: ``2 m + 1`` products instead of ``3 m``.

The construction is Toom's and Cook's: a polynomial product is known from its values at ``n - 1``
points and its highest coefficient, and a convolution is the transpose of that product. With points
``p_j`` and ``N_j`` the product of all ``p_j - p_k``, ``k != j``,

- row j of ``G`` is ``(1, p_j, p_j^2, ...) / N_j``,
- column j of ``A`` is ``(1, p_j, p_j^2, ...)``,
- row j of ``B`` holds the coefficients of the product of all ``x - p_k``, ``k != j``,

and the highest coefficient adds the last row of each (Lavin and Gray, arXiv 1509.09308; Barabasz
and others, arXiv 1803.10986, on the choice of points).

``G`` has more rows than columns, so that the taps can be had back: ``g = L (G g)``. The first tap
and the last are exact: they stand alone, at point 0 but for a sign and a power of two, and in the
highest coefficient.

**Integers.** With whole points, B and A are whole, and so is ``G`` times the least common multiple
``q`` of all ``N_j``. Then ``A ((q G g) * (B d)) = q y``, exactly, whatever the sums in between
are: they may wrap around in 32 bits. An odd factor of q has an inverse modulo ``2^32``. Only its
power of two, ``2^b``, must be shifted out, and takes b bits from what y may be: y is exact if
``-2^(31 - b) <= y < 2^(31 - b)``. In each dimension that is 1 bit for two outputs of three taps, 3
bits for four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import lcm, prod, sqrt

import numpy as np
from numpy.polynomial import polynomial

from glow_nb.base.types import Array, ElementKind

POINTS = {
    3: (1.0,),
    4: (1.0, -1.0),
    5: (1.0, -1.0, 0.5),
    6: (sqrt(0.5), -sqrt(0.5), sqrt(2.0), -sqrt(2.0)),
    8: (0.5, -0.5, 1.0, -1.0, 2.0, -2.0),
}
"""For each number of inputs n, the points besides 0, in pairs of opposite ones as far as they go.
With the roots of 1/2 and of 2, rounding errors are half of those with 1 and 2 (ncnn's choice).
Products of all points of one n are powers of two, so that the first tap can be had back exactly."""

WHOLE_POINTS = {4: (1.0, -1.0), 6: (1.0, -1.0, 2.0, -2.0)}
"""Likewise of integers. What more inputs would take grows beyond 16 bits."""

WORD_BITS = 32
"""Bits of the integers in which products are summed up."""

DIGITS = 14
"""Decimals to round to, so that what is a whole number, or zero, is exactly that."""


@dataclass(frozen=True)
class ShortConvolution:
    """The matrices for *outputs* outputs of *taps* taps, in ``float64``.

    Attributes:
        outputs: m.
        taps: r.
        input: B, ``[n, n]``.
        filter: G, ``[n, r]``.
        output: A, ``[m, n]``.
        recovery: L, ``[r, n]``, for which ``L G`` is the identity.
        scale: q, how many times the outputs they make; 1 but for integers.
        stride: s.
    """

    outputs: int
    taps: int
    input: Array
    filter: Array
    output: Array
    recovery: Array
    scale: int = 1
    stride: int = 1

    @property
    def size(self) -> int:
        """Inputs, and products: n."""
        return inputs_of(self.outputs, self.taps, self.stride)

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The rows of B and G that belong together: :func:`row_pairs` of each phase."""
        if self.stride == 1 or self.outputs == 1:
            return row_pairs(self.size)
        groups: list[tuple[int, ...]] = []
        for taps in phases(self.taps, self.stride):
            first, size = sum(map(len, groups)), inputs_of(self.outputs, taps)
            pairs = [(row,) for row in range(size)] if taps == 1 else row_pairs(size)
            groups += [tuple(first + row for row in rows) for rows in pairs]
        return groups

    @property
    def recovery_growth(self) -> float:
        """The most by which L enlarges rounding errors of ``G g``, over the largest tap of g."""
        return float((np.abs(self.recovery) @ np.abs(self.filter)).sum(axis=1).max())


def row_pairs(size: int) -> list[tuple[int, ...]]:
    """Return the rows of B and G that belong together: 0 and the highest, and opposite points.

    Opposite points have the same even and the same odd part, but for its sign: in G and A, and in B
    unless one point is left alone. A single output has identities, which have as many rows as there
    are taps.
    """
    ends = (0, size - 1) if size > 1 else (0,)
    return [ends, *(tuple(range(row, min(row + 2, size - 1))) for row in range(1, size - 1, 2))]


def inputs_of(outputs: int, taps: int, stride: int = 1) -> int:
    """Return the inputs that this number of neighbouring outputs read: n."""
    return (outputs - 1) * stride + taps


def phases(taps: int, stride: int) -> list[int]:
    """Return how many taps each phase has."""
    return [len(range(phase, taps, stride)) for phase in range(stride)]


def is_known(outputs: int, taps: int, stride: int = 1, *, whole: bool = False) -> bool:
    """Return whether there are points, *whole* ones or any, for this number of inputs.

    Where there are more outputs, a stride must leave a tap to each phase, and 1 to integers.
    """
    if taps < 1 or outputs < 1 or stride < 1:
        return False
    if outputs == 1:
        return True
    if stride > taps:
        return False
    if stride > 1:
        counts = phases(taps, stride)
        return not whole and all(count == 1 or is_known(outputs, count) for count in counts)
    return inputs_of(outputs, taps) in (WHOLE_POINTS if whole else POINTS)


@cache
def short_convolution(
    outputs: int, taps: int, stride: int = 1, *, whole: bool = False
) -> ShortConvolution:
    """Return the matrices, of integers if *whole*, of what :func:`is_known`.

    One output is the sum of its products, as many as there are taps.
    """
    if outputs == 1:
        unchanged, ones = np.eye(taps), np.ones((1, taps))
        matrices = unchanged, unchanged, ones, unchanged
        return ShortConvolution(outputs, taps, *matrices, stride=stride)
    if stride > 1:
        return _joined_phases(outputs, taps, stride)
    size = inputs_of(outputs, taps)
    points = [0.0, *(WHOLE_POINTS if whole else POINTS)[size]]
    output, filter = (np.vander(points, count, increasing=True) for count in (outputs, taps))
    input = np.zeros((size, size))
    scale = 1
    for j, point in enumerate(points):
        others = points[:j] + points[j + 1 :]
        divisor = prod(point - other for other in others)
        filter[j] /= divisor
        input[j, :-1] = polynomial.polyfromroots(others)
        scale = lcm(scale, round(divisor)) if whole else 1
    input[-1] = polynomial.polyfromroots(points)
    filter = scale * np.vstack([filter, np.eye(taps)[-1]])
    output = np.hstack([output.T, np.eye(outputs)[:, -1:]])
    while filter[-1, -1] > np.abs(filter[:-1]).sum(axis=1).max():  # so that filters grow least
        filter[-1] /= 2
        output[:, -1] *= 2
    return ShortConvolution(
        outputs,
        taps,
        np.round(input, DIGITS),
        np.round(filter, DIGITS),
        np.round(output, DIGITS),
        np.round(_left_inverse(filter), DIGITS),
        scale,
    )


def _joined_phases(outputs: int, taps: int, stride: int) -> ShortConvolution:
    """Return the matrices of a strided convolution: those of its phases, one below the other."""
    size = inputs_of(outputs, taps, stride)
    input, filter = np.zeros((size, size)), np.zeros((size, taps))
    output, recovery = np.zeros((outputs, size)), np.zeros((taps, size))
    begin = 0
    for phase, count in enumerate(phases(taps, stride)):
        part = _one_tap(outputs) if count == 1 else short_convolution(outputs, count)
        rows = slice(begin, begin + part.size)
        input[rows, phase::stride] = part.input
        filter[rows, phase::stride] = part.filter
        output[:, rows] = part.output
        recovery[phase::stride, rows] = part.recovery
        begin += part.size
    return ShortConvolution(outputs, taps, input, filter, output, recovery, stride=stride)


def _one_tap(outputs: int) -> ShortConvolution:
    """Return a phase of one tap: each output is a product."""
    unchanged = np.eye(outputs)
    return ShortConvolution(outputs, 1, unchanged, np.ones((outputs, 1)), unchanged, unchanged[:1])


@dataclass(frozen=True)
class WholeDivision:
    """How 32-bit integers that wrap around are divided by what divides them.

    The quotient of x is ``(x * inverse) >> bits``.
    """

    inverse: int
    bits: int

    @classmethod
    def by(cls, divisor: int) -> WholeDivision:
        """Return that by *divisor*, which is positive."""
        bits = (divisor & -divisor).bit_length() - 1
        half = 1 << (WORD_BITS - 1)
        inverse = (pow(divisor >> bits, -1, 2 * half) + half) % (2 * half) - half
        return cls(inverse, bits)

    @property
    def limit(self) -> int:
        """Quotients are exact from ``-limit`` on to below ``limit``."""
        return 1 << (WORD_BITS - 1 - self.bits)

    def __call__(self, numbers: Array) -> Array:
        """Return the quotients of *numbers* of int64, as int64."""
        product: Array = numbers.astype(np.int32).astype(np.int64) * self.inverse
        return product.astype(np.int32).astype(np.int64) >> self.bits


def scale_of(tile: Sequence[int], kernel: Sequence[int]) -> int:
    """Return how many times the outputs of a *tile* the matrices of integers make."""
    return prod(
        short_convolution(m, r, whole=True).scale for m, r in zip(tile, kernel, strict=True)
    )


def tap_noise(transforms: Sequence[ShortConvolution], kind: ElementKind) -> float:
    """Return what rounding errors of taps that were recovered stay below, over the largest tap.

    Both the filter that *transforms* have made, in each dimension, and what is recovered are
    rounded to *kind*.
    """
    growths = (each.recovery_growth for each in transforms)
    return prod(growths) * float(np.finfo(kind.dtype).eps)


def _left_inverse(filter: Array) -> Array:
    """Return L: the outer taps from the rows that hold one tap alone, the inner ones from the rest.

    Of the rest, which may be more than needed, L takes the solution of least squares.
    """
    inverse: Array = np.zeros(filter.shape[::-1])
    inverse[-1, -1] = 1 / filter[-1, -1]
    inverse[0] = np.eye(len(filter))[0] / filter[0, 0]
    inner = np.linalg.pinv(filter[1:-1, 1:-1])
    inverse[1:-1] = -inner @ filter[1:-1, [0, -1]] @ inverse[[0, -1]]
    inverse[1:-1, 1:-1] += inner
    return inverse
