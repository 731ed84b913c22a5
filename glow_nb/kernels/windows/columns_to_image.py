"""Columns that are added up in an image: lanes are neighbours of a line of the image.

Each element is the sum of the columns' elements that reach it, which are found from it: no element
is loaded twice, and a result is stored once. Along the last axis, the elements of one remainder
modulo the stride meet the same taps, and neighbours of these are neighbours in the input: so there
is a vector for each remainder, and the vectors are interleaved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import gcd

from glow_nb.base.size import MAX_SIZE, Size, surely, symbols_of
from glow_nb.hlir.ops.columns_to_image import lines_of
from glow_nb.hlir.ops.phases import Line, Phase
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.pixels import Pixels
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import (
    Block,
    blocks_of,
    ceil_power_of_two,
    computed_kind,
    native_lanes,
)
from glow_nb.llir.instructions.columns_to_image import ColumnsToImageInst
from glow_nb.llir.strides import contiguous_strides
from glow_nb.llir.traits import KernelTraits

MOST_WRITTEN_OUT = 64
"""Taps of the blocks at the ends of a line that are written out."""

MOST_INTERLEAVED = 8
"""The largest stride whose vectors are interleaved block by block, not line by line."""

MOST_VECTORS = 4
"""Vectors of a block whose elements are interleaved in registers."""


@head_kernel_for(
    ColumnsToImageInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, reaches_all=True, strided=("dest",)),
)
def columns_to_image_source(
    instruction: ColumnsToImageInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input)`` of columns that are added up, and its epilogue."""
    return _ImageWriter(instruction, target, fusion.named_by_field()).source()


@dataclass(frozen=True)
class _Columns:
    """The loop over the taps of one axis that meet one element.

    Attributes:
        line: The axis.
        tap, place: Distances of neighbours in the input, in elements.
    """

    line: Line
    tap: int
    place: int

    @property
    def advance(self) -> int:
        """Elements of the input from one tap of an element to its next one."""
        return self.line.step * self.tap - self.line.apart * self.place

    def write_first(self, out: SourceWriter, name: str, element: str) -> str:
        """Write the first tap that meets *element*, and its place ``<name>``.

        Returns how far that is in the input. ``<name>_taps`` is how many taps meet the element.
        """
        line, common = self.line, gcd(self.line.stride, self.line.dilation)
        out.line(f"{name}_to = {plus(element, line.begin)}")
        tap = "0"
        if line.step > 1:
            inverse = pow(line.dilation // common, -1, line.step)
            number = f"{name}_to" if common == 1 else f"({name}_to // {common})"
            tap = f"{name}_tap"
            out.line(f"{tap} = {times(number, inverse)} % {line.step}")
        first = f"{name}_to" if tap == "0" else f"({name}_to - {times(tap, line.dilation)})"
        out.line(f"{name} = {_divided(first, line.stride)}")
        out.line(f"{name}_taps = {_divided(f'{line.kernel + line.step - 1} - {tap}', line.step)}")
        if common > 1:
            with out.block(f"if {name}_to % {common}:"):
                out.line(f"{name}_taps = 0")
        return index_text([tap, name], [self.tap, self.place])

    def write_inside(self, out: SourceWriter, name: str) -> None:
        """Write ``<name>_begin`` and ``<name>_end``: the taps whose places there are."""
        line = self.line
        behind = _divided(plus(name, line.apart - line.inputs), line.apart)
        out.line(f"{name}_begin = max(0, {behind})")
        reached = _divided(plus(name, line.apart), line.apart)
        out.line(f"{name}_end = min({name}_taps, {reached})")


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _divided(text: str, divisor: int) -> str:
    return text if divisor == 1 else f"({text}) // {divisor}"


class _ImageWriter:
    """Writes one kernel."""

    def __init__(self, instruction: ColumnsToImageInst, target: Target, fusion: Fusion) -> None:
        self.instruction, self.fusion, self.out = instruction, fusion, SourceWriter()
        self.kind = instruction.dest.type.kind
        self.wide = computed_kind(self.kind)
        strides = contiguous_strides(instruction.input.type.shape)
        rank = len(instruction.image)
        self.plane = strides[1]
        axes = zip(lines_of(instruction), strides[2:], strides[2 + rank :], strict=False)
        *self.outer, self.last = (_Columns(*axis) for axis in axes)
        self.results = Pixels.of(fusion.pointers, instruction.dest.type.shape)
        self.native = native_lanes(target, self.wide)
        stride = self.last.line.stride
        self.interleaves = stride <= MOST_INTERLEAVED and self.results.are_dense
        self.lanes = self.native
        if self.interleaves and _is_power_of_two(stride):
            vectors = max(target.machine.unroll_vectors, min(stride, MOST_VECTORS))
            self.lanes = max(1, vectors * self.native // stride)
        if not isinstance(self.last.line.places, Size):
            self.lanes = min(self.lanes, ceil_power_of_two(max(1, self.last.line.places)))

    def source(self) -> KernelSource:
        """Return the kernel."""
        out, dest = self.out, self.instruction.dest.type
        out.line(f"# columns of {self.instruction.input.type} to an image {self.instruction.image}")
        is_empty = surely(dest.size, "==", 0)
        rows = 0 if is_empty else self._scratch_elements
        with out.block(self.fusion.header):
            if is_empty:
                out.line("return")
            else:
                if rows:
                    out.line(f"rows = as_{self.wide.value}(scratch)")
                with loops(out, dest.shape[:-1], shared=True) as indices:
                    self._write_row(indices)
        size = rows * self.wide.size_bytes
        return KernelSource("columns_to_image", out.text, self.fusion.kinds, size)

    @property
    def _scratch_elements(self) -> int:
        """Room for the vectors of a block, or for those of a line, and for them in order."""
        stride = self.last.line.stride
        if not self.interleaves:
            return stride * self._pitch + self.last.line.results
        return 0 if _is_power_of_two(stride) else 2 * stride * self.lanes

    @property
    def _pitch(self) -> int:
        """Elements of a line in scratch from one remainder to the next."""
        return -(-self.last.line.places // self.lanes) * self.lanes

    @property
    def _phases(self) -> list[Phase]:
        """Which taps meet the elements of each remainder; of an open line, those of a long one."""
        line = self.last.line
        if symbols_of(line.results, line.inputs):
            line = replace(line, inputs=MAX_SIZE, results=line.stride * MAX_SIZE)
        return line.phases

    def _write_row(self, indices: Sequence[str]) -> None:
        """Compute one line of the image."""
        out, (batch, channel, *elements) = self.out, indices
        channels = self.instruction.dest.type.shape[1]
        first = [index_text([batch, channel], [channels * self.plane, self.plane])]
        for number, (axis, element) in enumerate(zip(self.outer, elements, strict=True)):
            first.append(axis.write_first(out, f"k{number}", element))
            axis.write_inside(out, f"k{number}")
        out.line(f"first = {plus(*first)}")
        places = self.results.write_places(out, indices)
        if self.interleaves:
            self._write_interleaved(places)
        else:
            self._write_staged(places)

    @contextmanager
    def _outer_taps(self) -> Iterator[str]:
        """Write loops over the taps of the outer axes; yields where the input is read."""
        with ExitStack() as stack:
            names = [f"j{number}" for number in range(len(self.outer))]
            for number, name in enumerate(names):
                header = f"for {name} in range(k{number}_begin, k{number}_end):"
                stack.enter_context(self.out.block(header))
            further = index_text(names, [axis.advance for axis in self.outer])
            self.out.line(f"source = {plus('first', further)}")
            yield "source"

    def _write_interleaved(self, places: dict[str, str]) -> None:
        """Compute a line block by block: of each, a vector for each remainder.

        Blocks at the ends, for which some taps are outside of the input, are written out.
        """
        out, line, lanes = self.out, self.last.line, self.lanes
        stride, phases = line.stride, [phase for phase in self._phases if phase.taps]
        if symbols_of(line.results, line.inputs):
            self._write_open_blocks(places, phases)
            return
        whole = line.results // (stride * lanes) * lanes
        low = max((phase.begin for phase in phases), default=0)
        high = line.inputs - lanes - max(map(self._shift, phases), default=0)
        inside = [q for q in range(0, whole, lanes) if low <= q <= high]
        ends = [q for q in range(0, whole, lanes) if q not in inside]
        if len(ends) * line.kernel > MOST_WRITTEN_OUT:
            inside, ends = [], []
            with out.block(f"for q in range(0, {whole}, {lanes}):"):
                self._write_block(places, "q", None, lanes)
        for q in ends:
            self._write_block(places, str(q), q, lanes)
        if inside:
            with out.block(f"for q in range({inside[0]}, {inside[-1] + 1}, {lanes}):"):
                self._write_block(places, "q", low, lanes)
        rest = line.results - stride * whole
        if rest:
            lanes = ceil_power_of_two(-(-rest // stride))
            self._write_block(places, str(whole), whole, lanes, rest)

    def _write_open_blocks(self, places: dict[str, str], phases: Sequence[Phase]) -> None:
        """Compute a line block by block; the run decides which ones see nothing but the input.

        What lies at the ends is taken in narrow blocks.
        """
        out, line = self.out, self.last.line
        narrow, reach = min(self.lanes, self.native), max(map(self._shift, phases), default=0)
        low = max((phase.begin for phase in phases), default=0)
        out.line(f"q = 0\nwhole = {line.results} // {line.stride}")
        out.line(f"inside = min(whole, {line.inputs - reach})")
        with out.block(f"while q <= whole - {narrow}:"):
            for known, lanes in sorted({(0, narrow), (low, narrow), (low, self.lanes)})[::-1]:
                begins = f"q >= {low}" if known == low else "q == 0"
                with out.block(f"if {begins} and q <= inside - {lanes}:"):
                    self._write_block(places, "q", known, lanes)
                    out.line(f"q = q + {lanes}\ncontinue")
            self._write_block(places, "q", None, narrow)
            out.line(f"q = q + {narrow}")
        out.line(f"rest = {line.results} - {times('q', line.stride)}")
        with out.block("if rest > 0:"):
            self._write_block(places, "q", None, narrow, "rest")

    def _write_block(
        self,
        places: dict[str, str],
        q: str,
        known: int | None,
        lanes: int,
        count: int | str | None = None,
    ) -> None:
        """Compute a block of a line, *lanes* elements of each remainder from *q* on.

        It sees the same of the input as the block at *known*, if that is known: one that ends
        inside, if the input is open. Only *count* elements are stored, if not all.
        """
        out, line = self.out, self.last.line
        for number in range(line.stride):
            out.line(f"t{number} = splat_{self.wide.value}({self._zero}, {lanes})")
        with self._outer_taps() as source:
            for number, phase in enumerate(self._phases):
                if known is None:
                    self._write_taps(source, number, phase, lanes)
                    continue
                for j in range(phase.taps):
                    place = self._shift(phase) - j * line.apart
                    begin, end = -(known + place), line.inputs - (known + place)
                    if isinstance(end, Size):
                        end = lanes
                    if begin >= lanes or end <= 0:
                        continue
                    tap = (phase.tap + j * line.step) * self.last.tap
                    at = f"{plus(source, q, tap + place)}, {lanes}"
                    load = f"load_between(input, {at}, {max(begin, 0)}, {min(end, lanes)})"
                    if begin <= 0 and end >= lanes:
                        load = f"load(input, {at})"
                    out.line(f"t{number} = add(t{number}, {self._widened(load)})")
        self._write_results(places, q, lanes, count or line.stride * lanes)

    def _write_taps(self, source: str, number: int, phase: Phase, lanes: int) -> None:
        """Add up the taps that meet the elements from ``q`` on of one remainder."""
        out, line = self.out, self.last.line
        with out.block(f"for j in range({phase.taps}):"):
            out.line(f"i = {plus('q', self._shift(phase), times('j', -line.apart))}")
            at = plus(source, phase.tap * self.last.tap, times("j", line.step * self.last.tap), "i")
            load = f"load_between(input, {at}, {lanes}, -i, {line.inputs} - i)"
            out.line(f"t{number} = add(t{number}, {self._widened(load)})")

    def _shift(self, phase: Phase) -> int:
        """Return the place that the first tap of *phase* meets element 0 of its remainder at."""
        return self.last.line.apart * (phase.taps - 1) - phase.begin

    def _write_results(self, places: dict[str, str], q: str, lanes: int, count: int | str) -> None:
        """Interleave the sums of all remainders; finish and store the first *count* elements."""
        stride = self.last.line.stride
        vectors = [f"t{number}" for number in range(stride)]
        if not _is_power_of_two(stride):
            self._write_picked(places, q, lanes, count)
            return
        while len(vectors) > 1:
            half = len(vectors) // 2
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [f"interleave({a}, {b})" for a, b in pairs]
        self._finish(places, vectors[0], times(q, stride), stride * lanes, count)

    def _write_picked(self, places: dict[str, str], q: str, lanes: int, count: int | str) -> None:
        """Interleave the sums by way of scratch, vector by vector."""
        out, stride = self.out, self.last.line.stride
        for number in range(stride):
            out.line(f"store(rows, {number * lanes}, t{number})")
        size = stride * lanes
        order = " ".join(str(x % stride * lanes + x // stride) for x in range(size))
        out.line(f'pick(rows, {size}, rows, 0, "{order}", {lanes})')
        for number in range(stride if isinstance(count, str) else -(-count // lanes)):
            first, done = plus(times(q, stride), number * lanes), number * lanes
            load = f"load(rows, {size + done}, {lanes})"
            left: int | str = f"max(0, {count} - {done})"
            if not isinstance(count, str):
                left = count - done
            self._finish(places, load, first, lanes, left)

    def _finish(
        self, places: dict[str, str], vector: str, first: str, lanes: int, count: int | str
    ) -> None:
        used: int | str | None = f"min({lanes}, {count})"
        if not isinstance(count, str):
            used = count if count < lanes else None
        block = Block(first, lanes, used)
        self.fusion.write(self.out, self.results.site(block, places), self._narrowed(vector))

    def _write_staged(self, places: dict[str, str]) -> None:
        """Compute a line in scratch, remainder by remainder, then finish it in order.

        Any stride will do, or results that do not lie side by side.
        """
        out, line, lanes = self.out, self.last.line, self.lanes
        stride, row = line.stride, line.stride * self._pitch
        with out.block(f"for r in range({stride}):"):
            out.line(f"shift = {self.last.write_first(out, 'k', 'r')}")
            with out.block(f"for q in range(0, {line.places}, {lanes}):"):
                out.line(f"total = splat_{self.wide.value}({self._zero}, {lanes})")
                with self._outer_taps() as source, out.block("for j in range(k_taps):"):
                    out.line(f"i = {plus('q', 'k', times('j', -line.apart))}")
                    place = plus(source, "shift", "q", times("j", self.last.advance))
                    load = f"load_between(input, {place}, {lanes}, -i, {line.inputs} - i)"
                    out.line(f"total = add(total, {self._widened(load)})")
                out.line(f"store(rows, {plus(times('r', self._pitch), 'q')}, total)")
        if stride > 1:
            with out.block(f"for x in range({line.results}):"):
                place = f"x % {stride} * {self._pitch} + x // {stride}"
                out.line(f"put(rows, {plus(row, 'x')}, get(rows, {place}))")
        begin = row if stride > 1 else 0
        for block in blocks_of(out, line.results, self.native if self.results.are_dense else 1):
            total = block.load("rows", plus(begin, block.column))
            self.fusion.write(out, self.results.site(block, places), self._narrowed(total))

    @property
    def _zero(self) -> str:
        return "0.0" if self.wide.is_float else "0"

    def _widened(self, load: str) -> str:
        return load if self.kind is self.wide else f"convert_{self.wide.value}({load})"

    def _narrowed(self, vector: str) -> str:
        return vector if self.kind is self.wide else f"convert_{self.kind.value}({vector})"
