"""Strassen's form of matrix products, which a backend with SIMD selects: :mod:`glow_nb.strassen`.

Neighbouring rows of the left matrix, 2 i and 2 i + 1, are rows i of its blocks; column j of the
right one, and of the result, meets column ``j + N / 2``.
"""

from __future__ import annotations

from math import prod

import numpy as np
from typing_extensions import override

from glow_nb.costs import Cost
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops import (
    Abs,
    Add,
    And,
    BitCast,
    BitwiseAnd,
    Clip,
    Concat,
    Div,
    Equal,
    Less,
    Mul,
    Pad,
    ReduceMax,
    Reshape,
    Select,
    Slice,
    Sub,
    Transpose,
)
from glow_nb.hlir.ops.families import fitted, require_kind, widest
from glow_nb.hlir.recipe import WeightTransform
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers
from glow_nb.kernels.operators.panels import pad_end, panels_of
from glow_nb.strassen import (
    BLOCK_PRODUCTS,
    BLOCKS,
    EXPONENT_BITS,
    LARGEST_COLUMN_SCALE,
    LARGEST_SCALE,
    LEAST_SCALE,
    LEFT,
    RECOVERY,
    RIGHT,
    SIDE,
    SUMS,
    blocks_of,
    scales,
    terms,
)
from glow_nb.types import Array, ElementKind, TensorType

COMPUTED_FLOATS = frozenset({ElementKind.FLOAT32})
"""Kinds that are multiplied so: smaller ones lose too many digits."""


class StrassenConstant(WeightTransform):
    """Base of what is made of a matrix ``[K, N]`` for :class:`StrassenMatMul`."""

    matrix: Value
    block: int

    def check(self) -> int:
        """Check the matrix, and return the panels of *block* columns of half of its columns."""
        matrix = self.matrix.type
        require_kind(self, "matrix", matrix, COMPUTED_FLOATS)
        self.require(
            matrix.rank == 2 and not any(size % SIDE for size in matrix.shape),
            f"'matrix' is {matrix}, but must have two dimensions, both even",
        )
        self.require(self.block > 0, f"block is {self.block}, but must be positive")
        return panels_of(matrix.shape[1] // SIDE, self.block)

    @override
    def evaluate(self, matrix: Array) -> Array:
        result = np.empty(self.type.shape, self.type.kind.dtype)
        self.transform(matrix, result)
        return result

    @override
    def cost(self) -> Cost:
        return Cost(others=self.matrix.type.size)


@define_node("strassen_scales")
class StrassenScales(StrassenConstant):
    """Find what the columns of a result are multiplied by at the end.

    The result is ``[2 * panels * block]`` with ``panels = ceil(N / 2 / block)``, each half of it
    padded with ones: powers of two, and zeros for columns of zeros.
    """

    matrix: Value
    block: int

    @override
    def infer_type(self) -> TensorType:
        return TensorType(self.matrix.type.kind, (SIDE * self.check() * self.block,))

    @override
    def transform(self, weight: Array, result: Array) -> None:
        _, back = column_scales(weight)
        result[...] = 1
        result.reshape(SIDE, -1)[:, : back.shape[1]] = back


@define_node("strassen_weights")
class StrassenWeights(StrassenConstant):
    """Add up the blocks of a matrix for each product, and lay the sums out in panels.

    The right half of the columns is scaled before. The result is ``[panels, 7, K / 2, block]``,
    where ``panels = ceil(N / 2 / block)``; the last panel is padded with zeros.

    Attributes:
        block: Columns in a panel.
    """

    matrix: Value
    block: int

    @override
    def infer_type(self) -> TensorType:
        panels = self.check()
        inner = self.matrix.type.shape[0] // SIDE
        return TensorType(self.matrix.type.kind, (panels, BLOCK_PRODUCTS, inner, self.block))

    @override
    def transform(self, weight: Array, result: Array) -> None:
        panels, _, inner, block = result.shape
        depth = weight.shape[1] // SIDE
        blocks = list(blocks_of(weight))
        factors = column_scales(weight)[0].astype(weight.dtype)  # powers of two
        with np.errstate(all="ignore"):
            blocks[1], blocks[3] = blocks[1] * factors, blocks[3] * factors
            padded = np.zeros((inner, panels * block), weight.dtype)
            for number, signs in enumerate(RIGHT):
                (first, _), *others = terms(signs)
                padded[:, :depth] = blocks[first]
                for block_number, is_subtracted in others:
                    combine = np.subtract if is_subtracted else np.add
                    combine(padded[:, :depth], blocks[block_number], out=padded[:, :depth])
                result[:, number] = padded.reshape(inner, panels, block).swapaxes(0, 1)


@define_node("strassen_mat_mul")
class StrassenMatMul(Node):
    """Multiply rows by a matrix that is prepared for it, and add a bias.

    ``lhs`` is ``[..., K]``, ``rhs`` ``[panels, 7, K / 2, block]`` from :class:`StrassenWeights`,
    ``scales`` ``[2 * panels * block]`` from :class:`StrassenScales`, and ``bias`` like these, each
    half of it padded with zeros, or absent. The result is
    ``[..., depth]``. If the number of rows is odd, the last one is its own partner.

    A result that is not finite so is the sum of all products of its own row and column, so that NaN
    and infinity do not spread to others, and nothing overflows that would not do so otherwise. The
    weights of this sum are recovered from the sums of blocks: one that is 2^25 times smaller than
    the other of its sum may count as zero. Rows whose sizes differ by too much are done so, too.

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
            f"'lhs' is {lhs} and depth {self.depth}, but {inner} and {self.depth} must be even",
        )
        panels = panels_of(self.depth // SIDE, self.block)
        size = panels * self.block
        wanted = {
            "rhs": (panels, BLOCK_PRODUCTS, inner // SIDE, self.block),
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
            f"'{name}' is {found}, but lhs {self.lhs.type}, depth {self.depth} and block "
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
                recovered = _whole(np.tensordot(RECOVERY, weights, axes=1)) * columns
                result = np.where(is_right, result, left @ recovered)
            if bias is not None:
                result = result + self._whole_row(bias)
        return fitted(result, self.type)

    def _whole_row(self, padded: Array) -> Array:
        """Return a row of the result of two halves that are *padded*."""
        row: Array = widest(padded).reshape(SIDE, -1)[:, : self.depth // SIDE].reshape(-1)
        return row

    @override
    def cost(self) -> Cost:
        bias = 0 if self.bias is None else self.type.size
        return Cost(self.type.size * self.lhs.type.shape[-1], bias)

    @override
    def executed_cost(self) -> Cost:
        """Count the products of halves, and for every sign in a matrix one addition."""
        inner = self.lhs.type.shape[-1] // SIDE
        pairs, depth = -(-prod(self.type.shape[:-1]) // SIDE), self.depth // SIDE
        additions = np.count_nonzero(LEFT) * inner + np.count_nonzero(SUMS) * depth
        products = BLOCK_PRODUCTS * pairs * inner * depth
        return Cost(products, pairs * int(additions) + self.type.size)


def column_sizes(matrix: Array) -> Array:
    """Return how large the largest number of each column of *matrix* is; NaN if one is NaN."""
    sizes: Array = np.maximum(matrix.max(axis=0, initial=0), -matrix.min(axis=0, initial=0))
    return sizes


def column_scales(matrix: Array) -> tuple[Array, Array]:
    """Return what the right half of the columns of *matrix* is multiplied by, and all results."""
    depth, sizes = matrix.shape[1] // SIDE, column_sizes(matrix)
    return scales(sizes[:depth], sizes[depth:], LARGEST_COLUMN_SCALE)


def _product(left: Array, weights: Array) -> Array:
    """Return the product of rows by *weights* ``[7, K / 2, N / 2]``, all in ``float64``."""
    rows, _ = left.shape
    paired = np.concatenate([left, left[rows - rows % SIDE :]])  # a last row is its own partner
    first, second = paired[0::SIDE], paired[1::SIDE]
    sizes = (np.abs(each).max(axis=1, initial=0) for each in (first, second))
    factors, back = scales(*sizes)
    is_near = (factors >= LEAST_SCALE) & (factors <= LARGEST_SCALE)
    factors = np.where(is_near, factors, np.nan)
    blocks = blocks_of(np.concatenate([first, second * factors[:, np.newaxis]]))
    products = np.tensordot(LEFT, blocks, axes=1) @ weights
    made = _whole(np.tensordot(SUMS, products, axes=1))
    made = made.reshape(SIDE, len(first), made.shape[1])
    made = made * back[:, :, np.newaxis]
    result: Array = made.swapaxes(0, 1).reshape(paired.shape[0], made.shape[2])
    return result[:rows]


def _whole(blocks: Array) -> Array:
    """Return the matrix of *blocks* ``[4, r, c]``."""
    _, rows, columns = blocks.shape
    placed = blocks.reshape(SIDE, SIDE, rows, columns).swapaxes(1, 2)
    return placed.reshape(SIDE * rows, SIDE * columns)


@lowers(StrassenScales)
def lower_strassen_scales(node: StrassenScales, rewriter: Rewriter) -> Value:
    """Express the scales by the largest numbers of columns."""
    matrix = node.matrix.type
    if not matrix.size:
        return rewriter.constant(node.name, node.evaluate(np.zeros(matrix.shape, np.float32)))
    _, back = _emit_scales(rewriter, node.matrix)
    padding = node.type.size // SIDE - matrix.shape[1] // SIDE
    padded = [rewriter.emit(Pad(each, (0, 0, 0, padding), value=1.0)) for each in back]
    return rewriter.emit(Reshape(rewriter.emit(Concat(tuple(padded), 1)), node.type.shape))


@lowers(StrassenWeights)
def lower_strassen_weights(node: StrassenWeights, rewriter: Rewriter) -> Value:
    """Express the sums by elementwise nodes over the blocks."""
    panels, _, inner, block = node.type.shape
    if not node.type.size:
        return rewriter.constant(node.name, np.zeros(node.type.shape, np.float32))
    scale, _ = _emit_scales(rewriter, node.matrix)
    blocks = [_emit_block(rewriter, node.matrix, *divmod(each, SIDE)) for each in range(BLOCKS)]
    for number in (1, 3):
        blocks[number] = rewriter.emit(Mul(blocks[number], scale))
    made: list[Value] = []
    for signs in RIGHT:
        (first, _), *others = terms(signs)
        total: Value = blocks[first]
        for number, is_subtracted in others:
            total = rewriter.emit((Sub if is_subtracted else Add)(total, blocks[number]))
        made.append(rewriter.emit(Reshape(total, (1, *total.type.shape))))
    padding = panels * block - node.matrix.type.shape[1] // SIDE
    whole = pad_end(rewriter, rewriter.emit(Concat(tuple(made), 0)), 2, padding)
    rows = rewriter.emit(Reshape(whole, (BLOCK_PRODUCTS, inner, panels, block)))
    return rewriter.emit(Transpose(rows, (2, 0, 1, 3)))


def _emit_block(rewriter: Rewriter, matrix: Value, *place: int) -> Value:
    """Emit the block of *matrix* in this row and column of blocks."""
    halves = [size // SIDE for size in matrix.type.shape]
    starts = tuple(number * half for number, half in zip(place, halves, strict=True))
    stops = tuple(start + half for start, half in zip(starts, halves, strict=True))
    return rewriter.emit(Slice(matrix, starts, stops, (1, 1)))


def _emit_scales(rewriter: Rewriter, matrix: Value) -> tuple[Value, list[Value]]:
    """Emit what :func:`column_scales` computes, in rows ``[1, N / 2]``."""

    def number(value: float) -> Value:
        return rewriter.constant("number", np.full((1, 1), value, np.float32))

    bits = rewriter.constant("exponent_bits", np.full((1, 1), EXPONENT_BITS, np.int32))
    sizes = rewriter.emit(ReduceMax(rewriter.emit(Abs(matrix)), (0,), True))
    powers, are_plain, are_zero = [], [], []
    depth = matrix.type.shape[1] // SIDE
    for half in range(SIDE):
        size = rewriter.emit(Slice(sizes, (0, half * depth), (1, (half + 1) * depth), (1, 1)))
        masked = rewriter.emit(BitwiseAnd(rewriter.emit(BitCast(size, ElementKind.INT32)), bits))
        power = rewriter.emit(BitCast(masked, ElementKind.FLOAT32))
        powers.append(power)
        are_zero.append(rewriter.emit(Equal(power, number(0))))
        finite = rewriter.emit(Less(power, number(np.inf)))
        are_plain.append(rewriter.emit(And(finite, rewriter.emit(Less(number(0), power)))))
    limits = 1 / LARGEST_COLUMN_SCALE, LARGEST_COLUMN_SCALE
    ratio = rewriter.emit(Clip(rewriter.emit(Div(*powers)), *limits))
    scale = rewriter.emit(Select(rewriter.emit(And(*are_plain)), ratio, number(1)))
    backs = [number(1), rewriter.emit(Div(number(1), scale))]
    back: list[Value] = [
        rewriter.emit(Select(is_zero, number(0), each))
        for is_zero, each in zip(are_zero, backs, strict=True)
    ]
    return scale, back
