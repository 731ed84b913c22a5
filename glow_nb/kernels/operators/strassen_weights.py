"""What :mod:`glow_nb.kernels.operators.strassen` needs of a matrix: sums of its blocks, scales."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops import (
    Abs,
    Add,
    And,
    BitCast,
    BitwiseAnd,
    Concat,
    Div,
    Equal,
    Less,
    Maximum,
    Minimum,
    Mul,
    Pad,
    ReduceMax,
    Reshape,
    Select,
    Slice,
    Sub,
    Transpose,
)
from glow_nb.hlir.ops.families import require_kind
from glow_nb.hlir.recipe import WeightTransform
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers
from glow_nb.kernels.operators.panels import pad_end, panels_of
from glow_nb.numerics.strassen import (
    EXPONENT_BITS,
    LARGEST_COLUMN_SCALE,
    PRODUCTS,
    RIGHT,
    SIDE,
    block_views,
    scales,
    terms,
)

COMPUTED_FLOATS = frozenset({ElementKind.FLOAT32})
"""Kinds that are multiplied so: smaller ones lose too many digits."""


class StrassenConstant(WeightTransform):
    """Base of what is made of a matrix ``[K, N]`` for :class:`StrassenMatMul`."""

    matrix: Value
    block: int

    def check(self) -> int:
        """Check the matrix, and return the panels of *block* columns of a block of it."""
        matrix = self.matrix.type
        require_kind(self, "matrix", matrix, COMPUTED_FLOATS)
        self.require(
            matrix.rank == 2 and not any(size % SIDE for size in matrix.shape),
            f"'matrix' is {matrix}, but must have two dimensions, both multiples of {SIDE}",
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

    The result is ``[2 * panels * block]`` with ``panels = ceil(N / 2 / block)``, each part of
    it padded with ones: powers of two, and zeros for columns of zeros.
    """

    matrix: Value
    block: int

    @override
    def infer_type(self) -> TensorType:
        columns = self.check() * self.block
        return TensorType(self.matrix.type.kind, (SIDE * columns,))

    @override
    def transform(self, weight: Array, result: Array) -> None:
        _, back = column_scales(weight)
        result[...] = 1
        result.reshape(SIDE, result.size // SIDE)[:, : back.shape[1]] = back


@define_node("strassen_weights")
class StrassenWeights(StrassenConstant):
    """Add up the blocks of a matrix for each product, and lay the sums out in panels.

    Columns are scaled before. The result is ``[panels, 7, K / 2, block]``, where
    ``panels = ceil(N / 2 / block)``; the last panel is padded with zeros.

    Attributes:
        block: Columns in a panel.
    """

    matrix: Value
    block: int

    @override
    def infer_type(self) -> TensorType:
        panels = self.check()
        inner = self.matrix.type.shape[0] // SIDE
        return TensorType(self.matrix.type.kind, (panels, PRODUCTS, inner, self.block))

    @override
    def transform(self, weight: Array, result: Array) -> None:
        panels, _, inner, block = result.shape
        depth = weight.shape[1] // SIDE
        factors, _ = column_scales(weight)
        with np.errstate(all="ignore"):
            scaled = weight * factors.reshape(-1).astype(weight.dtype)  # powers of two
            blocks = block_views(scaled)
            padded = np.zeros((inner, panels * block), weight.dtype)
            for number, signs in enumerate(RIGHT):
                (first, _), *others = terms(signs)
                padded[:, :depth] = blocks[first]
                for block_number, is_subtracted in others:
                    combine = np.subtract if is_subtracted else np.add
                    combine(padded[:, :depth], blocks[block_number], out=padded[:, :depth])
                result[:, number] = padded.reshape(inner, panels, block).swapaxes(0, 1)


def column_sizes(matrix: Array) -> Array:
    """Return how large the largest number of each column of *matrix* is; NaN if one is NaN."""
    sizes: Array = np.maximum(matrix.max(axis=0, initial=0), -matrix.min(axis=0, initial=0))
    return sizes


def column_scales(matrix: Array) -> tuple[Array, Array]:
    """Return what the columns of *matrix* are multiplied by, and results, each ``[2, ...]``."""
    sizes = column_sizes(matrix).reshape(SIDE, matrix.shape[1] // SIDE)
    return scales(sizes, LARGEST_COLUMN_SCALE)


@lowers(StrassenScales)
def lower_strassen_scales(node: StrassenScales, rewriter: Rewriter) -> Value:
    """Express the scales by the largest numbers of columns."""
    matrix = node.matrix.type
    if not matrix.size:
        return rewriter.constant(node.name, node.evaluate(np.zeros(matrix.shape, np.float32)))
    _, back = _emit_scales(rewriter, node.matrix)
    padding = (node.type.size - matrix.shape[1]) // SIDE
    padded = [rewriter.emit(Pad(each, (0, 0, 0, padding), value=1.0)) for each in back]
    return rewriter.emit(Reshape(rewriter.emit(Concat(tuple(padded), 1)), node.type.shape))


@lowers(StrassenWeights)
def lower_strassen_weights(node: StrassenWeights, rewriter: Rewriter) -> Value:
    """Express the sums by elementwise nodes over the blocks."""
    panels, products, inner, block = node.type.shape
    if not node.type.size:
        return rewriter.constant(node.name, np.zeros(node.type.shape, np.float32))
    scale, _ = _emit_scales(rewriter, node.matrix)
    blocks: list[Value] = []
    for row, column in product(range(SIDE), repeat=2):
        emitted = _emit_block(rewriter, node.matrix, row, column)
        blocks.append(rewriter.emit(Mul(emitted, scale[column])))
    made: list[Value] = []
    for signs in RIGHT:
        (first, _), *others = terms(signs)
        total: Value = blocks[first]
        for number, is_subtracted in others:
            total = rewriter.emit((Sub if is_subtracted else Add)(total, blocks[number]))
        made.append(rewriter.emit(Reshape(total, (1, *total.type.shape))))
    padding = panels * block - node.matrix.type.shape[1] // SIDE
    whole = pad_end(rewriter, rewriter.emit(Concat(tuple(made), 0)), 2, padding)
    rows = rewriter.emit(Reshape(whole, (products, inner, panels, block)))
    return rewriter.emit(Transpose(rows, (2, 0, 1, 3)))


def _emit_block(rewriter: Rewriter, matrix: Value, *place: int) -> Value:
    """Emit the block of *matrix* in this row and column of blocks."""
    sizes = [size // SIDE for size in matrix.type.shape]
    starts = tuple(number * size for number, size in zip(place, sizes, strict=True))
    stops = tuple(start + size for start, size in zip(starts, sizes, strict=True))
    return rewriter.emit(Slice(matrix, starts, stops, (1, 1)))


def _emit_scales(rewriter: Rewriter, matrix: Value) -> tuple[list[Value], list[Value]]:
    """Emit what :func:`column_scales` computes, in rows ``[1, N / 2]``."""

    def number(value: float) -> Value:
        return rewriter.constant("number", np.full((1, 1), value, np.float32))

    bits = rewriter.constant("exponent_bits", np.full((1, 1), EXPONENT_BITS, np.int32))
    sizes = rewriter.emit(ReduceMax(rewriter.emit(Abs(matrix)), (0,), True))
    depth = matrix.type.shape[1] // SIDE
    powers: list[Value] = []
    for part in range(SIDE):
        size = rewriter.emit(Slice(sizes, (0, part * depth), (1, (part + 1) * depth), (1, 1)))
        masked = rewriter.emit(BitwiseAnd(rewriter.emit(BitCast(size, ElementKind.INT32)), bits))
        powers.append(rewriter.emit(BitCast(masked, ElementKind.FLOAT32)))
    largest = reduce(lambda one, other: rewriter.emit(Maximum(one, other)), powers)
    is_finite = rewriter.emit(Less(largest, number(np.inf)))
    scale: list[Value] = []
    back: list[Value] = []
    for power in powers:
        is_plain = rewriter.emit(And(rewriter.emit(Less(number(0), power)), is_finite))
        ratio = rewriter.emit(
            Minimum(rewriter.emit(Div(largest, power)), number(LARGEST_COLUMN_SCALE))
        )
        scale.append(rewriter.emit(Select(is_plain, ratio, number(1))))
        is_zero = rewriter.emit(Equal(power, number(0)))
        back.append(
            rewriter.emit(Select(is_zero, number(0), rewriter.emit(Div(number(1), scale[-1]))))
        )
    return scale, back
