"""Right operands of a product that are low-bit integers, and become floats in the kernel.

Where one register tile takes all rows of the left operand, each code is read once, and becomes a
float in a register. With more rows, the codes of a panel's part of an inner block become floats in
scratch first, which the tiles of the block read as they read weights of floats.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.dot_instruction import DotInstruction
from glow_nb.kernels.operators.dequantizing import codes_of_element
from glow_nb.kernels.products.blocking import rank_blocks, registers_of, row_limit
from glow_nb.kernels.products.caches import LONGEST_CHAIN
from glow_nb.kernels.products.reduction import Reduction, SumLoop
from glow_nb.kernels.target import Target

DECODING_REGISTERS = 2
"""Registers that decoding takes beside the loaded words, for a number that is decoded."""


@dataclass(frozen=True)
class CodedWeights:
    """Integers of few bits in panels, of which neighbouring rows share a scale.

    Attributes:
        inner: Rows.
        bits: Bits of a code.
        size: Neighbouring rows that share a scale.
        in_registers: They become floats in registers, not in scratch.
    """

    inner: int
    bits: int
    size: int
    in_registers: bool

    @property
    def together(self) -> int:
        """Codes of a column that lie together."""
        return codes_of_element(self.bits)

    @property
    def blocks(self) -> int:
        """Scales of a column."""
        return self.inner // self.size

    def reduction(self, step: int, limit: int) -> Reduction:
        """Cut the sum into pieces of whole blocks, or equal parts of one.

        In registers, each piece is summed up by itself and then scaled.

        Args:
            step: Elements of the left operand from row to row.
            limit: Rows of a panel of floats, about as many as the first-level cache keeps.
        """
        if self.in_registers:
            unit = self.unit(LONGEST_CHAIN)
            pieces = SumLoop(-(-self.inner // unit), unit * step, unit // self.together)
            return Reduction((), (pieces,), unit, self.inner, has_tap_rows=False)
        unit = self.unit(limit)
        pieces_needed = -(-self.inner // max(unit, limit // unit * unit))
        length = -(-self.inner // (pieces_needed * unit)) * unit
        count = -(-self.inner // length)
        outer = (SumLoop(count, length * step, length),) if count > 1 else ()
        return Reduction(outer, (), min(length, self.inner), self.inner, has_tap_rows=False)

    def unit(self, limit: int) -> int:
        """Return the rows that each piece is a multiple of: they share a scale."""
        if self.blocks == 1:
            return min(self.inner, max(1, limit // self.together) * self.together)
        for parts in range(1, self.size + 1):
            unit = self.size // parts
            if unit <= limit and self.size % parts == 0 and unit % self.together == 0:
                return unit if 2 * unit > limit or parts == 1 else self.size
        return self.size


def in_registers(rows: int, vectors: int, target: Target) -> bool:
    """Return whether a tile of panels of *vectors* vectors takes all *rows* and decodes weights."""
    return row_limit(vectors, registers_of(target, decoding_form(vectors))) >= rows


def decoding_form(vectors: int) -> DotInstruction:
    """Return the form of a dot that decodes the weights of *vectors* vectors."""
    return DotInstruction("tile_dot_codes", temporaries=vectors + DECODING_REGISTERS)


def columns_of_panel(rows: int, inner: int, depth: int, target: Target) -> int:
    """Return the columns of a panel of ``[inner, depth]`` codes for this number of left *rows*."""
    widths = rank_blocks(depth, target, pixels=rows, steps=inner, fetched=inner)
    most = max(width for width in widths if width <= target.machine.decoding_vectors * target.lanes)
    for vectors in (most // target.lanes, target.machine.decoding_vectors // 2):
        if in_registers(rows, vectors, target):
            return min(most, vectors * target.lanes)
    return next(width for width in widths if width <= most)
