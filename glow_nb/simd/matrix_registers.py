"""Products in registers for whole matrices: the tiles of AMX.

The registers hold ``parts x panels`` blocks of sums, of up to 16 rows and 16 columns each, one part
of left rows below the other. LLVM gives numba's values none of them: each function is a piece of
assembly that names its registers, and keeps its hands off the others. Sums stay there from
``matrix_clear`` or ``matrix_load`` to ``matrix_store``; between the two, only dots
(:mod:`glow_nb.simd.matrix_dots`) may come.

A processor without them adds to the sums in memory instead of registers. So all kernels run, and
are tested, everywhere.

The registers of sums come first, those of the panels of a part side by side; then those of left
rows and of right panels. Each is loaded once a step if there are enough; of 1 x 4 blocks, right
panels take turns in two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import (
    MATRIX_COLUMNS,
    MATRIX_REGISTERS,
)
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    store_vector,
    to_index,
)
from glow_nb.simd.types import INDEX, POINTER, MatrixTiles, Pointer, llvm_vector

REGISTERS = 8
FOUR_BYTES = 4
"""Size of a sum, and of a group of neighbours."""

ROW_BYTES = MATRIX_COLUMNS * FOUR_BYTES
"""Bytes of a row of a register; it is a cache line."""

_PALETTE, _WIDTHS, _HEIGHTS = 0, 16, 48
"""Where the configuration of the registers has the number 1, the bytes of a row of each register,
two bytes each, and their rows, one byte each."""

assert ROW_BYTES == CACHE_LINE_BYTES


@intrinsic(prefer_literal=True)
def matrix_tiles(
    typing: Any,
    sums: Any,
    row: Any,
    rows: Any,
    last: Any,
    parts: Any,
    panels: Any,
    groups: Any,
) -> Any:
    """``matrix_tiles(sums, row, rows, last, parts, panels, groups)``: blocks of sums.

    They lie at *sums*, *row* elements from row to row. Each part has *rows* rows, the last one
    *last*; the others stand above it. A step multiplies *groups* groups of neighbours.
    """
    if not (isinstance(sums, Pointer) and are_literal(parts, panels, groups)):
        return None
    tiles = MatrixTiles(sums.kind, literal(parts), literal(panels), literal(groups))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = builder.insert_value(ir.Constant(tiles.llvm, ir.Undefined), arguments[0], 0)
        for number in (1, 2, 3):
            value = to_index(context, builder, arguments[number], signature.args[number])
            made = builder.insert_value(made, value, number)
        return made

    return tiles(sums, row, rows, last, parts, panels, groups), codegen


@intrinsic
def matrix_configure(typing: Any, tiles: Any) -> Any:
    """``matrix_configure(tiles)``: give the registers the sizes of the blocks and operands."""
    if not isinstance(tiles, MatrixTiles):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if has_instruction_set(builder, MATRIX_REGISTERS):
            _configure(builder, tiles, arguments[0])
        return context.get_dummy_value()

    return types.void(tiles), codegen


def _configure(builder: Any, tiles: MatrixTiles, value: Any) -> None:
    byte, short = ir.IntType(8), ir.IntType(16)
    block = cgutils.alloca_once(builder, ir.ArrayType(byte, CACHE_LINE_BYTES))
    block.align = CACHE_LINE_BYTES
    builder.store(ir.Constant(block.type.pointee, None), block)
    place = builder.bitcast(block, POINTER)

    def put(offset: int, number: Any) -> None:
        at = builder.gep(place, [ir.Constant(INDEX, offset)], source_etype=byte)
        builder.store(number, builder.bitcast(at, number.type.as_pointer()), align=1)

    put(_PALETTE, ir.Constant(byte, 1))
    most, least = (builder.extract_value(value, number) for number in (2, 3))
    layout = RegisterLayout(tiles)
    for register in range(REGISTERS):
        part = layout.part_of(register)
        if part is None:
            height = ir.Constant(byte, tiles.groups)
        else:
            height = builder.trunc(least if part == tiles.parts - 1 else most, byte)
        width = tiles.groups * FOUR_BYTES if layout.is_left(register) else ROW_BYTES
        put(_WIDTHS + 2 * register, ir.Constant(short, width))
        put(_HEIGHTS + register, height)
    kind = ir.FunctionType(ir.VoidType(), [POINTER])
    builder.asm(kind, "ldtilecfg ($0)", "r,~{memory}", [place], side_effect=True)


class RegisterLayout:
    """The register of each block and operand."""

    def __init__(self, tiles: MatrixTiles) -> None:
        self.parts, self.panels = tiles.parts, tiles.panels
        self.first_left = tiles.parts * tiles.panels
        self.first_right = self.first_left + tiles.parts
        self.rights = min(tiles.panels, REGISTERS - self.first_right)
        assert self.rights > 0, f"{tiles}: {REGISTERS} registers are too few"

    def sums(self, part: int, panel: int) -> str:
        """Return the register of a block of sums."""
        return f"%tmm{part * self.panels + panel}"

    def left(self, part: int) -> str:
        """Return the register of the left rows of a part."""
        return f"%tmm{self.first_left + part}"

    def right(self, panel: int) -> str:
        """Return the register of a right panel."""
        return f"%tmm{self.first_right + panel % self.rights}"

    def is_left(self, register: int) -> bool:
        """Return whether *register* has left rows."""
        return self.first_left <= register < self.first_right

    def part_of(self, register: int) -> int | None:
        """Return which part's rows *register* has, None for one of a right panel."""
        if register < self.first_left:
            return register // self.panels
        return register - self.first_left if self.is_left(register) else None


@intrinsic
def matrix_release(typing: Any) -> Any:
    """``matrix_release()``: leave the registers to others."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if has_instruction_set(builder, MATRIX_REGISTERS):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.asm(kind, "tilerelease", "~{memory}", [], side_effect=True)
        return context.get_dummy_value()

    return types.void(), codegen


def _on_blocks(name: str, meaning: str, line: str, emulate: Callable[..., None]) -> Any:
    """Make an intrinsic that does something with each block of sums."""

    @intrinsic(prefer_literal=True)
    def function(typing: Any, tiles: Any, at: Any, used: Any) -> Any:
        if not (isinstance(tiles, MatrixTiles) and are_literal(used)):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first = to_index(context, builder, arguments[1], signature.args[1])
            if has_instruction_set(builder, MATRIX_REGISTERS):
                _each_block(builder, tiles, arguments[0], first, literal(used), line)
            else:
                emulate(builder, tiles, arguments[0], first, literal(used))
            return context.get_dummy_value()

        return types.void(tiles, types.unliteral(at), used), codegen

    function.__name__ = name
    function.__doc__ = f"``{name}(tiles, at, used)``: {meaning}"
    return function


def _each_block(
    builder: Any, tiles: MatrixTiles, value: Any, first: Any, used: int, line: str
) -> None:
    """Write the assembly *line* for each block of the first *used* panels."""
    layout, places = RegisterLayout(tiles), part_places(builder, tiles, value, first)
    row_bytes = builder.mul(builder.extract_value(value, 1), ir.Constant(INDEX, FOUR_BYTES))
    lines = []
    for part in range(tiles.parts):
        for panel in range(used):
            memory = f"{ROW_BYTES * panel}(${part},${tiles.parts},1)"
            lines.append(line.format(memory=memory, register=layout.sums(part, panel)))
    operands = [*places, row_bytes]
    kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
    constraints = ",".join([*("r" for _ in operands), "~{memory}"])
    builder.asm(kind, "\n".join(lines), constraints, operands, side_effect=True)


def part_places(builder: Any, tiles: MatrixTiles, value: Any, first: Any) -> list[Any]:
    """Return the addresses of the sums of each part, the first at element *first*."""
    pointer, row, rows = (builder.extract_value(value, number) for number in (0, 1, 2))
    apart, places = builder.mul(row, rows), []
    for part in range(tiles.parts):
        index = builder.add(first, builder.mul(apart, ir.Constant(INDEX, part)))
        places.append(address(builder, pointer, index, tiles.kind))
    return places


@contextmanager
def each_row(builder: Any, tiles: MatrixTiles, value: Any, part: int) -> Iterator[Any]:
    """Loop over the rows of a part."""
    rows = builder.extract_value(value, 3 if part == tiles.parts - 1 else 2)
    with cgutils.for_range(builder, rows, intp=INDEX) as loop:
        yield loop.index


def sums_place(
    builder: Any, tiles: MatrixTiles, value: Any, place: Any, row: Any, panel: int
) -> Any:
    """Return the address of the sums of a row of a block of the part at *place*."""
    index = builder.mul(row, builder.extract_value(value, 1))
    index = builder.add(index, ir.Constant(INDEX, panel * MATRIX_COLUMNS))
    return address(builder, place, index, tiles.kind)


def _clear_in_memory(builder: Any, tiles: MatrixTiles, value: Any, first: Any, used: int) -> None:
    zeros = ir.Constant(llvm_vector(tiles.kind, MATRIX_COLUMNS), None)
    for part, place in enumerate(part_places(builder, tiles, value, first)):
        with each_row(builder, tiles, value, part) as row:
            for panel in range(used):
                at = sums_place(builder, tiles, value, place, row, panel)
                store_vector(builder, at, zeros, tiles.kind)


def _leave_in_memory(builder: Any, tiles: MatrixTiles, value: Any, first: Any, used: int) -> None:
    """The sums are there in any case."""


ON_BLOCKS = {
    "matrix_clear": _on_blocks(
        "matrix_clear",
        "begin all sums with zero, those of the first *used* panels; *at* is where they lie later.",
        "tilezero {register}",
        _clear_in_memory,
    ),
    "matrix_load": _on_blocks(
        "matrix_load",
        "begin all sums, of the first *used* panels, with those from element *at* on.",
        "tileloadd {memory}, {register}",
        _leave_in_memory,
    ),
    "matrix_store": _on_blocks(
        "matrix_store",
        "store all sums, of the first *used* panels, to the elements from *at* on.",
        "tilestored {register}, {memory}",
        _leave_in_memory,
    ),
}
"""What is done with all sums at once, by name."""
