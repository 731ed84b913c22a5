"""What happens to a finished register tile: the epilogue, and the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from glow_nb.fuse.expression import Vector, VectorCode
from glow_nb.kernels.stacks.fusion import Fusion, Place
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Block, Site


@dataclass(frozen=True)
class TileStore:
    """Where the finished tiles of a kernel go: through its epilogue to its results.

    Rows of a tile are pixels that follow one another. Each tensor of the result's shape has its own
    distance from pixel to pixel: it may be a window of a wider one.

    Attributes:
        fusion: The pointers, the first of which is ``dest``, and the epilogue.
        lanes: Elements of a vector.
    """

    fusion: Fusion
    lanes: int

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
            out.line(f"tile_store{suffix}(dest, {index}, {stride}, {tile}{mask})")
            return
        kind = self.fusion.made.type.kind
        places = self._write_places(out, tile, pixel, channel)
        if is_whole:
            code = VectorCode(self.lanes, f"{tile}_")
            whole = _WholeTile(self, places, rows, vectors)
            self._finish(out, whole, code, Vector(tile, kind))
            return
        for row in range(rows):
            for vector in range(vectors):
                offset = vector * self.lanes
                code = VectorCode(self.lanes, f"{tile}_{row}_{vector}_")
                value = code.assign(f"tile_get({tile}, {row}, {vector})", kind)
                count = min(self.lanes, columns - offset)
                block = Block(str(offset), self.lanes, count if count < self.lanes else None)
                at = {
                    name: plus(place, row * self.strides.get(name, 0) + offset)
                    for name, place in places.items()
                }
                at |= dict.fromkeys(self.numbers, "0")
                self._finish(out, Site(block, at, self.numbers), code, value)

    def _finish(self, out: SourceWriter, place: Place, code: VectorCode, value: Vector) -> None:
        """Write the epilogue on *value* and the stores, that to ``dest`` last."""
        vectors = self.fusion.finish(out, place, code, value)
        dest, *others = self.fusion.results
        for buffer in (*others, dest):
            out.line(place.store(self.fusion.names[buffer], vectors[buffer].name))

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
        }


@dataclass(frozen=True)
class _WholeTile:
    """Where a tile, all of whose columns are in use, lies in each tensor.

    Attributes:
        tiles: All tiles of the kernel.
        places: Index of the first element in each tensor, by the name of its pointer.
        rows: Rows of the tile.
        vectors: Vectors in a row.
    """

    tiles: TileStore
    places: Mapping[str, str]
    rows: int
    vectors: int

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
            return f"tile_load({pointer}, {place}, {self.tiles.strides[pointer]}, {size})"
        return f"tile_bias({pointer}, {place}, {size})"

    def store(self, pointer: str, tile: str) -> str:
        """Return the store of the tile to one tensor."""
        return (
            f"tile_store({pointer}, {self.places[pointer]}, {self.tiles.strides[pointer]}, {tile})"
        )
