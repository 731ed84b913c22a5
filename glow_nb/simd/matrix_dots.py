"""Dots in matrix registers: a loop of tile instructions, as assembly, or what does without them.

See :mod:`glow_nb.simd.matrix_registers`, which begins and stores the sums.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import DOTS, MATRIX_COLUMNS, MATRIX_REGISTERS, DotInstruction
from glow_nb.base.types import ElementKind
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import Lanes
from glow_nb.simd.matrix_registers import (
    ROW_BYTES,
    RegisterLayout,
    each_row,
    part_places,
    sums_place,
)
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_vector,
    store_vector,
    to_index,
)
from glow_nb.simd.multiply_adds import emulated
from glow_nb.simd.types import INDEX, MatrixTiles, Pointer

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
        """Write the loop over the steps, which take this number of groups each, as assembly."""
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
        layout = RegisterLayout(self.tiles)
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
        places = part_places(builder, tiles, value, numbers["at"])
        lefts = self._lefts(builder, source)
        for part, (place, left) in enumerate(zip(places, lefts, strict=True)):
            with each_row(builder, tiles, value, part) as row:
                begin = builder.mul(row, numbers["stride"])
                for panel in range(self.used):
                    at = sums_place(builder, tiles, value, place, row, panel)
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

FUNCTIONS = {name: matrix_dot(dot) for name, dot in DOTS.items() if dot.is_matrix}
"""The dots of matrix registers by name."""
