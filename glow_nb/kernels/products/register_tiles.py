"""What happens to a finished register tile: the epilogue, and the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.types import ElementKind


@dataclass(frozen=True)
class TileVector:
    """One vector of a finished tile, as an epilogue sees it.

    Attributes:
        value: Expression of the vector, a SIMD-layer value of the product's kind.
        index: Expression of the index in ``dest`` of its first element.
        channel: Expression of the output channel of its first element.
        lanes: Elements of the vector.
        count: Elements that are in use, from the first; less than ``lanes`` in a tail only.
        tag: Letters that are unique to this vector, for names of temporaries.
    """

    value: str
    index: str
    channel: str
    lanes: int
    count: int
    tag: str

    def write_store(self, out: SourceWriter, pointer: str, vector: str) -> None:
        """Write the store of *vector* to a tensor that lies like ``dest``."""
        if self.count == self.lanes:
            out.line(f"store({pointer}, {self.index}, {vector})")
        else:
            out.line(f"store_masked({pointer}, {self.index}, {vector}, {self.count})")


@dataclass(frozen=True)
class WholeTile:
    """A finished tile all of whose columns are in use, as an epilogue sees it.

    Attributes:
        value: Name of the tile, of the product's kind.
        index: Expression of the index in ``dest`` of its first element.
        channel: Expression of the output channel of its first column.
        stride: Elements of ``dest`` from row to row.
        rows: Rows of the tile.
        vectors: Vectors in a row.
        lanes: Elements of a vector.
    """

    value: str
    index: str
    channel: str
    stride: int
    rows: int
    vectors: int
    lanes: int


@dataclass(frozen=True)
class Epilogue:
    """What is done to each vector of a tile before it is stored (paper 5.2, operator stacking).

    Attributes:
        operands: Name and kind of further pointer arguments of the kernel, after the others.
        write: Appends lines and returns the expression of the vector to store in ``dest``.
        dest: Element kind of the result.
        write_tile: Does the same for a whole tile at once, in fewer lines; None if it cannot.
        results: Name and kind of the pointers, behind ``dest``, to what *write* stores itself.
    """

    operands: tuple[tuple[str, ElementKind], ...]
    write: Callable[[SourceWriter, TileVector], str]
    dest: ElementKind
    write_tile: Callable[[SourceWriter, WholeTile], str] | None = None
    results: tuple[tuple[str, ElementKind], ...] = ()


def result_pointers(epilogue: Epilogue | None, kind: ElementKind) -> list[tuple[str, ElementKind]]:
    """Return name and kind of what the kernel of a product of *kind* writes."""
    return [("dest", epilogue.dest), *epilogue.results] if epilogue else [("dest", kind)]


def write_tile_store(
    out: SourceWriter,
    tile: str,
    rows: int,
    *,
    columns: int,
    lanes: int,
    index: str,
    channel: str,
    stride: int,
    epilogue: Epilogue | None,
) -> None:
    """Store *tile*, whose first *columns* columns are in use, at ``dest[index + row * stride]``."""
    vectors = -(-columns // lanes)
    if epilogue is None and columns == vectors * lanes:
        out.line(f"tile_store(dest, {index}, {stride}, {tile})")
        return
    if epilogue is None:
        out.line(f"tile_store_masked(dest, {index}, {stride}, {tile}, {columns})")
        return
    if epilogue.write_tile and columns == vectors * lanes:
        whole = WholeTile(tile, index, channel, stride, rows, vectors, lanes)
        out.line(f"tile_store(dest, {index}, {stride}, {epilogue.write_tile(out, whole)})")
        return
    for row in range(rows):
        for vector in range(vectors):
            offset = vector * lanes
            place = TileVector(
                value=f"tile_get({tile}, {row}, {vector})",
                index=f"{index} + {row * stride + offset}",
                channel=f"{channel} + {offset}",
                lanes=lanes,
                count=min(lanes, columns - offset),
                tag=f"{tile}_{row}_{vector}",
            )
            place.write_store(out, "dest", epilogue.write(out, place))
