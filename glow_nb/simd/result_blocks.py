"""Steps whose results are a block of several rows and columns of a register tile.

The sums of a tile lie by rows, in vectors. Between the first step and the last one they lie by
blocks instead, each the sums of one step: that is where the registers of a processor for whole
matrices would be loaded and stored. Blocks at the edges have rows and columns beyond those of the
tile, whose sums are left out in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from glow_nb.base.dot_instruction import DotInstruction
from glow_nb.simd.lanes import Lanes, joined
from glow_nb.simd.memory import Count, address, further, load_vector
from glow_nb.simd.multiply_adds import multiply_add_of
from glow_nb.simd.outer_product import Place, right_groups
from glow_nb.simd.types import RegisterTile, llvm_vector


@dataclass(frozen=True)
class Blocks:
    """Steps of blocks.

    Attributes:
        dot: The instruction that multiplies.
    """

    dot: DotInstruction

    def begin(self, builder: Any, value: Any, tile: RegisterTile) -> Any:
        """Return the sums of the tile *value* by blocks, those of the first rows first."""
        made = ir.Constant(self._llvm(tile), ir.Undefined)
        for number, (row, column) in enumerate(self._begins(tile)):
            parts = [
                self._part(builder, value, tile, row + r, column + c)
                for r in range(self.dot.rows)
                for c in range(0, self._columns(tile), self._piece(tile))
            ]
            made = builder.insert_value(made, joined(parts).value, number)
        return made

    def end(self, builder: Any, sums: Any, tile: RegisterTile) -> Any:
        """Return the tile of the *sums* of blocks."""
        made = ir.Constant(tile.llvm, ir.Undefined)
        piece, columns = self._piece(tile), self._columns(tile)
        across = -(-tile.vectors * tile.lanes // columns)
        for number in range(tile.rows * tile.vectors):
            row, first = number // tile.vectors, number % tile.vectors * tile.lanes
            parts = []
            for column in range(first, first + tile.lanes, piece):
                place = row // self.dot.rows * across + column // columns
                block = self._block(builder, sums, tile, place)
                begin = row % self.dot.rows * columns + column % columns
                parts.append(block.shuffle(range(begin, begin + piece)))
            made = builder.insert_value(made, joined(parts).value, number)
        return made

    def step(
        self,
        builder: Any,
        sums: Any,
        tile: RegisterTile,
        column: Place,
        row: Place,
        stride: Count,
        columns: int,
    ) -> Any:
        """Add the products of a group of neighbours to the *sums* of all blocks.

        Args:
            builder: Receives the instructions.
            sums: The sums by blocks.
            tile: The register tile of their sums.
            column: Where the left elements lie.
            row: Where the right ones lie, of which those of the first *columns* are read.
            stride: Elements from left row to left row.
            columns: Columns of the right ones that may be read.
        """
        multiply_add = multiply_add_of(self.dot, builder, tile.lanes)
        size, width = self._columns(tile), tile.vectors * tile.lanes
        lefts = [
            self._left(builder, column, tile, first, stride)
            for first in range(0, tile.rows, self.dot.rows)
        ]
        across = -(-width // size)
        for number, first in enumerate(range(0, width, size)):
            used = min(max(0, columns - first), size)
            right = right_groups(builder, row, self.dot, (first, size, used))
            for above, left in enumerate(lefts):
                place = above * across + number
                total = multiply_add(self._block(builder, sums, tile, place), left, right)
                sums = builder.insert_value(sums, total.value, place)
        return sums

    def _left(
        self, builder: Any, column: Place, tile: RegisterTile, first: int, stride: Count
    ) -> Lanes:
        """Return the groups of the rows of a block; below the tile, that of its last row again."""
        pointer, memory, start = column
        kind, group = memory.kind, self.dot.group
        parts = []
        for row in range(first, first + self.dot.rows):
            place = further(builder, start, min(row, tile.rows - 1), stride)
            near = address(builder, pointer, place, kind)
            parts.append(Lanes(builder, load_vector(builder, near, kind, group), kind, group))
        return joined(parts)

    def _columns(self, tile: RegisterTile) -> int:
        return self.dot.columns or tile.lanes

    def _piece(self, tile: RegisterTile) -> int:
        """Return the neighbouring sums that lie side by side in both orders."""
        return min(self._columns(tile), tile.lanes)

    def _begins(self, tile: RegisterTile) -> list[tuple[int, int]]:
        """Return the first row and the first column of each block."""
        columns = range(0, tile.vectors * tile.lanes, self._columns(tile))
        return [(row, column) for row in range(0, tile.rows, self.dot.rows) for column in columns]

    def _sums(self, tile: RegisterTile) -> int:
        return self.dot.rows * self._columns(tile)

    def _llvm(self, tile: RegisterTile) -> Any:
        block = llvm_vector(tile.kind, self._sums(tile))
        return ir.ArrayType(block, len(self._begins(tile)))

    def _block(self, builder: Any, sums: Any, tile: RegisterTile, number: int) -> Lanes:
        return Lanes(builder, builder.extract_value(sums, number), tile.kind, self._sums(tile))

    def _part(self, builder: Any, value: Any, tile: RegisterTile, row: int, column: int) -> Lanes:
        """Return neighbouring sums of a row of the tile *value*; zeros beyond the tile."""
        piece = self._piece(tile)
        vector, begin = divmod(column, tile.lanes)
        if row >= tile.rows or vector >= tile.vectors:
            zeros = ir.Constant(llvm_vector(tile.kind, piece), None)
            return Lanes(builder, zeros, tile.kind, piece)
        part = builder.extract_value(value, row * tile.vectors + vector)
        whole = Lanes(builder, part, tile.kind, tile.lanes)
        return whole.shuffle(range(begin, begin + piece))
