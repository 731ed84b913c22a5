"""The width of the panels and the height of the tiles of a matrix product, by estimated cost.

A tile is ``rows`` pixels (rows of the left matrix) by ``vectors`` vectors of output channels
(columns of the right one), all accumulated in registers. One step multiplies one input of each
row by one vector row of weights: ``rows * vectors`` fused multiply-adds for ``rows + vectors``
loads.

The cost of a step follows from the machine row: fewer accumulators than cover the latency of an FMA
leave its ports idle, and with one vector per row the loads are the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import SINGLE, DotInstruction, matrix_rows
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times

MAX_VECTORS = 12


@dataclass(frozen=True)
class TileLoop:
    """A loop over neighbouring tiles of equal rows, as text.

    Attributes:
        rows: Pixels of a tile.
        begin, end: The numbers of the first tile, and of the one after the last.
        within: Those of them that are ``count`` tiles from ``first`` on.
        skipped: How many pixels the tiles before have more than this number of them.
        only: Where the only tile begins, None if there may be others.
    """

    rows: int
    begin: str
    end: str
    within: str
    skipped: str
    only: int | None = None

    @property
    def all(self) -> str:
        """The numbers of the tiles."""
        return f"range({self.begin}, {self.end})"

    def start(self, tile: str) -> str:
        """Return an expression for the first pixel of tile number *tile* of the line."""
        return plus(times(tile, self.rows), self.skipped)


@dataclass(frozen=True)
class Cut:
    """A line of pixels in balanced tiles: ``large`` tiles of ``rows``, then ``small`` of one less.

    49 pixels in tiles of at most 6 are 4 tiles of 6 and 5 of 5, never 8 of 6 and 1 of 1.
    """

    rows: int
    large: int
    small: int

    @classmethod
    def balanced(cls, pixels: int, limit: int) -> Cut:
        """Cut *pixels* into as few tiles of at most *limit* as possible."""
        tiles = -(-pixels // limit)
        rows, longer = divmod(pixels, tiles)
        return cls(rows + 1, longer, tiles - longer) if longer else cls(rows, tiles, 0)

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.large + self.small

    @property
    def runs(self) -> tuple[tuple[int, int, int], ...]:
        """(first tile, end tile, rows) of the runs of equal tiles."""
        small = (self.large, self.tiles, self.rows - 1)
        return ((0, self.large, self.rows), small) if self.small else ((0, self.large, self.rows),)

    @property
    def loops(self) -> tuple[TileLoop, ...]:
        """The loops over tiles of equal rows."""
        return tuple(
            TileLoop(
                rows,
                str(begin),
                str(end),
                self._within(begin, end),
                str(begin * (self.rows - rows)),
                begin * self.rows if end - begin == 1 else None,
            )
            for begin, end, rows in self.runs
        )

    def _within(self, begin: int, end: int) -> str:
        if self.small == 0:
            return "range(first, first + count)"
        if begin == 0:
            return f"range(first, min(first + count, {end}))"
        return f"range(max(first, {begin}), first + count)"

    def start(self, tile: str) -> str:
        """Return an expression for the first pixel of tile number *tile*."""
        if not self.small:
            return f"{tile} * {self.rows}"
        return f"{tile} * {self.rows - 1} + min({tile}, {self.large})"


@dataclass(frozen=True)
class Columns:
    """The columns of one product in panels of ``block``, the last of which may be narrower.

    ``full`` panels have ``vectors`` vectors; if ``tail`` is not 0, one more panel has ``tail``
    columns in use, computed in ``tail_vectors`` vectors.

    Attributes:
        depth: Columns of the product.
        block: Columns of a panel in memory.
        lanes: Columns of a vector.
        is_dense: A panel may end within its last vector, of which no more is read.

    Raises:
        UnsupportedError: A panel is not made of whole vectors, and not dense.
    """

    depth: int
    block: int
    lanes: int
    is_dense: bool = False

    def __post_init__(self) -> None:
        if self.block % self.lanes and not self.is_dense:
            raise UnsupportedError(
                f"panels of {self.block} columns: no kernel for vectors of {self.lanes} lanes; "
                f"pack the weights into panels of a multiple of {self.lanes}"
            )

    @property
    def panels(self) -> int:
        """Number of panels."""
        return (self.depth + (self.block - 1)) // self.block

    @property
    def full(self) -> int:
        """Number of panels that are used whole."""
        return self.depth // self.block

    @property
    def tail(self) -> int:
        """Columns in use in the last panel, 0 if it is whole."""
        return self.depth % self.block

    @property
    def vectors(self) -> int:
        """Vectors of a whole panel."""
        return -(-self.block // self.lanes)

    @property
    def width(self) -> int:
        """Columns of the vectors of a whole panel."""
        return self.vectors * self.lanes

    @property
    def tail_vectors(self) -> int:
        """Vectors that are computed for the last panel."""
        return -(-self.tail // self.lanes)


def lanes_of(kind: ElementKind, target: Target) -> int:
    """Return the sums of *kind* that one vector of the target accumulates."""
    if kind is ElementKind.BOOL:
        raise UnsupportedError("matrix product of bool: no kernel; convert the operands to int32")
    return lanes_for(kind, target.lanes)


def lanes_for(kind: ElementKind, lanes: int) -> int:
    """Return the sums of *kind* in a vector of *lanes* ``float32``.

    Elements smaller than ``float32`` fill vectors of as many lanes, not longer ones.
    """
    return max(1, lanes * ElementKind.FLOAT32.size_bytes // max(4, kind.size_bytes))


def registers_of(target: Target, dot: DotInstruction = SINGLE) -> int:
    """Return how many vectors of ``target.lanes`` the registers hold beside what *dot* needs."""
    registers = target.vector_registers // max(1, target.lanes // target.native_lanes)
    return registers - dot.temporaries


def row_limit(vectors: int, registers: int) -> int:
    """Return the most rows of a tile whose accumulators and operands fit the registers."""
    rows = 1
    while (rows + 1) * vectors + min(rows + 1, vectors) + 1 <= registers:
        rows += 1
    return rows


def most_rows(vectors: int, target: Target, dot: DotInstruction) -> int:
    """Return the most rows of a tile of products by *dot* that fits the registers of *target*."""
    if dot.is_matrix:
        return matrix_rows(vectors * target.lanes)
    registers = registers_of(target, dot)
    if dot.is_in_memory:
        return max(1, registers // vectors)
    rows = row_limit(vectors, registers)
    return rows // dot.rows * dot.rows or dot.rows


def step_cycles(
    rows: int, vectors: int, panel_bytes: int, target: Target, dot: DotInstruction = SINGLE
) -> float:
    """Estimate the cycles of one step of a tile whose weights come from a panel of that size.

    It multiplies by *dot*. That each row reads its weights again for some of these is part of
    what a row costs.
    """
    machine, passes = target.machine, target.passes
    price = machine.paired_step_price if dot.is_paired else 1.0
    row_cycles = machine.paired_row_cycles if dot.is_paired else 0.0
    accumulators = passes * dot.steps(rows, vectors, target.lanes)
    arithmetic = max(price * accumulators / machine.fma_per_cycle, machine.fma_latency_cycles)
    arithmetic += passes * row_cycles * rows
    is_deep = accumulators >= 3 * machine.fma_latency_cycles
    arithmetic += machine.deep_step_cycles if is_deep else machine.shallow_step_cycles
    loads = machine.load_overhead * passes * (rows + vectors) / machine.load_ports
    is_near = panel_bytes <= machine.l1_panel_bytes
    streamed = 0.0 if is_near else passes * vectors / machine.l2_vectors_per_cycle
    return max(arithmetic, loads, streamed)


def line_cycles(
    cut: Cut, vectors: int, panel_bytes: int, target: Target, dot: DotInstruction = SINGLE
) -> float:
    """Estimate the cycles of one step of *dot* over a whole line of pixels; see step_cycles."""
    return sum(
        (end - begin) * step_cycles(rows, vectors, panel_bytes, target, dot)
        for begin, end, rows in cut.runs
    )


def narrowest_block(depth: int, block: int, lanes: int) -> int:
    """Return the least columns of a dense panel that take no more vectors than panels of *block*.

    68 columns in panels of 80, five vectors of 16 lanes, become one panel of 68.
    """

    def vectors(width: int) -> int:
        full, tail = divmod(depth, width)
        return full * -(-width // lanes) + -(-tail // lanes)

    panels = -(-depth // block)
    widths = range(-(-depth // panels), block) if panels else ()
    return next((width for width in widths if vectors(width) <= vectors(block)), block)


def fetch_cycles(elements: int, kind: ElementKind, target: Target) -> float:
    """Estimate the cycles to fetch neighbouring *elements* of a left row for one panel."""
    return target.machine.l2_line_cycles * elements * kind.size_bytes / CACHE_LINE_BYTES


@cache
def rank_blocks(
    depth_per_group: int,
    target: Target,
    *,
    pixels: int = 64,
    steps: int = 256,
    kind: ElementKind = ElementKind.FLOAT32,
    dot: DotInstruction = SINGLE,
    fetched: int = 0,
) -> tuple[int, ...]:
    """Return the widths that a panel may have in columns, that with the least estimated time first.

    Args:
        depth_per_group: Columns of the product (output channels of one group).
        target: The processor.
        pixels: Rows that are cut into tiles together: the pixels of one output line of a
            convolution, all of them for a 1x1 convolution, the rows of a matrix product.
        steps: Length of the sums (taps times input channels of one group).
        kind: Element kind of the left operand.
        dot: The dot instruction of its elements.
        fetched: Elements that each panel fetches from the second-level cache for a left row.
    """
    kind_lanes = lanes_for(kind, target.lanes)
    steps = -(-steps // dot.group)
    vector_bytes = target.lanes * ElementKind.FLOAT32.size_bytes
    row_cycles = fetch_cycles(fetched, kind, target) / max(1, steps)

    def cost(vectors: int) -> tuple[float, int]:
        columns = Columns(depth_per_group, vectors * kind_lanes, kind_lanes)
        cut = Cut.balanced(max(1, pixels), most_rows(vectors, target, dot))
        panel_bytes = vectors * vector_bytes * steps
        cycles = columns.full * line_cycles(cut, vectors, panel_bytes, target, dot)
        if columns.tail:
            cycles += line_cycles(cut, columns.tail_vectors, panel_bytes, target, dot)
            # Another tile is another piece of code to compile: it must be worth a little.
            cycles *= 1.005 if columns.full else 1.0
        return cycles + columns.panels * pixels * row_cycles, vectors

    widest = min(MAX_VECTORS, -(-depth_per_group // kind_lanes))
    return tuple(kind_lanes * vectors for vectors in sorted(range(1, max(1, widest) + 1), key=cost))
