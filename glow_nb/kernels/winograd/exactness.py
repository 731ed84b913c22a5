"""For which weights a convolution of bytes is exact in Winograd's form.

Three things must fit:

- transformed inputs into 16 bits, which those of bytes always do: with tiles of four outputs of
  three taps the largest is 17340 in magnitude;
- transformed weights into 16 bits: 144 times the largest weight of such tiles, if not less;
- results, before they are divided, into 32 bits
  (:class:`glow_nb.numerics.cook_toom.WholeDivision`). What intermediate sums are does not matter,
  since they wrap around.

Results of two outputs a tile in both dimensions may have 30 bits, which those of 1827 channels with
the largest bytes never exceed; with four outputs they may have 26 bits, which is enough for 114
channels of the largest bytes. Weights of trained networks are far smaller on average. With unsigned
inputs, the sum of the positive weights of an output, and that of the negative ones, may be as large
as 131586.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.operators.winograd import WHOLE_FACTORS
from glow_nb.numerics.cook_toom import WholeDivision, scale_of, short_convolution

Tile = tuple[int, ...]


def exact_tiles(weights: Array, kind: ElementKind, tiles: Iterable[Tile]) -> Iterator[Tile]:
    """Yield those of *tiles* that are exact for a filter and every input of a byte *kind*.

    Args:
        weights: Integers ``[K, *kernel, C / group]``, of 16 bits with a sign at most.
        kind: Element kind of the input.
        tiles: Outputs of a tile in each dimension.
    """
    least, greatest = result_bounds(weights, kind)
    for tile in tiles:
        limit = WholeDivision.by(scale_of(tile, weights.shape[1:-1])).limit
        if -limit <= least and greatest < limit and _fits(weights, tile):
            yield tile


def result_bounds(weights: Array, kind: ElementKind) -> tuple[int, int]:
    """Return the least and the greatest result that any input of *kind* may have, and 0."""
    axes = tuple(range(1, weights.ndim))
    positive = np.maximum(weights, 0).sum(axis=axes, dtype=np.int64)
    negative = weights.sum(axis=axes, dtype=np.int64) - positive
    low, high = kind.limits
    least, greatest = low * positive + high * negative, high * positive + low * negative
    return int(least.min(initial=0)), int(greatest.max(initial=0))


def _fits(weights: Array, tile: Tile) -> bool:
    """Return whether the transformed weights fit, by their largest or by all of them."""
    matrices = [
        short_convolution(m, r, whole=True).filter
        for m, r in zip(tile, weights.shape[1:-1], strict=True)
    ]
    growth = np.prod([np.abs(matrix).sum(axis=1).max() for matrix in matrices])
    largest = max(int(weights.max(initial=0)), -int(weights.min(initial=0)))
    low, high = WHOLE_FACTORS.limits
    if growth * largest <= high:
        return True
    made = weights.astype(np.float64)
    for matrix in matrices:  # each takes the axis after the outputs and puts it last
        made = np.tensordot(made, matrix, axes=(1, 1))
    return bool(low <= made.min() and made.max() <= high)
