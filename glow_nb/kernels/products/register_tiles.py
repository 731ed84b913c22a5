"""What happens to a finished register tile: the epilogue, and the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from glow_nb.fuse.vector_code import VectorCode
from glow_nb.kernels.stacks.fusion import Fusion, Place
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Block, Site, floor_power_of_two
from glow_nb.llir.scalar_functions import CostClass

MOST_VECTORS = 4
"""Vectors of a row that go through a long epilogue together: a power of two."""


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
        self, out: SourceWriter, tile: str, rows: int, *, columns: int, pixel: str, channel: str
    ) -> None:
        """Write what becomes of a tile, whose first *columns* columns are in use.

        Args:
            out: Receives the lines.
            tile: Name of the tile, of the kind of the head's result.
            rows: Rows of the tile.
            columns: Output channels that it holds.
            pixel: The number of the pixel that its first row is, a name or in brackets.
            channel: Expression of the output channel of its first column.
        """
        vectors = -(-columns // self.lanes)
        is_whole = columns == vectors * self.lanes
        if self.fusion.epilogue is None:
            stride = self.strides["dest"]
            index = plus(times(pixel, stride), channel)
            suffix, mask = ("", "") if is_whole else ("_masked", f", {columns}")
            out.line(f"tile_store{suffix}(dest, {index}, {self.apart * stride}, {tile}{mask})")
            return
        places = self._write_places(out, tile, pixel, channel)
        if self._stays_in_registers:
            used = None if is_whole else columns
            self._finish(out, _WholeTile(self, places, rows, vectors, used), tile, tile)
            return
        row = f"row_{tile}"
        out.line(f"kept_{tile} = tile_keep({tile})")
        with out.block(f"for {row} in range({rows}):"):
            at = {
                name: plus(place, times(row, self.apart * self.strides.get(name, 0)))
                for name, place in places.items()
            }
            at[f"kept_{tile}"] = times(row, vectors * self.lanes)
            self._write_row(out, tile, columns, at)

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

        Where it lies in main memory, a tile that has just begun has time for that. Its rows are so
        many pixels *apart*, by default as many as those of a tile.
        """
        for name, stride in self.strides.items():
            for column in range(0, columns, self.lanes):
                place = plus(times(pixel, stride), channel, column)
                out.line(
                    f"tile_prefetch({name}, {place}, {(apart or self.apart) * stride}, {rows})"
                )

    def _write_row(
        self, out: SourceWriter, tile: str, columns: int, places: Mapping[str, str]
    ) -> None:
        """Write what becomes of a row of a tile that waits in memory.

        There is no loop over its vectors. It would lie deeper than that of the sums, so that LLVM
        would take it for the hotter one, and keep its constants in registers rather than the sums.
        """
        whole, rest = divmod(columns, self.lanes)
        for begin, vectors in _powers_of_two(whole):
            block = Block(str(begin * self.lanes), vectors * self.lanes)
            self._write_block(out, tile, block, places)
        if rest:
            self._write_block(out, tile, Block(str(whole * self.lanes), self.lanes, rest), places)

    def _write_block(
        self, out: SourceWriter, tile: str, block: Block, places: Mapping[str, str]
    ) -> None:
        """Write what becomes of some columns of a row."""
        at = {name: plus(place, block.column) for name, place in places.items()}
        at |= dict.fromkeys(self.numbers, "0")
        kept = f"kept_{tile}"
        result = f"load({kept}, {at[kept]}, {block.lanes})"
        self._finish(out, Site(block, at, self.numbers), tile, result)

    def _finish(self, out: SourceWriter, place: Place, tile: str, result: str) -> None:
        """Write the epilogue on *result* and the stores, that to ``dest`` last."""
        code = VectorCode(place.lanes, f"{tile}_")
        value = code.assign(result, self.fusion.made.type.kind)
        vectors = self.fusion.finish(out, place, code, value)
        dest, *others = self.fusion.results
        for buffer in (*others, dest):
            out.line(place.store(self.fusion.names[buffer], vectors[buffer].name))

    @cached_property
    def _stays_in_registers(self) -> bool:
        """True if the epilogue is so short that a whole tile may go through it at once."""
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


def _powers_of_two(vectors: int) -> Iterator[tuple[int, int]]:
    """Yield where to begin, and how many vectors to take: at most MOST_VECTORS, a power of two."""
    begin = 0
    while begin < vectors:
        count = min(MOST_VECTORS, floor_power_of_two(vectors - begin))
        yield begin, count
        begin += count


@dataclass(frozen=True)
class _WholeTile:
    """Where a tile lies in each tensor.

    Attributes:
        tiles: All tiles of the kernel.
        places: Index of the first element in each tensor, by the name of its pointer.
        rows: Rows of the tile.
        vectors: Vectors in a row.
        columns: Columns in use, None for all of them.
    """

    tiles: TileStore
    places: Mapping[str, str]
    rows: int
    vectors: int
    columns: int | None

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.tiles.lanes

    def load(self, pointer: str) -> str:
        """Return the load of the tile from one tensor."""
        place, size = self.places[pointer], f"{self.rows}, {self.vectors}, {self.lanes}"
        if pointer in self.tiles.numbers:
            return f"broadcast({pointer}, 0, {self.lanes})"
        if pointer in self.tiles.strides:
            place = f"{place}, {self.tiles.apart * self.tiles.strides[pointer]}"
            return f"tile_load{self._suffix}({pointer}, {place}, {size}{self._end})"
        return f"tile_bias{self._suffix}({pointer}, {place}, {size}{self._end})"

    def store(self, pointer: str, tile: str) -> str:
        """Return the store of the tile to one tensor."""
        place = f"{self.places[pointer]}, {self.tiles.apart * self.tiles.strides[pointer]}"
        return f"tile_store{self._suffix}({pointer}, {place}, {tile}{self._end})"

    @property
    def _suffix(self) -> str:
        """What is appended to names of functions that leave out columns that are not in use."""
        return "" if self.columns is None else "_masked"

    @property
    def _end(self) -> str:
        """The last argument of these functions."""
        return "" if self.columns is None else f", {self.columns}"
