"""The end of a finished register tile: the epilogue, and the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod

from glow_nb.fuse.vector_code import VectorCode
from glow_nb.kernels.stacks.fusion import Fusion, Place
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Block, Site, floor_power_of_two
from glow_nb.llir.scalar_functions import CostClass

MOST_VECTORS = 4
"""Vectors that go through a long epilogue together: a power of two."""


@dataclass(frozen=True)
class TileStore:
    """Where the finished tiles of a kernel go: through its epilogue to its results.

    Rows of a tile are pixels at equal distances. Each tensor of the result's shape has its own
    distance from pixel to pixel: it may be a window of a wider one.

    Attributes:
        fusion: The pointers, the first of which is ``dest``, and the epilogue.
        lanes: Elements of a vector.
        apart: Pixels from row to row of a tile.
    """

    fusion: Fusion
    lanes: int
    apart: int = 1

    def write(
        self,
        out: SourceWriter,
        tile: str,
        rows: int,
        *,
        columns: int,
        pixel: str,
        channel: str,
        used: str | None = None,
    ) -> None:
        """Write what becomes of a tile, whose first *columns* columns are in use.

        Args:
            out: Receives the lines.
            tile: Name of the tile, of the kind of the head's result.
            rows: Rows of the tile.
            columns: Output channels that it holds.
            pixel: The number of the pixel that its first row is, a name or in brackets.
            channel: Expression of the output channel of its first column.
            used: The number of its *columns*, which are whole vectors, in use, if this is known
                only at run time. Some columns of the last vector are among them.
        """
        vectors = -(-columns // self.lanes)
        is_whole = used is None and columns == vectors * self.lanes
        in_use: int | str = columns if used is None else used
        if self.fusion.epilogue is None:
            stride = self.strides["dest"]
            index = plus(times(pixel, stride), channel)
            suffix, mask = ("", "") if is_whole else ("_masked", f", {in_use}")
            out.line(f"tile_store{suffix}(dest, {index}, {self.apart * stride}, {tile}{mask})")
            return
        places = self._write_places(out, tile, pixel, channel)
        if self._stays_in_registers:
            part_used = None if is_whole else in_use
            strides = {name: self.apart * stride for name, stride in self.strides.items()}
            self.finish(out, _TilePart(self, places, strides, rows, vectors, part_used), tile, tile)
            return
        out.line(f"kept_{tile} = tile_keep({tile})")
        kept = KeptTile(f"kept_{tile}", "0", vectors * self.lanes)
        _WaitingTile(self, out, tile, rows, kept, places).write_all(columns, used)

    def write_kept(
        self,
        out: SourceWriter,
        tile: str,
        rows: int | str,
        kept: KeptTile,
        *,
        columns: int,
        pixel: str,
        channel: str,
        used: str | None = None,
    ) -> None:
        """Write what becomes of a tile that lies in memory; see :meth:`write`.

        Only the run may know how many *rows* it has.
        """
        places = self._write_places(out, tile, pixel, channel)
        _WaitingTile(self, out, tile, rows, kept, places).write_all(columns, used)

    @property
    def touched_bytes(self) -> int:
        """Bytes of the tensors of the result's shape that the kernel reads or writes."""
        return sum(b.type.size_bytes for name, b in self.fusion.pointers if name in self.strides)

    def write_prefetch(
        self,
        out: SourceWriter,
        rows: int,
        columns: int,
        pixel: str,
        channel: str,
        *,
        apart: int = 0,
    ) -> None:
        """Bring what a tile will write, and what its epilogue reads, nearer; see :meth:`write`.

        Where it lies in main memory, a tile that has just begun has time for that. Its rows are
        *apart* pixels apart, by default as many as those of a tile.
        """
        for name, stride in self.strides.items():
            for column in range(0, columns, self.lanes):
                place = plus(times(pixel, stride), channel, column)
                out.line(
                    f"tile_prefetch({name}, {place}, {(apart or self.apart) * stride}, {rows})"
                )

    def finish(self, out: SourceWriter, place: Place, tile: str, result: str) -> None:
        """Write the epilogue on *result* and the stores, that to ``dest`` last."""
        if self.fusion.epilogue is None:
            out.line(place.store("dest", result))
            return
        code = VectorCode(place.lanes, f"{tile}_")
        value = code.assign(result, self.fusion.made.type.kind)
        vectors = self.fusion.finish(out, place, code, value)
        dest, *others = self.fusion.results
        for buffer in (*others, dest):
            out.line(place.store(self.fusion.names[buffer], vectors[buffer].name))

    @cached_property
    def _stays_in_registers(self) -> bool:
        """Return whether the epilogue is so short that a whole tile may go through it at once."""
        assert self.fusion.epilogue is not None
        calls = self.fusion.epilogue.trial().calls
        return all(function.cost is CostClass.CHEAP for function, _ in calls)

    def _write_places(
        self, out: SourceWriter, tile: str, pixel: str, channel: str
    ) -> dict[str, str]:
        """Write the index of the first element of *tile* in each tensor; return them."""
        starts: dict[int, str] = {}
        for stride in self.strides.values():
            if stride not in starts:
                starts[stride] = f"{tile}_at{len(starts) or ''}"
                out.line(f"{starts[stride]} = {plus(times(pixel, stride), channel)}")
        return {
            name: starts[self.strides[name]] if name in self.strides else channel
            for name, _ in self.fusion.pointers
        }

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Pointers to operands of one element."""
        results = self.fusion.results
        return frozenset(
            name for name, b in self.fusion.pointers if b.type.size == 1 and b not in results
        )

    @cached_property
    def strides(self) -> dict[str, int]:
        """Elements from pixel to pixel of the tensors of the result's shape.

        The others vary by channel only.
        """
        made, results = self.fusion.made.type.shape, self.fusion.results
        around = self.fusion.epilogue.arguments if self.fusion.epilogue else ()
        return {
            name: elements_between_pixels(buffer)
            for name, buffer in self.fusion.pointers
            if buffer.type.shape == made and buffer in (*results, *around)
            if buffer not in self.fusion.tables
        }


@dataclass(frozen=True)
class KeptTile:
    """Where a tile lies in memory, and what is added to it.

    Attributes:
        pointer: Name of the pointer.
        at: Index of its first element.
        apart: Elements from row to row.
        bias: Name of the pointer to what is added to each row, and the index of its first element;
            whole vectors may be read. None if nothing is added.
    """

    pointer: str
    at: str
    apart: int
    bias: tuple[str, str] | None = None


@dataclass(frozen=True)
class _WaitingTile:
    """A tile that waits in memory for a long epilogue.

    Four vectors go through it together, in step (:mod:`glow_nb.simd.in_step`): neighbours in a
    row, or those of several rows. One loop takes all such parts. A loop in a loop would lie deeper
    than that of the sums, so that LLVM would take it for the hotter one, and keep its constants in
    registers rather than the sums. Of several parts in the body of a loop, LLVM would mix the
    instructions.

    Attributes:
        tiles: All tiles of the kernel.
        out: Receives the lines.
        tile: Name of the tile.
        rows: Its rows; only the run may know how many.
        kept: Where it waits.
        places: Index of the first element in each tensor, by the name of its pointer.
    """

    tiles: TileStore
    out: SourceWriter
    tile: str
    rows: int | str
    kept: KeptTile
    places: Mapping[str, str]

    def write_all(self, columns: int, used: str | None) -> None:
        """Write what becomes of the first *columns* columns; see :meth:`TileStore.write`."""
        lanes = self.tiles.lanes
        whole = columns // lanes if used is None else -(-columns // lanes) - 1
        rest = columns % lanes if used is None else plus(used, -whole * lanes)
        if whole:
            self.write(0, whole)
        if rest:
            self.write(whole, 1, rest)

    def write(self, first: int, vectors: int, used: int | str | None = None) -> None:
        """Write what becomes of some vectors of each row, the *first* of them and those after it.

        If *used* is given, there is one vector, of which this number of lanes is used.
        """
        lanes, tables = self.tiles.lanes, self.tiles.fusion.tables
        begin, end = first * lanes, (first + vectors) * lanes
        if isinstance(self.rows, str):
            self._write_open_rows(range(begin, end, end - begin), used)
            return
        wide = next(n for n in (MOST_VECTORS, 2, 1) if vectors % n == 0)
        high = MOST_VECTORS // wide
        several = 0 if tables else self.rows // high * high
        if several:
            self._write_parts(range(0, several, high), range(begin, end, wide * lanes), used)
        if several < self.rows:
            self._write_parts(range(several, self.rows), range(begin, end, end - begin), used)

    def _write_open_rows(self, columns: range, used: int | str | None) -> None:
        """Write what becomes of one row after the other."""
        row = f"row_{self.tile}"
        with self.out.block(f"for {row} in range({self.rows}):"):
            self._write_part((row, 1), (str(columns.start), columns.step), used)

    def _write_parts(self, rows: range, columns: range, used: int | str | None) -> None:
        """Write what becomes of parts as large as the steps of *rows* and *columns*."""
        with self._each_part(rows, columns) as (row, column):
            self._write_part((row, rows.step), (column, columns.step), used)

    def _write_part(
        self, rows: tuple[str, int], columns: tuple[str, int], used: int | str | None
    ) -> None:
        """Write what becomes of a part: its first row and column, and how many it has.

        Bytes are looked up in tables by plain vectors, not by tiles.
        """
        tiles, lanes, kept = self.tiles, self.tiles.lanes, self.kept.pointer
        (row, height), (column, width) = rows, columns
        strides = {name: tiles.apart * stride for name, stride in tiles.strides.items()}
        strides[kept] = self.kept.apart
        at = {
            name: plus(place, times(row, strides.get(name, 0)), column)
            for name, place in {**self.places, kept: self.kept.at}.items()
        }
        if not tiles.fusion.tables:
            part = _TilePart(tiles, at, strides, height, width // lanes, used)
            tiles.finish(self.out, part, self.tile, self._with_bias(part, column))
            return
        for begin, vectors in _powers_of_two(width // lanes):
            block = Block(str(begin * lanes), vectors * lanes, used)
            places = {name: plus(place, block.column) for name, place in at.items()}
            site = Site(block, places | dict.fromkeys(tiles.numbers, "0"), tiles.numbers)
            result = f"load({kept}, {places[kept]}, {block.lanes})"
            if self.kept.bias:
                pointer, first = self.kept.bias
                place = plus(first, column, begin * lanes)
                result = f"add({result}, load({pointer}, {place}, {block.lanes}))"
            tiles.finish(self.out, site, self.tile, result)

    def _with_bias(self, part: _TilePart, column: str) -> str:
        """Return the load of a part, with what is added to it."""
        loaded = part.load(self.kept.pointer)
        if self.kept.bias is None:
            return loaded
        pointer, first = self.kept.bias
        size = f"{part.rows}, {part.vectors}, {part.lanes}"
        return f"add({loaded}, tile_bias({pointer}, {plus(first, column)}, {size}))"

    @contextmanager
    def _each_part(self, rows: range, columns: range) -> Iterator[tuple[str, str]]:
        """Write the loop over the parts; yield the first row and the first column of each."""
        row, column, part = (f"{name}_{self.tile}" for name in ("row", "column", "part"))
        counts = len(rows), len(columns)
        if min(counts) > 1:
            with self.out.block(f"for {part} in range({prod(counts)}):"):
                self.out.line(f"{row} = {part} // {counts[1]} * {rows.step}")
                first = plus(times(f"{part} % {counts[1]}", columns.step), columns.start)
                self.out.line(f"{column} = {first}")
                yield row, column
        elif counts[0] > 1:
            with self.out.block(f"for {row} in {rows}:"):
                yield row, str(columns.start)
        elif counts[1] > 1:
            with self.out.block(f"for {column} in {columns}:"):
                yield str(rows.start), column
        else:
            yield str(rows.start), str(columns.start)


def _powers_of_two(vectors: int) -> Iterator[tuple[int, int]]:
    """Yield where to begin, and how many vectors to take: at most MOST_VECTORS, a power of two."""
    begin = 0
    while begin < vectors:
        count = min(MOST_VECTORS, floor_power_of_two(vectors - begin))
        yield begin, count
        begin += count


@dataclass(frozen=True)
class _TilePart:
    """Where a tile, or some of its rows and vectors, lie in each tensor.

    Attributes:
        tiles: All tiles of the kernel.
        places: Index of the first element in each tensor, by the name of its pointer.
        strides: Elements from row to row of each tensor that has rows.
        rows: Rows of the part.
        vectors: Vectors in a row.
        columns: Columns in use, None for all of them.
    """

    tiles: TileStore
    places: Mapping[str, str]
    strides: Mapping[str, int]
    rows: int
    vectors: int
    columns: int | str | None

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.tiles.lanes

    def load(self, pointer: str) -> str:
        """Return the load of the tile from one tensor."""
        place, size = self.places[pointer], f"{self.rows}, {self.vectors}, {self.lanes}"
        if pointer in self.tiles.numbers:
            return f"broadcast({pointer}, 0, {self.lanes})"
        if pointer in self.strides:
            place = f"{place}, {self.strides[pointer]}"
            return f"tile_load{self._suffix}({pointer}, {place}, {size}{self._end})"
        return f"tile_bias{self._suffix}({pointer}, {place}, {size}{self._end})"

    def store(self, pointer: str, tile: str) -> str:
        """Return the store of the tile to one tensor."""
        place = f"{self.places[pointer]}, {self.strides[pointer]}"
        return f"tile_store{self._suffix}({pointer}, {place}, {tile}{self._end})"

    @property
    def _suffix(self) -> str:
        """The suffix of names of functions that leave out columns that are not in use."""
        return "" if self.columns is None else "_masked"

    @property
    def _end(self) -> str:
        """The last argument of these functions."""
        return "" if self.columns is None else f", {self.columns}"
