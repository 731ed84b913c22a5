"""The product with a constant matrix in floats of 28 bits: :mod:`glow_nb.float28`.

Columns lie in panels of ``block``; a panel holds, for each eight neighbouring rows, seven rows of
words, and behind them the rows that are left over as they are. What has no code is an outlier of
its panel: its place is ``row * block + column``.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from glow_nb.kernels.operators.panels import pad_end, panels_of
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, OptionalIn, Out, define_instruction
from glow_nb.types import Array, ElementKind, TensorType

FLOAT32, UINT32, INT32 = ElementKind.FLOAT32, ElementKind.UINT32, ElementKind.INT32

STREAMS = 4
"""Panels that a kernel reads at a time, far apart: their number is a multiple of it."""

MOST_BYTES = 1 << 20
"""Of a matrix that is packed at a time, which takes several times its memory."""


MOST_COUNTED = 1 << 20
"""About how many numbers of a matrix tell which exponents most of them have."""


def panels_in_streams(depth: int, block: int) -> int:
    """Return the panels of *depth* columns, as many in each stream."""
    return STREAMS * -(-panels_of(depth, block) // STREAMS)


@define_node("float28_words")
class Float28Words(WeightTransform):
    """Pack a matrix ``[K, N]`` into words ``[panels, 7 * (K // 8) + K % 8, block]`` of uint32.

    The last panels are padded. The smallest number with a code stands for each outlier.

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
        check_codes(self, self.block, self.least)
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


def check_codes(node: Node, block: int, least: int) -> None:
    """Raise VerifyError unless *node* may have panels of *block* columns and this *least*."""
    node.require(block > 0, f"block is {block}, but must be positive")
    node.require(
        1 <= least <= LARGEST_LEAST,
        f"least is {least}, but must be an exponent from 1 to {LARGEST_LEAST}",
    )


@define_node("float28_mat_mul")
class Float28MatMul(Node):
    """Multiply rows by a matrix in floats of 28 bits, and add a bias.

    ``lhs`` is ``[..., K]`` of float32, ``rhs`` comes from :class:`Float28Words`. ``places``, of
    int32, and ``outliers``, of float32, are both ``[panels, most]``: the places of a panel ascend,
    and one that is not above all before it, such as -1, or that is no place of the panel, has no
    outlier. ``bias`` is ``[panels * block]``, padded with zeros, or absent. The result is
    ``[..., depth]``.

    Attributes:
        depth: Columns of the result.
        block: Columns in a panel.
        least: The biased exponent of the smallest numbers that have a code.
    """

    lhs: Value
    rhs: Value
    places: Value
    outliers: Value
    bias: Value | None
    depth: int
    block: int
    least: int

    @override
    def infer_type(self) -> TensorType:
        lhs, places = self.lhs.type, self.places.type
        require_kind(self, "lhs", lhs, frozenset({FLOAT32}))
        self.require(lhs.rank >= 1, f"'lhs' must have rows, got {lhs}")
        inner = lhs.shape[-1]
        self.require(self.depth >= 0, f"depth is {self.depth}, but must not be negative")
        check_codes(self, self.block, self.least)
        panels = panels_in_streams(self.depth, self.block)
        most = places.shape[-1] if places.rank else 0
        wanted = {
            "rhs": TensorType(UINT32, (panels, words_of(inner), self.block)),
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
        self, lhs: Array, rhs: Array, places: Array, outliers: Array, bias: Array | None
    ) -> Array:
        panels, _, block = rhs.shape
        inner = lhs.shape[-1]
        units = inner // TOGETHER
        eights = rhs[:, : units * WORDS].reshape(panels, units, WORDS, block)
        numbers = unpacked_words(eights, self.least).reshape(panels, units * TOGETHER, block)
        rest = rhs[:, units * WORDS :].view(np.float32)
        weights = np.concatenate([numbers, rest], axis=1).reshape(panels, inner * block)
        before = np.pad(places, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
        is_place = places > np.maximum.accumulate(before, axis=1)
        panel, number = np.nonzero(is_place & (places < inner * block))
        weights[panel, places[panel, number]] = outliers[panel, number]
        matrix = (
            weights.reshape(panels, inner, block).transpose(1, 0, 2).reshape(inner, panels * block)
        )
        with np.errstate(all="ignore"):
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

    Lhs ``[..., K]``, rhs ``[panels, 7 * (K // 8) + K % 8, block]``, places and outliers
    ``[panels, most]``, bias ``[panels * block]`` or absent, dest ``[..., depth]``.
    """

    dest: Out
    lhs: In
    rhs: In
    places: In
    outliers: In
    bias: OptionalIn
    depth: int
    block: int
    least: int


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

    @property
    def count(self) -> int:
        """Outliers of all panels."""
        return int(np.count_nonzero(self.places >= 0))

    @classmethod
    def of(cls, matrix: Array, block: int) -> Outliers:
        """Find those of *matrix* in panels of *block* columns."""
        coded = matrix[: len(matrix) // TOGETHER * TOGETHER]  # what is behind is kept as it is
        exponents = exponents_of(coded)
        every = max(1, coded.size // MOST_COUNTED)
        counts = np.bincount(exponents[::every].reshape(-1), minlength=INFINITE_EXPONENT + 1)
        least = least_exponent(counts)
        row, column = np.nonzero(are_outliers(exponents, least))
        panel, place = column // block, row * block + column % block
        order = np.lexsort((place, panel))
        sizes = np.bincount(panel, minlength=panels_in_streams(matrix.shape[1], block))
        number = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        shape = (len(sizes), sizes.max(initial=0))
        places, numbers = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
        at = panel[order], number
        places[at], numbers[at] = place[order], matrix[row[order], column[order]]
        return cls(least, places, numbers)


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

    raised = rewriter.emit(Sub(bits, number(least << FRACTION_BITS)))
    exponent = masked(shifted(raised, FRACTION_BITS), INFINITE_EXPONENT)
    has_code = rewriter.emit(Less(exponent, number(EXPONENTS)))
    codes = rewriter.emit(Select(has_code, raised, number(0)))
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
