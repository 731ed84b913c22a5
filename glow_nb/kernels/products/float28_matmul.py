"""Kernels of products of few rows with matrices in floats of 28 bits (:mod:`glow_nb.float28`).

All that such a product waits for is the memory, which delivers weights that take 7/8 of their bytes
8/7 times as fast. A register tile is all rows by one vector of columns of each of several panels:
these lie far apart and follow each other, so that memory is read in as many streams, which go on
from panel to panel.

The products of outliers, in whose places zeros stand, are added afterwards. If a result is not
finite then, its panel is summed up anew with the outliers in their places: the product of an
infinity and a zero is NaN, but that of an infinity and the outlier may be none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from glow_nb.errors import UnsupportedError
from glow_nb.float28 import TOGETHER, WORDS, words_of
from glow_nb.kernels.operators.float28 import STREAMS, Float28MatMulInst
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.program import kernel_operands
from glow_nb.llir.traits import KernelTraits

CHAIN = 128
"""Products that are added up one after the other: a shorter chain rounds less, and costs nothing
where all wait for the memory. Chains of 96 to 1536 products took the same time on a Zen 4 core."""

STEPS = 16
"""Steps, of a panel in each stream, whose sums are made before the first one is finished. While a
panel is finished, memory waits: 35 matrices of 768 x 3072 in turn come at 28 GB/s with one step, at
31.7 with 8, 16 or 48 of them on a Zen 4 core."""

WIDTHS = (1, 2, 4, 8, 16)
"""Columns of a panel, which are one vector, whatever the processor has."""

LARGEST_TILE = 8
"""Left rows that there are kernels for: all are in one tile."""


@head_kernel_for(
    Float28MatMulInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "lhs")),
)
def float28_mat_mul_source(
    instruction: Float28MatMulInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, lhs, rhs, places, outliers[, bias])`` and its epilogue.

    Raises:
        UnsupportedError: A panel is no vector, or there are too many rows.
    """
    if instruction.block not in WIDTHS:
        raise UnsupportedError(
            f"{instruction!r}: panels of {instruction.block} columns, but there are kernels for "
            f"one of {WIDTHS} only"
        )
    writer = Float28Writer(instruction, fusion)
    if writer.rows > LARGEST_TILE:
        raise UnsupportedError(
            f"{instruction!r}: {writer.rows} left rows, but there are kernels for at most "
            f"{LARGEST_TILE}; choose packed_mat_mul"
        )
    return KernelSource("float28_mat_mul", writer.write(), fusion.kinds, writer.scratch_bytes)


class Float28Writer:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(self, instruction: Float28MatMulInst, fusion: Fusion) -> None:
        self.inner, self.depth = instruction.lhs.type.shape[-1], instruction.depth
        self.rows = prod(instruction.dest.type.shape[:-1])
        self.lanes = instruction.block
        self.gap = instruction.rhs.type.shape[0] // STREAMS  # panels of a stream
        # what is shorter than eight rows has no outliers
        self.most = instruction.places.type.shape[1] if self.inner >= TOGETHER else 0
        self.row = elements_between_pixels(fusion.input)
        self.fusion = fusion.named_by_field()
        _, *operands = kernel_operands(self.fusion.head)
        names = (self.fusion.names[buffer] for buffer in operands)
        self.lhs, self.rhs, self.least, self.places, self.outliers, *self.bias = names
        self.out, self.tiles = SourceWriter(), TileStore(self.fusion, self.lanes)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the sums of several steps, and of eight rows of numbers."""
        return 4 * (STEPS * self._step_sums + TOGETHER * self.lanes)

    @property
    def _step_sums(self) -> int:
        return self.rows * STREAMS * self.lanes

    @property
    def _panel_words(self) -> int:
        return words_of(self.inner) * self.lanes

    def write(self) -> str:
        """Return the whole text."""
        out = self.out
        out.line(
            f"# product of {self.rows} x {self.inner} and {self.depth} columns in floats of 28 "
            f"bits\n# {STREAMS} streams of {self.gap} panels of {self.lanes}, at most {self.most} "
            f"outliers in a panel; sums of {STEPS} panels of each stream at a time"
        )
        with out.block(self.fusion.header):
            if min(self.rows, self.depth) == 0:
                out.line("return")
                return out.text
            write_shares(out, 1, self.gap, panels_first=True)
            sums = STEPS * self._step_sums
            out.line(f"sums = as_float32(scratch)\nnumbers = at(sums, {sums})")
            out.line(f"first_exponent = get({self.least}, 0)")
            with out.block(f"for begin in range(panel_begin, panel_end, {STEPS}):"):
                out.line(f"count = min({STEPS}, panel_end - begin)")
                with out.block("for step in range(count):"):
                    self._write_sums()
                with out.block(f"for stream in range({STREAMS}):"), self._each_panel():
                    self._write_panel()
        return out.text

    @contextmanager
    def _each_panel(self) -> Iterator[None]:
        """Loop over panels of a stream whose sums are known; find ``channel`` and ``sum``."""
        out, lanes = self.out, self.lanes
        with out.block("for step in range(count):"):
            out.line(f"panel = stream * {self.gap} + begin + step")
            out.line(f"channel = panel * {lanes}")
            out.line(f"sum = step * {self._step_sums} + stream * {lanes}")
            yield

    def _write_sums(self) -> None:
        """Sum up a tile of a panel of each stream, chain by chain."""
        out, size = self.out, f"{self.rows}, {STREAMS}, {self.lanes}"
        units, longest = self.inner // TOGETHER, CHAIN // TOGETHER
        chains = -(-units // longest)
        length = -(-units // max(1, chains))
        out.line(f"words = {times('(begin + step)', self._panel_words)}")
        out.line(f"t = tile_fill(sums, 0, {size})")

        def dot(total: str, x: str, w: str, count: str) -> str:
            return (
                f"tile_dot_float28({total}, {self.lhs}, {x}, {self.row}, {self.rhs}, {w}, "
                f"{self.gap * self._panel_words}, first_exponent, {count})"
            )

        if chains == 1:
            out.line(f"t = {dot('t', '0', 'words', str(units))}")
        elif chains:
            with out.block(f"for first in range(0, {units}, {length}):"):
                out.line(f"part = tile_fill(sums, 0, {size})")
                place = plus("words", times("first", WORDS * self.lanes))
                count = str(length) if units % length == 0 else f"min({length}, {units} - first)"
                part = dot("part", times("first", TOGETHER), place, count)
                out.line(f"t = add(t, {part})")
        to = times("step", self._step_sums)
        out.line(f"tile_store(sums, {to}, {STREAMS * self.lanes}, t)")

    def _write_panel(self) -> None:
        """Store the sums of a panel, whole ones and those of the last columns."""
        out, lanes = self.out, self.lanes
        whole, rest = divmod(self.depth, lanes)
        if whole:
            with out.block(f"if panel < {whole}:"):
                self._write_store("a", lanes)
        if rest:
            with out.block(f"if panel == {whole}:"):
                self._write_store("b", rest)

    def _write_store(self, tag: str, columns: int) -> None:
        out, lanes, name = self.out, self.lanes, f"t_{tag}"
        size = f"{self.rows}, 1, {lanes}"
        out.line(f"{name} = tile_load(sums, sum, {STREAMS * lanes}, {size})")
        self._write_last_rows(name)
        if self.most:
            self._write_outliers(name)
            with out.block(f"if not tile_is_finite({name}):"):
                self._write_direct_sums(name, size)
        for bias in self.bias:
            out.line(f"{name} = add({name}, tile_bias({bias}, channel, {size}))")
        self.tiles.write(out, name, self.rows, columns=columns, pixel="0", channel="channel")

    def _write_last_rows(self, name: str) -> None:
        """Add the products of the rows that are left over of eights."""
        whole, rest = divmod(self.inner, TOGETHER)
        if rest:
            place = plus(times("panel", self._panel_words), whole * WORDS * self.lanes)
            self._write_dot(name, whole * TOGETHER, f"as_float32({self.rhs})", place, rest)

    def _write_dot(self, name: str, x: str | int, numbers: str, place: str, count: int) -> None:
        """Add *count* products of plain numbers to the sums of a panel."""
        self.out.line(
            f"{name} = tile_dot({name}, {self.lhs}, {x}, {self.row}, 1, {numbers}, {place}, "
            f"{self.lanes}, {self.lanes}, {count}, 0, 0)"
        )

    def _write_outliers(self, name: str) -> None:
        """Add the products of a panel's outliers to its sums.

        They stay in registers: a vector of which one number has just been stored is read late. All
        that a panel may have are added, of those that it has not zeros: how many it has, no
        processor predicts.
        """
        out, lanes = self.out, self.lanes
        end = self.inner // TOGETHER * TOGETHER * lanes
        out.line("before = -1")
        with out.block(f"for number in range(panel * {self.most}, (panel + 1) * {self.most}):"):
            out.line(f"place = get({self.places}, number)")
            out.line(f"is_one = before < place < {end}")
            out.line(f"before = place if is_one else {end}")
            out.line("place = place if is_one else 0")
            out.line(f"outlier = get({self.outliers}, number) if is_one else 0.0")
            lane = f"equal(iota_int32({lanes}), splat_int32(place % {lanes}, {lanes}))"
            zeros = f"splat_float32(0.0, {lanes})"
            out.line(f"vector = where({lane}, splat_float32(outlier, {lanes}), {zeros})")
            for row in range(self.rows):
                x = f"broadcast({self.lhs}, {plus(row * self.row, f'place // {lanes}')}, {lanes})"
                sum = f"fma({x}, vector, tile_get({name}, {row}, 0))"
                out.line(f"{name} = tile_set({name}, {row}, 0, {sum})")

    def _write_direct_sums(self, name: str, size: str) -> None:
        """Sum up a panel with its outliers in their places, eight rows at a time."""
        out, lanes, eight = self.out, self.lanes, TOGETHER * self.lanes
        out.line(f"{name} = tile_fill(sums, 0, {size})")
        out.line(f"before = -1\nnumber = panel * {self.most}")
        with out.block(f"for unit in range({self.inner // TOGETHER}):"):
            words = plus(times("panel", self._panel_words), times("unit", WORDS * lanes))
            out.line(f"unpack_float28(numbers, 0, {self.rhs}, {words}, {lanes}, first_exponent)")
            with out.block(f"while number < (panel + 1) * {self.most}:"):
                out.line(f"place = get({self.places}, number)")
                with out.block(f"if not before < place < (unit + 1) * {eight}:"):
                    out.line("break")
                out.line(f"at_place = place - unit * {eight}")
                out.line(f"outlier = get(numbers, at_place) + get({self.outliers}, number)")
                out.line("put(numbers, at_place, outlier)")
                out.line("before = place\nnumber += 1")
            self._write_dot(name, times("unit", TOGETHER), "numbers", "0", TOGETHER)
        self._write_last_rows(name)
