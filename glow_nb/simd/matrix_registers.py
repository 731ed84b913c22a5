"""Products in registers for whole matrices: the tiles of AMX.

The registers hold ``parts x panels`` blocks of sums, of up to 16 rows and 16 columns each, one part
of left rows below the other. LLVM gives numba's values none of them: each function is a piece of
assembly that names its registers, and keeps its hands off the others. Sums stay there from
``matrix_clear`` or ``matrix_load`` to ``matrix_store``; between the two, only dots may come.

A processor without them adds to the sums in memory in place of registers. So all kernels run, and
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
    DOTS,
    MATRIX_COLUMNS,
    MATRIX_REGISTERS,
    MATRIX_ROWS,
    DotInstruction,
)
from glow_nb.base.types import ElementKind
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import Lanes
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_vector,
    store_vector,
    to_index,
)
from glow_nb.simd.multiply_adds import emulated
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

    They lie at *sums*, *row* elements from row to row. Each part has so many *rows*, the last one
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
    layout = _Registers(tiles)
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


class _Registers:
    """Which register has which block or operand."""

    def __init__(self, tiles: MatrixTiles) -> None:
        self.parts, self.panels = tiles.parts, tiles.panels
        self.first_left = tiles.parts * tiles.panels
        self.first_right = self.first_left + tiles.parts
        self.rights = min(tiles.panels, REGISTERS - self.first_right)
        assert self.rights > 0, f"{tiles}: {REGISTERS} registers are too few"

    def sums(self, part: int, panel: int) -> str:
        return f"%tmm{part * self.panels + panel}"

    def left(self, part: int) -> str:
        return f"%tmm{self.first_left + part}"

    def right(self, panel: int) -> str:
        return f"%tmm{self.first_right + panel % self.rights}"

    def is_left(self, register: int) -> bool:
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
    layout, places = _Registers(tiles), _part_places(builder, tiles, value, first)
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


def _part_places(builder: Any, tiles: MatrixTiles, value: Any, first: Any) -> list[Any]:
    """Return the addresses of the sums of each part, the first at element *first*."""
    pointer, row, rows = (builder.extract_value(value, number) for number in (0, 1, 2))
    apart, places = builder.mul(row, rows), []
    for part in range(tiles.parts):
        index = builder.add(first, builder.mul(apart, ir.Constant(INDEX, part)))
        places.append(address(builder, pointer, index, tiles.kind))
    return places


@contextmanager
def _each_row(builder: Any, tiles: MatrixTiles, value: Any, part: int) -> Iterator[Any]:
    """Loop over the rows of a part."""
    rows = builder.extract_value(value, 3 if part == tiles.parts - 1 else 2)
    with cgutils.for_range(builder, rows, intp=INDEX) as loop:
        yield loop.index


def _sums_place(
    builder: Any, tiles: MatrixTiles, value: Any, place: Any, row: Any, panel: int
) -> Any:
    """Return the address of the sums of a row of a block of the part at *place*."""
    index = builder.mul(row, builder.extract_value(value, 1))
    index = builder.add(index, ir.Constant(INDEX, panel * MATRIX_COLUMNS))
    return address(builder, place, index, tiles.kind)


def _clear_in_memory(builder: Any, tiles: MatrixTiles, value: Any, first: Any, used: int) -> None:
    zeros = ir.Constant(llvm_vector(tiles.kind, MATRIX_COLUMNS), None)
    for part, place in enumerate(_part_places(builder, tiles, value, first)):
        with _each_row(builder, tiles, value, part) as row:
            for panel in range(used):
                at = _sums_place(builder, tiles, value, place, row, panel)
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

MEANING = """``{name}(t, at, used, x, i, stride, apart, forward, w, j, row, count, ahead, lines)``.

``sums[r, n] += sum over c < count, f < {group} of left[r, c, f] * w[j + c * row + n * {group} +
f]`` for every row r and the columns n of the first *used* panels. The left groups of a step,
neighbours, begin at ``x[i + p * apart + r * stride + s * forward]``, r counted in each part p, and
s the number of the step. The sums are those between
``matrix_clear(tiles, at, used)`` and ``matrix_store(tiles, at, used)``. *count* is a multiple of
the groups of a step. Meanwhile each step brings so many *lines*, a literal, of the weights from
``w[ahead]`` on, which a later call reads, into the second-level cache.
"""


def matrix_dot(dot: DotInstruction) -> Any:
    """Return the function of generated source that adds products by *dot*."""
    mnemonic = dot.name.removeprefix("tile_dot_")

    def function(
        typing: Any,
        tiles: Any,
        at: Any,
        used: Any,
        source: Any,
        start: Any,
        stride: Any,
        apart: Any,
        forward: Any,
        weights: Any,
        index: Any,
        row: Any,
        count: Any,
        ahead: Any,
        lines: Any,
    ) -> Any:
        pointers = isinstance(source, Pointer) and isinstance(weights, Pointer)
        if not (isinstance(tiles, MatrixTiles) and pointers and are_literal(used, lines)):
            return None
        operands = (
            *(tiles, at, used, source, start, stride, apart, forward),
            *(weights, index, row, count, ahead, lines),
        )

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = {
                name: to_index(context, builder, arguments[number], signature.args[number])
                for number, name in enumerate(NAMES)
                if name
            }
            step = _Step(
                dot, tiles, literal(used), source.kind, weights.kind, literal(lines), numbers
            )
            if has_instruction_set(builder, MATRIX_REGISTERS):
                step.write(builder, mnemonic, arguments[3], arguments[8])
            else:
                step.emulate(builder, *(arguments[number] for number in (0, 3, 8)))
            return context.get_dummy_value()

        return types.void(*operands), codegen

    function.__name__ = dot.name
    function.__doc__ = MEANING.format(name=dot.name, group=dot.group)
    return intrinsic(prefer_literal=True)(function)


NAMES = (
    *("", "at", "", "", "start", "stride", "apart", "forward"),
    *("", "index", "row", "count", "ahead", ""),
)
"""The arguments of a dot that are numbers of elements, groups or rows."""


class _Step:
    """A dot of matrix registers: its numbers are LLVM integers by name."""

    def __init__(
        self,
        dot: DotInstruction,
        tiles: MatrixTiles,
        used: int,
        left: ElementKind,
        right: ElementKind,
        lines: int,
        numbers: dict[str, Any],
    ) -> None:
        self.dot, self.tiles, self.used, self.lines = dot, tiles, used, lines
        self.left, self.right, self.numbers = left, right, numbers

    def write(self, builder: Any, mnemonic: str, source: Any, weights: Any) -> None:
        """Write the loop over the steps, which take so many groups each, as assembly."""
        parts, numbers = self.tiles.parts, self.numbers
        lefts = [builder.ptrtoint(each, INDEX) for each in self._lefts(builder, source)]
        right = builder.ptrtoint(address(builder, weights, numbers["index"], self.right), INDEX)
        steps = builder.udiv(numbers["count"], ir.Constant(INDEX, self.tiles.groups))
        stride, forward, row = (
            builder.mul(numbers[name], ir.Constant(INDEX, kind.size_bytes))
            for name, kind in (
                ("stride", self.left),
                ("forward", self.left),
                ("row", self.right),
            )
        )
        down = builder.mul(row, ir.Constant(INDEX, self.tiles.groups))
        moving, fixed = [*lefts, right, steps], [stride, row, forward, down]
        if self.lines:
            ahead = address(builder, weights, numbers["ahead"], self.right)
            moving.append(builder.ptrtoint(ahead, INDEX))
        outputs = len(moving)
        text = self._text(mnemonic, parts)
        kind = ir.FunctionType(
            ir.LiteralStructType([INDEX] * outputs), [INDEX] * (outputs + len(fixed))
        )
        tied = map(str, range(outputs))
        constraints = ",".join(
            [*(["=&r"] * outputs), *("r" for _ in fixed), *tied, "~{memory}", "~{flags}"]
        )
        builder.asm(kind, text, constraints, [*fixed, *moving], side_effect=True)

    def _text(self, mnemonic: str, parts: int) -> str:
        """Return the loop; operands are the parts' rows, the panels, the steps left, distances."""
        layout = _Registers(self.tiles)
        moving = ["right", "steps", *(["ahead"] if self.lines else [])]
        names = [*moving, "stride", "row", "forward", "down"]
        place = {name: f"${parts + number}" for number, name in enumerate(names)}
        right, stride = place["right"], place["stride"]
        lines = ["1:"]
        for panel in range(self.used):
            memory = f"{ROW_BYTES * panel}({right},{place['row']},1)"
            lines.append(f"tileloadd {memory}, {layout.right(panel)}")
            for part in range(parts):
                if panel == 0:
                    lines.append(f"tileloadd (${part},{stride},1), {layout.left(part)}")
                operands = f"{layout.right(panel)}, {layout.left(part)}, {layout.sums(part, panel)}"
                lines.append(f"{mnemonic} {operands}")
        lines += [f"addq {place['forward']}, ${part}" for part in range(parts)]
        for line in range(self.lines):
            lines.append(f"prefetcht1 {CACHE_LINE_BYTES * line}({place['ahead']})")
        if self.lines:
            lines.append(f"addq $${CACHE_LINE_BYTES * self.lines}, {place['ahead']}")
        lines += [f"addq {place['down']}, {right}", f"decq {place['steps']}", "jnz 1b"]
        return "\n".join(lines)

    def _lefts(self, builder: Any, source: Any) -> list[Any]:
        """Return the addresses of the first left rows of the parts."""
        apart, start = self.numbers["apart"], self.numbers["start"]
        places = []
        for part in range(self.tiles.parts):
            index = builder.add(start, builder.mul(apart, ir.Constant(INDEX, part)))
            places.append(address(builder, source, index, self.left))
        return places

    def emulate(self, builder: Any, value: Any, source: Any, weights: Any) -> None:
        """Add the products to the sums in memory."""
        tiles, numbers = self.tiles, self.numbers
        places = _part_places(builder, tiles, value, numbers["at"])
        lefts = self._lefts(builder, source)
        for part, (place, left) in enumerate(zip(places, lefts, strict=True)):
            with _each_row(builder, tiles, value, part) as row:
                begin = builder.mul(row, numbers["stride"])
                for panel in range(self.used):
                    at = _sums_place(builder, tiles, value, place, row, panel)
                    self._add_to(builder, at, (left, begin), weights, panel)

    def _add_to(
        self, builder: Any, at: Any, left: tuple[Any, Any], weights: Any, panel: int
    ) -> None:
        """Add the products of a row and a panel to the sums at an address."""
        kind, group, numbers = self.tiles.kind, self.dot.group, self.numbers
        near, begin = left
        first = builder.add(numbers["index"], ir.Constant(INDEX, panel * MATRIX_COLUMNS * group))
        groups = ir.Constant(INDEX, self.tiles.groups)
        with cgutils.for_range(builder, numbers["count"], intp=INDEX) as loop:
            sums = Lanes(
                builder, load_vector(builder, at, kind, MATRIX_COLUMNS), kind, MATRIX_COLUMNS
            )
            step = builder.mul(builder.udiv(loop.index, groups), numbers["forward"])
            near_group = builder.mul(builder.urem(loop.index, groups), ir.Constant(INDEX, group))
            place = builder.add(begin, builder.add(step, near_group))
            x = self._read(builder, near, place, self.left, group)
            place = builder.add(first, builder.mul(loop.index, numbers["row"]))
            w = self._read(builder, weights, place, self.right, MATRIX_COLUMNS * group)
            total = emulated(_IN_VECTORS[self.dot.name])(sums, x, w)
            store_vector(builder, at, total.value, kind)

    def _read(self, builder: Any, pointer: Any, index: Any, kind: ElementKind, lanes: int) -> Lanes:
        near = address(builder, pointer, index, kind)
        return Lanes(builder, load_vector(builder, near, kind, lanes), kind, lanes)


def _as_vectors(dot: DotInstruction) -> DotInstruction:
    """Return a dot of the same groups whose results are a vector of a row."""
    return DotInstruction(dot.name, left=dot.left, right=dot.right, group=dot.group)


_IN_VECTORS = {name: _as_vectors(dot) for name, dot in DOTS.items() if dot.is_matrix}

FUNCTIONS = ON_BLOCKS | {name: matrix_dot(dot) for name, dot in DOTS.items() if dot.is_matrix}
"""What is done with sums in matrix registers, by name."""

assert MATRIX_ROWS * FOUR_BYTES == ROW_BYTES
