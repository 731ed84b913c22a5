"""GridSample: places of some points in vectors, then each point with channels in the lanes.

For a chunk of points, scratch holds which elements count along each axis and how much; then, for
each combination of the axes' taps, the number of the pixel, its weight, and whether it is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.size import Size, surely
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import NARROW_FLOATS
from glow_nb.hlir.ops.formulas.sampling import (
    INSIDE,
    NEAREST,
    PLACE,
    TAPS,
    WEIGHT,
    ZEROS,
    Sampler,
    tap_function,
)
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.step_code import StepCode
from glow_nb.kernels.writing.vectors import Block, blocks_of, computed_kind, native_lanes
from glow_nb.llir.instructions.grid_sample import GridSampleInst

INT32, INT64 = ElementKind.INT32, ElementKind.INT64
FLOAT32 = ElementKind.FLOAT32
CHUNK = 64
"""Points whose places are computed before they are sampled."""
MOST_WRITTEN_TAPS = 8
"""Elements of a result that are written out one by one; more are a loop."""


@kernel_for(GridSampleInst)
def grid_sample_source(instruction: GridSampleInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input, grid)`` of an image sampled at places."""
    kinds = tuple(
        operand.type.kind for operand in (instruction.dest, instruction.input, instruction.grid)
    )
    out, scratch = SourceWriter(), 0
    with out.block("def kernel(dest, input, grid, scratch, thread, threads):"):
        if surely(instruction.dest.type.size, "==", 0):
            out.line("return")
        else:
            writer = _Writer(out, instruction, target)
            writer.write()
            scratch = writer.scratch_bytes
    return KernelSource("grid_sample", out.text, kinds, scratch)


@dataclass(frozen=True)
class _Writer:
    """Writes the kernel.

    Attributes:
        out: Receives the lines.
        node: The instruction.
        target: The processor.
    """

    out: SourceWriter
    node: Any
    target: Target

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Elements of the image along its axes."""
        sizes: tuple[int, ...] = self.node.input.type.shape[1:-1]
        return sizes

    @property
    def _points(self) -> int:
        """Places of one image."""
        return prod(self.node.grid.type.shape[1:-1])

    @property
    def _place_kind(self) -> ElementKind:
        kind: ElementKind = self.node.grid.type.kind
        return FLOAT32 if kind in NARROW_FLOATS else kind

    @property
    def _kind(self) -> ElementKind:
        """The kind that elements are added up in."""
        return computed_kind(self.node.input.type.kind)

    @property
    def _bits(self) -> ElementKind:
        """The integers with the same number of bits."""
        return INT32 if self._kind is FLOAT32 else INT64

    @property
    def _pixel_kind(self) -> ElementKind:
        """Integers that number the pixels of an image."""
        return INT32 if surely(prod(self._sizes), "<", 1 << 31) else INT64

    @property
    def _lanes(self) -> int:
        """Points of a vector."""
        kinds = (self._place_kind, self._kind, self._pixel_kind)
        return min(native_lanes(self.target, *kinds), CHUNK)

    @property
    def _chunk(self) -> int:
        """Points that are sampled together: whole vectors, unless an image has fewer points."""
        points, lanes = self._points, self._lanes
        return CHUNK if isinstance(points, Size) else min(CHUNK, max(points // lanes, 1) * lanes)

    @property
    def _taps(self) -> int:
        """Taps along an axis."""
        return TAPS[self.node.mode]

    @property
    def _combinations(self) -> int:
        count: int = self._taps ** len(self._sizes)
        return count

    @property
    def _has_weights(self) -> bool:
        return bool(self.node.mode != NEAREST)

    @property
    def _has_outside(self) -> bool:
        return bool(self.node.padding == ZEROS)

    @property
    def _parts(self) -> dict[str, tuple[int, ElementKind]]:
        """The vectors of a chunk in each part of scratch, by the name of its pointer."""
        along, all = len(self._sizes) * self._taps, self._combinations
        parts = {"columns": (len(self._sizes), self.node.grid.type.kind)}
        parts |= {"places": (along, self._pixel_kind), "pixels": (all, self._pixel_kind)}
        if self._has_weights:
            parts |= {"shares": (along, self._kind), "weights": (all, self._kind)}
        if self._has_outside:
            parts |= {"insides": (along, self._bits), "masks": (all, self._bits)}
        return parts

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch of a thread."""
        return sum(self._bytes_of(*part) for part in self._parts.values())

    def _bytes_of(self, count: int, kind: ElementKind) -> int:
        return aligned_bytes(count * self._chunk * kind.size_bytes)

    def write(self) -> None:
        """Write the loop over chunks, for the share of one thread."""
        out, points, chunk, begin = self.out, self._points, self._chunk, 0
        for name, part in self._parts.items():
            out.line(f"{name} = as_{part[1].value}(at(scratch, {begin}))")
            begin += self._bytes_of(*part)
        is_open = isinstance(points, Size)
        count = "count" if is_open else f"{min(points, chunk)}"
        if is_open:
            out.line(f"count = min({points}, {chunk})")
        images = self.node.input.type.shape[0]
        with loops(out, [images, -(-points // chunk)], shared=True) as (image, number):
            first = "0"
            if number != "0":  # the last chunk overlaps the one before
                before = f"min({number} * {chunk}, {points - chunk})"
                out.line(f"first = max(0, {before})" if is_open else f"first = {before}")
                first = "first"
            out.line(f"point = {plus(times(image, points), first)}")
            out.line(f"image = {times(image, prod(self._sizes))}")
            if is_open:
                self._write_open_columns()
            else:
                self._write_columns(min(points, chunk))
            with out.block(f"for v in range(0, {count if is_open else chunk}, {self._lanes}):"):
                for axis, size in enumerate(self._sizes):
                    self._write_axis(axis, size)
                self._write_combinations()
            with out.block(f"for p in range({count}):"):
                self._write_point()

    def _write_columns(self, count: int) -> None:
        """Write the coordinates of *count* points to scratch, each axis by itself."""
        step = min(self._lanes, count)
        for axis in range(len(self._sizes)):
            with self.out.block(f"for v in range(0, {count}, {step}):"):
                self._write_picked(axis, step)

    def _write_open_columns(self) -> None:
        """Write the coordinates of ``count`` points to scratch: what no vector holds singly."""
        lanes = self._lanes
        for axis in range(len(self._sizes)):
            with self.out.block(f"for v in range(0, count - {lanes - 1}, {lanes}):"):
                self._write_picked(axis, lanes)
            with self.out.block(f"for v in range(count - count % {lanes}, count):"):
                self._write_picked(axis, 1)

    def _write_picked(self, axis: int, step: int) -> None:
        """Write the coordinates along *axis* of this number of points from ``v`` on to scratch."""
        rank = len(self._sizes)
        column = axis if self.node.coordinates == "elements" else rank - 1 - axis
        places = " ".join(str(column + rank * lane) for lane in range(step))
        to, source = plus(axis * self._chunk, "v"), f"(point + v) * {rank}"
        self.out.line(f'pick(columns, {to}, grid, {source}, "{places}", {step})')

    def _write_axis(self, axis: int, size: int) -> None:
        """Write the places, shares and presence of the taps along one axis."""
        out, lanes = self.out, self._lanes
        sampler = Sampler(self.node.mode, self.node.padding, self.node.coordinates)
        known = None if isinstance(size, Size) else size
        function = tap_function(sampler, known, TensorType(self._place_kind, (1, lanes)))
        column = f"load(columns, {plus(axis * self._chunk, 'v')}, {lanes})"

        def load(name: str) -> str:
            if name == "size":
                return f"splat_{self._place_kind.value}({size}, {lanes})"
            return f"convert_{self._place_kind.value}({column})"

        made = StepCode(function).write(out, f"a{axis}_", lanes, load)
        whole = self._pixel_kind.value
        for tap in range(self._taps):
            at = plus((axis * self._taps + tap) * self._chunk, "v")
            place = f"convert_{whole}({made[f'{PLACE}{tap}']})"
            low, high = (f"splat_{whole}({end}, {lanes})" for end in (0, size - 1))
            out.line(f"store(places, {at}, minimum(maximum({place}, {low}), {high}))")
            if self._has_weights:
                share = f"convert_{self._kind.value}({made[f'{WEIGHT}{tap}']})"
                out.line(f"store(shares, {at}, {share})")
            if self._has_outside:
                inside = made[f"{INSIDE}{tap}"]
                ones, zeros = (f"splat_{self._bits.value}({n}, {lanes})" for n in (-1, 0))
                out.line(f"store(insides, {at}, where({inside}, {ones}, {zeros}))")

    def _write_combinations(self) -> None:
        """Write the pixel, the weight and the presence of each combination of taps."""
        out, lanes, rank = self.out, self._lanes, len(self._sizes)
        names = [f"k{axis}" if self._taps > 1 else "0" for axis in range(rank)]
        with _nested(out, [(name, self._taps) for name in names if name != "0"]):
            places = [
                f"({plus(axis * self._taps, name)}) * {self._chunk} + v"
                for axis, name in enumerate(names)
            ]
            number = index_text(names, [self._taps ** (rank - 1 - axis) for axis in range(rank)])
            to = f"({number}) * {self._chunk} + v"
            for axis, place in enumerate(places):
                found = f"load(places, {place}, {lanes})"
                if axis:
                    width = f"splat_{self._pixel_kind.value}({self._sizes[axis]}, {lanes})"
                    found = f"add(mul(pixel, {width}), {found})"
                out.line(f"pixel = {found}")
            out.line(f"store(pixels, {to}, pixel)")
            for dest, source, function, is_there in (
                ("weights", "shares", "mul", self._has_weights),
                ("masks", "insides", "bit_and", self._has_outside),
            ):
                if is_there:
                    loads = [f"load({source}, {place}, {lanes})" for place in places]
                    out.line(f"joined_{source} = {loads[0]}")
                    for other in loads[1:]:
                        out.line(f"joined_{source} = {function}(joined_{source}, {other})")
                    out.line(f"store({dest}, {to}, joined_{source})")

    def _write_point(self) -> None:
        """Write the channels of one point."""
        out, kind = self.out, self.node.input.type.kind
        channels, count = self.node.input.type.shape[-1], self._combinations
        written = count <= MOST_WRITTEN_TAPS
        for tap in range(count if written else 0):
            out.line(f"row{tap} = {self._row(plus(tap * self._chunk, 'p'))}")
        out.line(f"to = (point + p) * {channels}")
        for block in self._channel_blocks(channels):
            if written:
                for tap in range(count):
                    place = plus(tap * self._chunk, "p")
                    self._write_tap(block, f"row{tap}", place, is_first=tap == 0)
            else:
                out.line(f"total = splat_{self._kind.value}(0.0, {block.lanes})")
                with out.block(f"for tap in range({count}):"):
                    out.line(f"cell = tap * {self._chunk} + p")
                    out.line(f"row = {self._row('cell')}")
                    self._write_tap(block, "row", "cell", is_first=False)
            stored = f"convert_{kind.value}(total)"
            out.line(block.store("dest", plus("to", block.column), stored))

    def _channel_blocks(self, channels: int) -> Iterator[Block]:
        """Yield the blocks of the channels; what is left of whole ones overlaps the one before."""
        lanes = native_lanes(self.target, self._kind)
        wide = self.target.machine.unroll_vectors * lanes
        if isinstance(channels, Size):
            yield from blocks_of(self.out, channels, wide)
            return
        if channels < lanes:
            yield from blocks_of(self.out, channels, lanes)
            return
        whole = channels // wide * wide
        if whole:
            yield from blocks_of(self.out, whole, wide)
        rest = -(-(channels - whole) // lanes) * lanes
        if rest > channels:
            yield Block("0", rest - lanes)
            rest = lanes
        if rest:
            yield Block(str(channels - rest), rest)

    def _row(self, place: str) -> str:
        """Return where the channels of the pixel at a *place* of scratch begin."""
        return f"(image + get(pixels, {place})) * {self.node.input.type.shape[-1]}"

    def _write_tap(self, block: Block, row: str, place: str, *, is_first: bool) -> None:
        """Add the channels of a pixel, times its weight, to ``total``."""
        kind, lanes = self._kind.value, block.lanes
        value = f"convert_{kind}({block.load('input', plus(row, block.column))})"
        if self._has_outside:
            mask = f"broadcast(masks, {place}, {lanes})"
            bits = f"bit_and(bit_cast_{self._bits.value}({value}), {mask})"
            value = f"bit_cast_{kind}({bits})"
        if not self._has_weights:
            self.out.line(f"total = {value}")
            return
        weight = f"broadcast(weights, {place}, {lanes})"
        made = f"mul({weight}, {value})" if is_first else f"fma({weight}, {value}, total)"
        self.out.line(f"total = {made}")


@contextmanager
def _nested(out: SourceWriter, walked: list[tuple[str, int]]) -> Iterator[None]:
    """Write loops around the block."""
    if not walked:
        yield
        return
    (name, size), *rest = walked
    with out.block(f"for {name} in range({size}):"), _nested(out, rest):
        yield
