"""The product with a constant matrix in floats of 28 bits: :mod:`glow_nb.float28`.

Columns lie in panels of ``block``; a panel holds, for each eight neighbouring rows, seven rows of
words, and behind them the rows that are left over as they are. What has no code is an outlier of
its panel: zero stands in its place, which is ``row * block + column``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from glow_nb.costs import Cost
from glow_nb.float28 import (
    EXPONENTS,
    FRACTION_BITS,
    INFINITE_EXPONENT,
    LARGEST_LEAST,
    LAST_PIECES,
    PIECES,
    SIGN_MASK,
    TOGETHER,
    WORDS,
    are_outliers,
    exponents_of,
    least_exponent,
    packed_words,
    unpacked_words,
    words_of,
)
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops import (
    BitCast,
    BitShift,
    BitwiseAnd,
    BitwiseOr,
    Concat,
    Less,
    Reshape,
    Select,
    Slice,
    Sub,
    Transpose,
)
from glow_nb.hlir.ops.families import fitted, number_beside, require_kind, widest
from glow_nb.hlir.recipe import WeightTransform
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers
from glow_nb.kernels.operators.panels import check_block, pad_end, panels_of
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, OptionalIn, Out, define_instruction
from glow_nb.types import Array, ElementKind, TensorType

FLOAT32, UINT32, INT32 = ElementKind.FLOAT32, ElementKind.UINT32, ElementKind.INT32

STREAMS = 4
"""Panels that a kernel reads at a time, far apart: their number is a multiple of it."""

MOST_BYTES = 1 << 20
"""Of a matrix that is packed at a time, which takes several times its memory."""


LARGEST_PLACE = 2**31 - 1
"""Of an element in its panel, as an int32."""

MOST_COUNTED = 1 << 20
"""About how many numbers of a matrix tell which exponents most of them have."""


def panels_in_streams(depth: int, block: int) -> int:
    """Return the panels of *depth* columns, as many in each stream."""
    return STREAMS * -(-panels_of(depth, block) // STREAMS)


@define_node("float28_words")
class Float28Words(WeightTransform):
    """Pack a matrix ``[K, N]`` into words ``[panels, 7 * (K // 8) + K % 8, block]`` of uint32.

    The last panels are padded. Zeros stand for outliers.

    Attributes:
        block: Columns in a panel.
        least: The biased exponent of the smallest numbers that have a code; those of the largest
            have 15 more.
    """

    matrix: Value
    block: int
    least: int

    @override
    def infer_type(self) -> TensorType:
        matrix = self.matrix.type
        require_kind(self, "matrix", matrix, frozenset({FLOAT32}))
        self.require(matrix.rank == 2, f"'matrix' is {matrix}, but must have two dimensions")
        check_block(self, self.block, 1)
        self.require(
            1 <= self.least <= LARGEST_LEAST,
            f"least is {self.least}, but must be an exponent from 1 to {LARGEST_LEAST}",
        )
        inner, depth = matrix.shape
        panels = panels_in_streams(depth, self.block)
        return TensorType(UINT32, (panels, words_of(inner), self.block))

    @override
    def evaluate(self, matrix: Array) -> Array:
        result = np.empty(self.type.shape, np.uint32)
        self.transform(matrix, result)
        return result

    @override
    def transform(self, weight: Array, result: Array) -> None:
        units = weight.shape[0] // TOGETHER
        whole, words = units * TOGETHER, units * WORDS
        for first, rows in panels_of_matrix(weight, self.block):
            panels = len(rows)
            eights = rows[:, :whole].reshape(panels, units, TOGETHER, self.block)
            packed = packed_words(eights, self.least)
            made = result[first : first + panels]
            made[:, :words] = packed.reshape(panels, words, self.block)
            made[:, words:] = rows[:, whole:].view(np.uint32)
        result[panels_of(weight.shape[1], self.block) :] = 0

    @override
    def cost(self) -> Cost:
        return Cost(others=self.matrix.type.size)


def panels_of_matrix(matrix: Array, block: int) -> Iterator[tuple[int, Array]]:
    """Yield some panels ``[panels, K, block]`` of *matrix* at a time, padded with zeros.

    Before them comes the number of the first one.
    """
    inner, depth = matrix.shape
    together = max(1, MOST_BYTES // max(1, inner * block * FLOAT32.size_bytes))
    for first in range(0, panels_of(depth, block), together):
        columns = matrix[:, first * block : (first + together) * block]
        padding = -columns.shape[1] % block
        if padding:
            columns = np.pad(columns, ((0, 0), (0, padding)))
        rows = columns.reshape(inner, columns.shape[1] // block, block).swapaxes(0, 1)
        yield first, np.ascontiguousarray(rows)


@define_node("float28_mat_mul")
class Float28MatMul(Node):
    """Multiply rows by a matrix in floats of 28 bits, and add a bias.

    ``lhs`` is ``[..., K]`` of float32, ``rhs`` comes from :class:`Float28Words`, whose least
    exponent is ``least``, ``[1]`` of int32. ``places``, of int32, and ``outliers``, of float32, are
    both ``[panels, most]``: each is added to the weight in its place, which is zero. The places of
    a panel ascend; the first that does not, such as -1, or that is not among the rows in eights,
    ends them. ``bias`` is ``[panels * block]``, padded with zeros, or absent. The result is
    ``[..., depth]``.

    Attributes:
        depth: Columns of the result.
        block: Columns in a panel.
    """

    lhs: Value
    rhs: Value
    least: Value
    places: Value
    outliers: Value
    bias: Value | None
    depth: int
    block: int

    @override
    def infer_type(self) -> TensorType:
        lhs, places = self.lhs.type, self.places.type
        require_kind(self, "lhs", lhs, frozenset({FLOAT32}))
        self.require(lhs.rank >= 1, f"'lhs' must have rows, got {lhs}")
        inner = lhs.shape[-1]
        self.require(self.depth >= 0, f"depth is {self.depth}, but must not be negative")
        check_block(self, self.block, 1)
        panels = panels_in_streams(self.depth, self.block)
        most = places.shape[-1] if places.rank else 0
        wanted = {
            "rhs": TensorType(UINT32, (panels, words_of(inner), self.block)),
            "least": TensorType(INT32, (1,)),
            "places": TensorType(INT32, (panels, most)),
            "outliers": TensorType(FLOAT32, (panels, most)),
            "bias": TensorType(FLOAT32, (panels * self.block,)),
        }
        for name, type in wanted.items():
            operand = getattr(self, name)
            self.require(
                operand is None or operand.type == type,
                f"'{name}' is {operand and operand.type}, but lhs {lhs}, depth {self.depth} and "
                f"block {self.block} need {type}",
            )
        return TensorType(FLOAT32, (*lhs.shape[:-1], self.depth))

    @override
    def evaluate(
        self,
        lhs: Array,
        rhs: Array,
        least: Array,
        places: Array,
        outliers: Array,
        bias: Array | None,
    ) -> Array:
        panels, _, block = rhs.shape
        inner = lhs.shape[-1]
        units = inner // TOGETHER
        eights = rhs[:, : units * WORDS].reshape(panels, units, WORDS, block)
        numbers = unpacked_words(eights, int(least[0])).reshape(panels, units * TOGETHER, block)
        rest = rhs[:, units * WORDS :].view(np.float32)
        before = np.pad(places, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
        are_places = (places > before) & (places < units * TOGETHER * block)
        panel, number = np.nonzero(np.logical_and.accumulate(are_places, axis=1))
        row, column = np.divmod(places[panel, number], block)
        weights = np.concatenate([numbers, rest], axis=1)
        with np.errstate(all="ignore"):
            weights[panel, row, column] += outliers[panel, number]
            matrix = weights.swapaxes(0, 1).reshape(inner, panels * block)
            result = widest(lhs) @ widest(matrix[:, : self.depth])
            if bias is not None:
                result = result + widest(bias)[: self.depth]
            return fitted(result, self.type)

    @override
    def cost(self) -> Cost:
        bias = 0 if self.bias is None else self.type.size
        return Cost(self.type.size * self.lhs.type.shape[-1], bias)


@define_instruction("float28_mat_mul", node=Float28MatMul)
class Float28MatMulInst(NodeInstruction):
    """Multiply rows by a matrix in floats of 28 bits, in panels of *block* columns, add a bias.

    Lhs ``[..., K]``, rhs ``[panels, 7 * (K // 8) + K % 8, block]``, least ``[1]``, places and
    outliers ``[panels, most]``, bias ``[panels * block]`` or absent, dest ``[..., depth]``.
    """

    dest: Out
    lhs: In
    rhs: In
    least: In
    places: In
    outliers: In
    bias: OptionalIn
    depth: int
    block: int


@dataclass(frozen=True)
class Outliers:
    """What of a matrix has no code.

    Attributes:
        least: The exponent from which on there are codes for most numbers of the matrix.
        places: Of the outliers ``[panels, most]``, -1 behind the last one of a panel.
        numbers: The outliers themselves, zeros behind them.
    """

    least: int
    places: Array
    numbers: Array

    @classmethod
    def of(cls, matrix: Array, block: int, limit: int) -> Outliers | None:
        """Find those of *matrix* in panels of *block* columns; None if one has more than *limit*.

        The most of a panel is rounded up to a power of two, so that there are few kernels.
        """
        assert matrix.shape[0] * block <= LARGEST_PLACE, matrix.shape
        coded = matrix[: len(matrix) // TOGETHER * TOGETHER]  # what is behind is kept as it is
        every = max(1, coded.size // MOST_COUNTED)
        exponents = exponents_of(coded[::every])
        least = least_exponent(np.bincount(exponents.reshape(-1), minlength=INFINITE_EXPONENT + 1))
        counts = np.zeros(panels_in_streams(matrix.shape[1], block), np.int64)
        found: list[tuple[Array, Array]] = []
        step = max(1, MOST_BYTES // max(1, matrix.shape[1] * FLOAT32.size_bytes))
        for first in range(0, len(coded), step):
            row, column = np.nonzero(are_outliers(coded[first : first + step], least))
            counts += np.bincount(column // block, minlength=len(counts))
            if counts.max(initial=0) > limit:
                return None
            found.append((row + first, column))
        return cls(least, *_by_panels(matrix, block, found, counts))


def _by_panels(
    matrix: Array, block: int, found: Sequence[tuple[Array, Array]], counts: Array
) -> tuple[Array, Array]:
    """Return the places, and the numbers, of the elements of *matrix* that are *found*.

    These are rows and columns; each panel has so many of them as *counts* tells.
    """
    most = int(counts.max(initial=0))
    shape = len(counts), 1 << (most - 1).bit_length() if most else 0
    places, numbers = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
    if most:
        row, column = (np.concatenate(part) for part in zip(*found, strict=True))
        panel, place = column // block, row * block + column % block
        order = np.lexsort((place, panel))
        number = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        at = panel[order], number
        places[at], numbers[at] = place[order], matrix[row[order], column[order]]
    return places, numbers


@lowers(Float28Words)
def lower_float28_words(node: Float28Words, rewriter: Rewriter) -> Value:
    """Express the words by shifts and masks."""
    panels, _, block = node.type.shape
    inner, depth = node.matrix.type.shape
    if not node.type.size:
        return rewriter.constant(node.name, np.zeros(node.type.shape, np.uint32))
    bits: Value = rewriter.emit(BitCast(node.matrix, UINT32))
    bits = pad_end(rewriter, bits, 1, panels * block - depth)
    bits = rewriter.emit(Transpose(rewriter.emit(Reshape(bits, (inner, panels, block))), (1, 0, 2)))
    units = inner // TOGETHER
    whole = units * TOGETHER
    parts: list[Value] = []
    if whole:
        eights = rewriter.emit(
            Reshape(_emit_rows(rewriter, bits, 0, whole), (panels, units, TOGETHER, block))
        )
        words = _emit_words(rewriter, eights, node.least)
        parts.append(rewriter.emit(Reshape(words, (panels, units * WORDS, block))))
    if inner > whole:
        parts.append(_emit_rows(rewriter, bits, whole, inner))
    return rewriter.emit(Concat(tuple(parts), 1))


def _emit_words(rewriter: Rewriter, bits: Value, least: int) -> Value:
    """Emit what packs numbers ``[panels, units, 8, block]``, of which these are the *bits*."""

    def number(value: int) -> Value:
        return number_beside(rewriter, bits.type, value)

    def shifted(value: Value, down: int) -> Value:
        direction = "right" if down > 0 else "left"
        return rewriter.emit(BitShift(value, number(abs(down)), direction=direction))

    def masked(value: Value, mask: int) -> Value:
        return rewriter.emit(BitwiseAnd(value, number(mask)))

    first = least << FRACTION_BITS
    above = rewriter.emit(Sub(masked(bits, SIGN_MASK - 1), number(first + 1)))
    is_coded = rewriter.emit(Less(above, number((EXPONENTS << FRACTION_BITS) - 1)))
    raised = rewriter.emit(Sub(bits, number(first)))
    codes = rewriter.emit(Select(is_coded, raised, masked(bits, SIGN_MASK)))
    *words, last = (_emit_rows(rewriter, codes, row, row + 1) for row in range(TOGETHER))
    pieces = [(word, *piece) for word, piece in enumerate(PIECES)]
    for word, down, mask in [*pieces, *((WORDS - 1, *piece) for piece in LAST_PIECES)]:
        words[word] = rewriter.emit(BitwiseOr(words[word], shifted(masked(last, mask), -down)))
    return rewriter.emit(Concat(tuple(words), 2))


def _emit_rows(rewriter: Rewriter, panels: Value, first: int, end: int) -> Value:
    """Emit the rows from *first* to *end* of *panels*, whose last dimension but one they are."""
    *outer, _, block = panels.type.shape
    starts, stops = (*(0 for _ in outer), first, 0), (*outer, end, block)
    return rewriter.emit(Slice(panels, starts, stops, (1,) * panels.type.rank))
