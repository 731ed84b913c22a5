"""Channels and rows cut into vectors: the widths that suit a kind, and the loop over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from glow_nb.base.size import bounds, surely, symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.loops import share
from glow_nb.kernels.writing.source import SourceWriter

LANE_BYTES = 4
"""Lanes of a target are counted in elements of this number of bytes."""

_WIDENED = {
    ElementKind.FLOAT16: ElementKind.FLOAT32,
    ElementKind.BFLOAT16: ElementKind.FLOAT32,
}


def computed_kind(kind: ElementKind) -> ElementKind:
    """Return the kind that elements of *kind* are accumulated in: 16-bit floats in float32."""
    return _WIDENED.get(kind, kind)


def native_lanes(target: Target, *kinds: ElementKind) -> int:
    """Return how many elements of the widest of *kinds* fill one vector register."""
    widest = max(kind.size_bytes for kind in kinds)
    return max(1, target.lanes * LANE_BYTES // widest)


def floor_power_of_two(number: int) -> int:
    """Return the largest power of two that is not above *number*, which is positive."""
    return 1 << (number.bit_length() - 1)


@dataclass(frozen=True)
class Block:
    """Some neighbouring elements that are taken as one vector.

    Attributes:
        column: Index of the first one, as text.
        lanes: Elements of the vector.
        count: The number of them, if not all; text if that is open.
    """

    column: str
    lanes: int
    count: int | str | None = None

    def load(self, pointer: str, index: str) -> str:
        """Return the load of the block from *index* on, which includes the column."""
        if self.count is None:
            return f"load({pointer}, {index}, {self.lanes})"
        return f"load_masked({pointer}, {index}, {self.lanes}, {self.count})"

    def store(self, pointer: str, index: str, vector: str) -> str:
        """Return the store of *vector* to *index*, which includes the column."""
        if self.count is None:
            return f"store({pointer}, {index}, {vector})"
        return f"store_masked({pointer}, {index}, {vector}, {self.count})"

    def only(self, vector: str, other: str) -> str:
        """Return *vector* with *other*, a vector, in the lanes that are not in the block."""
        if self.count is None:
            return vector
        inside = f"less(iota_int32({self.lanes}), splat_int32({self.count}, {self.lanes}))"
        return f"where({inside}, {vector}, {other})"


@dataclass(frozen=True)
class Site:
    """A block of elements in several tensors at once.

    Attributes:
        block: The lanes.
        places: Index of the first element in each tensor, by the name of its pointer.
        repeated: Tensors that have one element for all lanes.
        step: Number of the element along the walk that the block belongs to, in lanes.
    """

    block: Block
    places: Mapping[str, str]
    repeated: frozenset[str] = frozenset()
    step: str = "0"

    @property
    def lanes(self) -> int:
        """Elements of the vectors."""
        return self.block.lanes

    def load(self, pointer: str) -> str:
        """Return the load of the elements of one tensor."""
        if pointer in self.repeated:
            return f"broadcast({pointer}, {self.places[pointer]}, {self.lanes})"
        return self.block.load(pointer, self.places[pointer])

    def store(self, pointer: str, vector: str) -> str:
        """Return the store of *vector* to one tensor."""
        return self.block.store(pointer, self.places[pointer], vector)


def ceil_power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below *number*, which is positive."""
    return 1 << (number - 1).bit_length()


def blocks_of(
    out: SourceWriter, count: int, lanes: int, *, shared: bool = False
) -> Iterator[Block]:
    """Yield the blocks that *count* elements are taken in; what is written for each is its body.

    Whole vectors come first, in a loop if there are several; the rest is one masked vector. When
    *shared*, each thread takes its share of the vectors, and the last one the rest.
    """
    lanes = min(lanes, ceil_power_of_two(max(bounds(count)[1], 1)))
    if symbols_of(count):
        yield from _open_blocks(out, count, lanes, shared)
        return
    whole = count - count % lanes
    if whole:
        with _whole_blocks(out, whole, lanes, shared) as column:
            yield Block(column, lanes)
    if count > whole:
        rest = count - whole
        needed = ceil_power_of_two(rest)
        with only_last_thread(out, shared):
            yield Block(str(whole), needed, None if needed == rest else rest)


NARROWER = 4
"""How many times as many lanes the vectors of a row have as those of its rest, if it is open."""


def narrower(lanes: int) -> int:
    """Return the lanes of the vectors that the rest of an open number of elements is taken in."""
    return max(1, lanes // NARROWER)


def _open_blocks(out: SourceWriter, count: int, lanes: int, shared: bool) -> Iterator[Block]:
    whole = count - count % lanes
    if not surely(whole, "==", 0):
        with _whole_blocks(out, whole, lanes, shared) as column:
            yield Block(column, lanes)
    if count % lanes != 0:
        with only_last_thread(out, shared):
            yield from open_rest(out, whole, count, narrower(lanes))


def open_rest(out: SourceWriter, begin: int, end: int, lanes: int) -> Iterator[Block]:
    """Yield the blocks from *begin*, a multiple of *lanes*, to *end*, of which one is open."""
    is_even = end % lanes == 0
    with out.block(f"for c in range({begin}, {end}, {lanes}):"):
        yield Block("c", lanes, None if is_even else f"min({lanes}, {end} - c)")


@contextmanager
def _whole_blocks(out: SourceWriter, count: int, lanes: int, shared: bool) -> Iterator[str]:
    if count == lanes:
        with only_last_thread(out, shared):
            yield "0"
    elif shared:
        with out.block(f"for block in {share(count // lanes)}:"):
            out.line(f"c = block * {lanes}")
            yield "c"
    else:
        with out.block(f"for c in range(0, {count}, {lanes}):"):
            yield "c"


@contextmanager
def only_last_thread(out: SourceWriter, shared: bool = True) -> Iterator[None]:
    """Write what only the last thread does, if the work is *shared*."""
    if not shared:
        yield
        return
    with out.block("if thread == threads - 1:"):
        yield
