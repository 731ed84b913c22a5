"""The loops of attention: register tiles, blocks of keys and of queries, scratch.

For a block of keys, packed once, chunks of queries pass by: their scores, then the exponentials of
these, then the sums of values. Of all queries of a block only sums, peaks and totals wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from math import lcm
from operator import itemgetter

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import MATRIX_COLUMNS, MATRIX_PARTS, MATRIX_ROWS, dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.base.size import symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.kernels.attention.matrix_plan import (
    DOT,
    MATRIX_KEYS,
    MatrixTiles,
    matrix_tiles,
    may_take_registers,
    padded_depth,
    require_matrix_form,
)
from glow_nb.kernels.attention.shape import AttentionShape
from glow_nb.kernels.products.blocking import (
    MAX_VECTORS,
    registers_of,
    row_limit,
    step_cycles,
)
from glow_nb.kernels.products.caches import level_2_bytes
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.vectors import LANE_BYTES, native_lanes

ATTENTION = "attention"
"""The algorithm that stores no matrix of queries and keys."""

LAST_KEYS = "last_keys"
"""The part of the scratch for the last keys, fewer than lanes: so many are packed as there are."""

MAX_MATRIX_COLUMNS = MATRIX_COLUMNS * max(MATRIX_PARTS)
"""Columns of a tile of matrix registers."""

MOST_CHAINED_KEYS = 512
"""Keys whose values are summed up one after the other at most: their rounding errors add up."""


@dataclass(frozen=True)
class AttentionPlan:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        lanes: Elements of a vector.
        rows: Rows of a register tile.
        score_vectors: Vectors of keys in a tile of scores.
        sum_vectors: Vectors of the width in a tile of sums.
        softmax_rows: Rows whose exponentials are computed together; divides ``chunk_rows``.
        chunk_rows: Rows whose scores are computed before their sums; a multiple of ``rows``.
        block_rows: Rows that pass by one packed block of keys; a multiple of ``chunk_rows``.
        block_keys: Keys of a block, a multiple of the columns of a panel.
        packs_keys: True if keys are transposed to scratch.
        packs_values: True if values are copied to scratch.
        depth: Elements of a query.
        width: Elements of a value, with what fills up the last tile.
        kind: Kind of the operands.
        computed: Kind of scores and sums.
        dot: The instruction that multiplies in matrix registers, "" for multiply-adds of vectors.
        rest_is_open: Whether the number of keys left over by whole vectors is known only at run
            time.
    """

    lanes: int
    rows: int
    score_vectors: int
    sum_vectors: int
    softmax_rows: int
    chunk_rows: int
    block_rows: int
    block_keys: int
    packs_keys: bool
    packs_values: bool
    depth: int
    width: int
    kind: ElementKind
    computed: ElementKind
    dot: str = ""
    rest_is_open: bool = False

    def as_plan(self) -> Plan:
        """Return the plan that :meth:`from_plan` makes this of."""
        return Plan.of(
            ATTENTION,
            rows=self.rows,
            score_vectors=self.score_vectors,
            sum_vectors=self.sum_vectors,
            softmax_rows=self.softmax_rows,
            chunk_rows=self.chunk_rows,
            block_rows=self.block_rows,
            block_keys=self.block_keys,
            pack_keys=self.packs_keys or None,
            pack_values=self.packs_values or None,
            dot=self.dot or None,
        )

    @classmethod
    def from_plan(cls, plan: Plan, shape: AttentionShape, target: Target) -> AttentionPlan:
        """Return the loops of *shape* with the settings of *plan*.

        Raises:
            UnsupportedError: A setting is missing, or they do not go with each other.
        """
        lanes = native_lanes(target, shape.computed)
        dot = dot_named_by(plan)
        most = MAX_MATRIX_COLUMNS // lanes if dot.is_matrix else MAX_VECTORS
        sum_vectors = plan.number("sum_vectors", most=most)
        made = cls(
            lanes=lanes,
            rows=plan.rows,
            score_vectors=plan.number("score_vectors", most=most),
            sum_vectors=sum_vectors,
            softmax_rows=plan.number("softmax_rows"),
            chunk_rows=plan.number("chunk_rows"),
            block_rows=plan.number("block_rows"),
            block_keys=plan.number("block_keys"),
            packs_keys=plan.is_set("pack_keys"),
            packs_values=plan.is_set("pack_values"),
            depth=shape.depth,
            width=_rounded_up(shape.width, sum_vectors * lanes),
            kind=shape.kind,
            computed=shape.computed,
            dot=dot.name if dot.is_matrix else "",
            rest_is_open=bool(symbols_of(shape.keys % lanes)),
        )
        if dot.group > 1:
            columns = (made.panel_keys, made.panel_width, made.block_keys)
            packs = made.packs_keys and made.packs_values
            require_matrix_form(plan, dot, shape, made.rows, columns, packs=packs)
        for name, number, unit in (
            ("chunk_rows", made.chunk_rows, made.rows),
            ("chunk_rows", made.chunk_rows, made.softmax_rows),
            ("block_rows", made.block_rows, made.chunk_rows),
            ("block_keys", made.block_keys, made.panel_keys),
        ):
            if number % unit:
                raise plan.unfit(f"{name} = {number} must be a multiple of {unit}")
        if not made.packs_values and not _reads_values(shape, made.width):
            raise plan.unfit("these values are read from a copy alone; set pack_values")
        return made

    @property
    def panel_keys(self) -> int:
        """Keys of a panel."""
        return self.score_vectors * self.lanes

    @property
    def panel_width(self) -> int:
        """Columns of a panel of values."""
        return self.sum_vectors * self.lanes

    @property
    def is_matrix(self) -> bool:
        """Return whether products are those of matrix registers."""
        return bool(self.dot)

    @property
    def registers(self) -> MatrixTiles:
        """The layout of the registers of a tile, if it is one of matrix registers."""
        parts = -(-self.rows // MATRIX_ROWS)
        return MatrixTiles(self.rows, parts, self.panel_keys // MATRIX_COLUMNS)

    @property
    def multiplied(self) -> ElementKind:
        """The kind in which operands are copied to scratch, and multiplied."""
        return self.kind if self.is_matrix else self.computed

    @property
    def copied_depth(self) -> int:
        """Elements of a copied query or key, with the zeros that fill up matrix registers."""
        return padded_depth(self.depth) if self.is_matrix else self.depth

    @property
    def score_stride(self) -> int:
        """Elements from row to row of scores: one more line, or all rows would be in few sets."""
        return self.block_keys + CACHE_LINE_BYTES // self.computed.size_bytes

    @cached_property
    def regions(self) -> dict[str, tuple[int, ElementKind]]:
        """Elements of each part of the scratch, and their kind, by the name of its pointer."""
        rows, computed, multiplied = self.block_rows, self.computed, self.multiplied
        parts = {
            "queries": (rows * self.copied_depth, multiplied),
            "sums": (rows * self.width, computed),
            "peaks": (rows * self.lanes, computed),
            "totals": (rows * self.lanes, computed),
        }
        if not self.packs_keys:
            parts["margin"] = (self.lanes, computed)  # dot products may begin before the block
        parts["scores"] = (self.chunk_rows * self.score_stride, computed)
        if self.packs_keys:
            parts["keys"] = (self.block_keys * self.copied_depth, multiplied)
            if self.rest_is_open or self.is_matrix:
                parts[LAST_KEYS] = (self.lanes * self.copied_depth, self.kind)
        if self.packs_values:
            parts["values"] = (self.block_keys * self.width, multiplied)
        return parts

    @property
    def _sizes(self) -> list[int]:
        """Bytes of each part, in whole cache lines."""
        return [_lines(kind.size_bytes * elements) for elements, kind in self.regions.values()]

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Where each part of the scratch begins, in bytes."""
        return dict(zip(self.regions, (0, *accumulate(self._sizes)), strict=False))

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch of one thread."""
        return sum(self._sizes)


def _lines(size: int) -> int:
    """Return *size* in bytes, rounded up to whole cache lines."""
    return _rounded_up(size, CACHE_LINE_BYTES)


def plan_attention(
    shape: AttentionShape, target: Target, wanted: str | None = None
) -> AttentionPlan:
    """Cut up *shape*, which has no empty axis but maybe that of the depth, for *target*.

    Matrix registers multiply if they may and, by estimate, take less time than vectors; or if
    *wanted*, the name of a dot instruction, says so.
    """
    if wanted == DOT.name:
        return _in_matrix_registers(shape, target, matrix_tiles(shape, target))
    machine = target.machine
    kind, lanes = shape.computed, native_lanes(target, shape.computed)
    packs_keys = shape.rows >= target.machine.attention_min_packed_rows
    cycles, tiles = _tiles(shape, target, packs_keys=packs_keys)
    if packs_keys and wanted is None and may_take_registers(shape, target):
        matrix = matrix_tiles(shape, target)
        if matrix.cycles < cycles:
            return _in_matrix_registers(shape, target, matrix)
    rows, score_vectors, sum_vectors = tiles
    width = _rounded_up(shape.width, sum_vectors * lanes)
    chunk_rows = _rounded_up(min(target.machine.attention_chunk_rows, shape.rows), rows)
    row_bytes = kind.size_bytes * (shape.depth + width + 2 * lanes)
    chunks = _chunks_of_a_block(shape, target, chunk_rows, row_bytes)
    packs_values = not _reads_values(shape, width)
    packs_values = packs_values or (packs_keys and shape.value.token != shape.width)
    if packs_keys or packs_values:
        elements = level_2_bytes(target) // kind.size_bytes
        most = min(MOST_CHAINED_KEYS, elements // (shape.depth + width + chunk_rows))
    else:
        most = (
            int(machine.l1_bytes * target.machine.l1_scores_share) // kind.size_bytes // chunk_rows
        )
    panel = score_vectors * lanes
    blocks = -(-shape.keys // max(panel, most // panel * panel))
    return AttentionPlan(
        lanes=lanes,
        rows=rows,
        score_vectors=score_vectors,
        sum_vectors=sum_vectors,
        softmax_rows=next((n for n in target.machine.softmax_rows if chunk_rows % n == 0), 1),
        chunk_rows=chunk_rows,
        block_rows=chunks * chunk_rows,
        block_keys=_rounded_up(-(-shape.keys // blocks), panel),
        packs_keys=packs_keys,
        packs_values=packs_values,
        depth=shape.depth,
        width=width,
        kind=shape.kind,
        computed=kind,
    )


def _in_matrix_registers(
    shape: AttentionShape, target: Target, tiles: MatrixTiles
) -> AttentionPlan:
    """Cut up *shape* for tiles of matrix registers."""
    kind, lanes = shape.computed, native_lanes(target, shape.computed)
    columns, depth = tiles.columns, padded_depth(shape.depth)
    width = _rounded_up(shape.width, columns)
    most_tiles = max(1, target.machine.attention_matrix_chunk_rows // tiles.rows)
    chunk_rows = min(most_tiles, -(-shape.rows // tiles.rows)) * tiles.rows
    row_bytes = shape.kind.size_bytes * depth + kind.size_bytes * (width + 2 * lanes)
    chunks = _chunks_of_a_block(shape, target, chunk_rows, row_bytes)
    key_bytes = shape.kind.size_bytes * (depth + width) + kind.size_bytes * chunk_rows
    most = min(MOST_CHAINED_KEYS, level_2_bytes(target) // key_bytes)
    most = min(most, target.machine.l1_bytes // (kind.size_bytes * chunk_rows))
    panel = lcm(columns, MATRIX_KEYS)
    blocks = -(-shape.keys // max(panel, most // panel * panel))
    return AttentionPlan(
        lanes=lanes,
        rows=tiles.rows,
        score_vectors=columns // lanes,
        sum_vectors=columns // lanes,
        softmax_rows=next((n for n in target.machine.softmax_rows if chunk_rows % n == 0), 1),
        chunk_rows=chunk_rows,
        block_rows=chunks * chunk_rows,
        block_keys=_rounded_up(-(-shape.keys // blocks), panel),
        packs_keys=True,
        packs_values=True,
        depth=shape.depth,
        width=width,
        kind=shape.kind,
        computed=kind,
        dot=tiles.dot,
    )


def _chunks_of_a_block(
    shape: AttentionShape, target: Target, chunk_rows: int, row_bytes: int
) -> int:
    """Return how many chunks of rows, of this number of bytes each, pass by one block of keys."""
    machine = target.machine
    waiting = int(machine.l3_share * machine.l3_bytes) // row_bytes
    most_chunks = max(1, min(machine.attention_block_rows, waiting) // chunk_rows)
    chunks = -(-shape.rows // chunk_rows)
    return -(-chunks // -(-chunks // most_chunks))


def _reads_values(shape: AttentionShape, width: int) -> bool:
    """Return whether values can be read where they lie: tiles of *width* are whole, of one kind."""
    return shape.kind is shape.computed and shape.width == width


def _tiles(
    shape: AttentionShape, target: Target, *, packs_keys: bool
) -> tuple[float, tuple[int, int, int]]:
    """Return rows and vectors of the tiles of scores and of sums that take the fewest cycles.

    The cycles come first; they are those of a head of keys.
    """
    lanes, registers = native_lanes(target, shape.computed), registers_of(target)
    vector_bytes = target.lanes * LANE_BYTES
    keys, widths = -(-shape.keys // lanes), max(1, -(-shape.width // lanes))

    def cycles(rows: int, vectors: int, needed: int, steps: int) -> float:
        panel_bytes = vectors * vector_bytes * steps
        step = step_cycles(rows, vectors, panel_bytes, target)
        loads = target.machine.tile_load_cycles * target.passes * (rows + vectors)
        return -(-needed // vectors) * (step + loads) * steps

    def cost(tile: tuple[int, int, int]) -> float:
        rows, of_keys, of_width = tile
        scores = cycles(rows, of_keys, keys, shape.depth) if packs_keys else 0.0
        return -(-shape.rows // rows) * (scores + cycles(rows, of_width, widths, shape.keys))

    def limited(vectors: int) -> int:
        return min(row_limit(vectors, registers), shape.rows)

    def widths_of(needed: int) -> range:
        return range(1, min(MAX_VECTORS, needed) + 1)

    tiles = (
        (_balanced(shape.rows, min(limited(of_keys), limited(of_width))), of_keys, of_width)
        for of_keys, of_width in product(widths_of(keys if packs_keys else 1), widths_of(widths))
    )
    return min(((cost(tile), tile) for tile in tiles), key=itemgetter(0))


def _balanced(rows: int, limit: int) -> int:
    """Return the rows of as few equal tiles of at most *limit* as *rows* need."""
    return -(-rows // -(-rows // limit))


def _rounded_up(number: int, step: int) -> int:
    return -(-number // step) * step
