"""Strassen's form of matrix products, which a backend with SIMD selects:
:mod:`glow_nb.numerics.strassen`.

Neighbouring rows of the left matrix, 2 i and 2 i + 1, are rows i of its blocks;
column j of the right one, and of the result, meets column ``j + N / 2``.
"""

from __future__ import annotations

from math import prod

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import fitted, require_kind, widest
from glow_nb.hlir.ops.matrix import matrix_product_cost
from glow_nb.kernels.operators.panels import panels_of
from glow_nb.kernels.operators.strassen_weights import COMPUTED_FLOATS
from glow_nb.numerics.strassen import (
    LARGEST_SCALE,
    LEFT,
    PRODUCTS,
    SIDE,
    SUMS,
    blocks_of,
    recovered,
    scales,
    whole_of,
)


@define_node("strassen_mat_mul")
class StrassenMatMul(Node):
    """Multiply rows by a matrix that is prepared for it, and add a bias.

    ``lhs`` is ``[..., K]``, ``rhs`` ``[panels, 7, K / 2, block]`` from
    :class:`StrassenWeights`, ``scales`` ``[2 * panels * block]`` from :class:`StrassenScales`,
    and ``bias`` like these, each part of it padded with zeros, or absent. The result is
    ``[..., depth]``. Where rows are missing to meet the last ones, the last one stands for them.

    A result that is not finite so is the sum of all products of its own row and column, so that NaN
    and infinity do not spread to others, and nothing overflows that would not do so otherwise. The
    weights of this sum are recovered from the sums of blocks: one that is 2^21 times smaller than
    the largest of its sums counts as zero. Rows whose sizes differ by too much are done so, too.

    ``evaluate`` computes just that, in ``float64``, with the weights as they are.

    Attributes:
        depth: Columns of the result.
        block: Columns in a panel.
    """

    lhs: Value
    rhs: Value
    scales: Value
    bias: Value | None
    depth: int
    block: int

    @override
    def infer_type(self) -> TensorType:
        lhs = self.lhs.type
        require_kind(self, "lhs", lhs, COMPUTED_FLOATS)
        self.require(lhs.rank >= 1, f"'lhs' must have rows, got {lhs}")
        self.require(self.block > 0, f"block is {self.block}, but must be positive")
        inner = lhs.shape[-1]
        self.require(self.depth >= 0, f"depth is {self.depth}, but must not be negative")
        self.require(
            inner % SIDE == 0 and self.depth % SIDE == 0,
            f"'lhs' is {lhs} and depth {self.depth}, but {inner} and {self.depth} must be "
            f"multiples of {SIDE}",
        )
        panels = panels_of(self.depth // SIDE, self.block)
        size = panels * self.block
        wanted = {
            "rhs": (panels, PRODUCTS, inner // SIDE, self.block),
            "scales": (SIDE * size,),
            "bias": (SIDE * size,),
        }
        for name, shape in wanted.items():
            operand = getattr(self, name)
            if operand is not None:
                self._check(name, operand.type, TensorType(lhs.kind, shape))
        return TensorType(lhs.kind, (*lhs.shape[:-1], self.depth))

    def _check(self, name: str, found: TensorType, wanted: TensorType) -> None:
        self.require(
            found == wanted,
            f"'{name}' is {found}, but lhs {self.lhs.type}, depth {self.depth}, and block "
            f"{self.block} need {wanted}",
        )

    @override
    def evaluate(self, lhs: Array, rhs: Array, scales: Array, bias: Array | None) -> Array:
        depth, inner = self.depth // SIDE, lhs.shape[-1]
        panels, *sizes, block = rhs.shape
        plain = widest(rhs).transpose(1, 2, 0, 3).reshape(*sizes, panels * block)
        weights = plain[..., :depth]
        columns = self._whole_row(scales)
        left = widest(lhs).reshape(prod(lhs.shape[:-1]), inner)
        with np.errstate(all="ignore"):
            result = _product(left, weights) * columns
            is_right = np.isfinite(result)
            if not is_right.all():
                direct = whole_of(recovered(weights)) * columns
                result = np.where(is_right, result, left @ direct)
            if bias is not None:
                result = result + self._whole_row(bias)
        return fitted(result, self.type)

    def _whole_row(self, padded: Array) -> Array:
        """Return a row of the result of parts that are *padded*."""
        parts = widest(padded).reshape(SIDE, padded.size // SIDE)
        row: Array = parts[:, : self.depth // SIDE].reshape(self.depth)
        return row

    @override
    def cost(self) -> Cost:
        has_bias = self.bias is not None
        return matrix_product_cost(self, self.lhs.type.shape[-1], has_bias=has_bias)

    @override
    def executed_cost(self) -> Cost:
        """Count the products of blocks, and for every sign of a sum one addition."""
        inner, depth = self.lhs.type.shape[-1] // SIDE, self.depth // SIDE
        tiles = -(-prod(self.type.shape[:-1]) // SIDE)
        additions = int(np.count_nonzero(LEFT) * inner + np.count_nonzero(SUMS) * depth)
        products = PRODUCTS * tiles * inner * depth
        return Cost(products, tiles * additions + self.type.size)


def _product(left: Array, weights: Array) -> Array:
    """Return the product of rows by *weights* ``[7, K / 2, N / 2]`` in ``float64``."""
    rows, inner = left.shape
    missing = -rows % SIDE
    last = left[rows - 1 :].repeat(missing, axis=0)
    tiles = np.concatenate([left, last]).reshape((rows + missing) // SIDE, SIDE, inner)
    tiles = tiles.swapaxes(0, 1)
    factors, back = scales(np.abs(tiles).max(axis=2, initial=0))
    factors = np.where(factors <= LARGEST_SCALE, factors, np.nan)
    scaled = tiles * factors[..., np.newaxis]
    blocks = blocks_of(scaled.reshape(rows + missing, inner))
    products = np.tensordot(LEFT, blocks, axes=1) @ weights
    made = whole_of(np.tensordot(SUMS, products, axes=1))
    depth = made.shape[1]
    made = made.reshape(SIDE, (rows + missing) // SIDE, depth) * back[..., np.newaxis]
    result: Array = made.swapaxes(0, 1).reshape(rows + missing, depth)
    return result[:rows]
