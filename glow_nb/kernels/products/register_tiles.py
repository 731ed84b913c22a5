"""What happens to a finished register tile: the epilogue, and the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from glow_nb.fuse.expression import Vector, VectorCode
from glow_nb.kernels.stacks.fusion import Fusion, Place
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Block, Site


@dataclass(frozen=True)
class TileStore:
    """Where the finished tiles of a kernel go: through its epilogue to its results.

    Attributes:
        fusion: The pointers, the first of which is ``dest``, and the epilogue.
        lanes: Elements of a vector.
        stride: Elements of the results from row to row of a tile.
    """

    fusion: Fusion
    lanes: int
    stride: int

    def write(
        self, out: SourceWriter, tile: str, rows: int, *, columns: int, index: str, channel: str
    ) -> None:
        """Write what becomes of a tile, whose first *columns* columns are in use.

        Args:
            out: Receives the lines.
            tile: Name of the tile, of the kind of the head's result.
            rows: Rows of the tile.
            columns: Output channels that it holds.
            index: Expression of the index in ``dest`` of its first element.
            channel: Expression of the output channel of its first column.
        """
        vectors = -(-columns // self.lanes)
        is_whole = columns == vectors * self.lanes
        if self.fusion.epilogue is None:
            suffix, mask = ("", "") if is_whole else ("_masked", f", {columns}")
            out.line(f"tile_store{suffix}(dest, {index}, {self.stride}, {tile}{mask})")
            return
        kind = self.fusion.made.type.kind
        if is_whole:
            code = VectorCode(self.lanes, f"{tile}_")
            whole = _WholeTile(self, self._places(index, channel), rows, vectors)
            self._finish(out, whole, code, Vector(tile, kind))
            return
        for row in range(rows):
            for vector in range(vectors):
                offset = vector * self.lanes
                code = VectorCode(self.lanes, f"{tile}_{row}_{vector}_")
                value = code.assign(f"tile_get({tile}, {row}, {vector})", kind)
                first = f"{index} + {row * self.stride + offset}"
                places = self._places(first, f"{channel} + {offset}")
                count = min(self.lanes, columns - offset)
                block = Block(str(offset), self.lanes, count if count < self.lanes else None)
                self._finish(out, Site(block, places, self.numbers), code, value)

    def _finish(self, out: SourceWriter, place: Place, code: VectorCode, value: Vector) -> None:
        """Write the epilogue on *value* and the stores, that to ``dest`` last."""
        vectors = self.fusion.finish(out, place, code, value)
        dest, *others = self.fusion.results
        for buffer in (*others, dest):
            out.line(place.store(self.fusion.names[buffer], vectors[buffer].name))

    def _places(self, index: str, channel: str) -> dict[str, str]:
        """Return the index in each tensor that belongs to *index* in ``dest``."""
        return {
            name: "0" if name in self.numbers else index if name in self.like_dest else channel
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
    def like_dest(self) -> frozenset[str]:
        """Pointers to tensors of the shape of the result; the others vary by channel only."""
        shape = self.fusion.made.type.shape
        return frozenset(name for name, b in self.fusion.pointers if b.type.shape == shape)


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
            return f"broadcast({pointer}, {place}, {self.lanes})"
        if pointer in self.tiles.like_dest:
            return f"tile_load({pointer}, {place}, {self.tiles.stride}, {size})"
        return f"tile_bias({pointer}, {place}, {size})"

    def store(self, pointer: str, tile: str) -> str:
        """Return the store of the tile to one tensor."""
        return f"tile_store({pointer}, {self.places[pointer]}, {self.tiles.stride}, {tile})"
