"""Pools one dimension after the other, as :mod:`.pool_plan` plans them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod

from typing_extensions import override

from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.windows.pool_plan import SeparablePlan, pixels_of
from glow_nb.kernels.windows.pool_windows import Bounds, Pool, cells, count_along, count_text
from glow_nb.kernels.windows.window_lines import Line
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Block, blocks_of, ceil_power_of_two
from glow_nb.llir.strides import contiguous_strides

Load = Callable[[Sequence[str], Block], str]
"""Returns the load of a block of the cell at some indices."""
Place = Callable[[Sequence[str], Block], str]
"""Returns where a block of the cell at some indices lies in ``work``."""


def write_separable_pool(
    family: str, pool: Pool, plan: SeparablePlan, fusion: Fusion
) -> KernelSource:
    """Return the kernel of *pool* as *plan* says."""
    out, source = SourceWriter(), fusion.names[pool.windows.source]
    with out.block(fusion.header):
        if source != "src":
            out.line(f"src = {source}")
        if plan.scratch_bytes != 0:
            out.line(f"work = as_{pool.fold.kind.value}(scratch)")
        if plan.is_in_rows:
            rows = _RowWriter(out, pool, plan, fusion)
            rows.write_once()
            rows.write(1)
        else:
            for strips, block in _strips(pool.windows.channels, plan.lanes):
                _ChannelWriter(out, pool, plan, fusion, block).write(strips)
    return KernelSource(family, out.text, fusion.kinds, plan.scratch_bytes)


def _strips(channels: int, lanes: int) -> Iterator[tuple[int, Block]]:
    """Yield how many blocks of channels there are of one form, and one of them.

    Whole ones begin at ``column``; what is left is one block.
    """
    whole, rest = divmod(channels, lanes)
    if whole:
        yield whole, Block("column", lanes)
    if rest:
        needed = ceil_power_of_two(rest)
        yield 1, Block(str(channels - rest), needed, None if needed == rest else rest)


@dataclass(frozen=True)
class _Writer(ABC):
    """Writes the loops over samples and parts, and over the cells of each.

    Attributes:
        out: Takes the lines.
        pool: The pool.
        plan: The plan.
        fusion: The fused epilogue.
    """

    out: SourceWriter
    pool: Pool
    plan: SeparablePlan
    fusion: Fusion

    def write(self, strips: int) -> None:
        """Write the thread's share of samples, parts and *strips* of channels."""
        sizes = (self.pool.windows.source.type.shape[0], self.plan.pieces, strips)
        with loops(self.out, sizes, shared=True, prefix="u") as (sample, piece, strip):
            self._write_part(sample, piece, strip)

    @abstractmethod
    def _write_part(self, sample: str, piece: str, strip: str) -> None:
        """Write a part of a sample."""

    @abstractmethod
    def _whole_blocks(self) -> Iterator[Block]:
        """Yield the blocks of a cell in scratch; what is written for each is its body."""

    @abstractmethod
    def _result_blocks(self) -> Iterator[Block]:
        """Yield the blocks of a cell of the result, likewise."""

    @abstractmethod
    def _column(self, block: Block) -> str:
        """Return where a block begins in a cell in scratch."""

    def _write_range(self, piece: str) -> None:
        """Write which steps of the first dimension the part has, and which rows it reads."""
        windows, (rows, size) = self.pool.windows, (self.plan.rows, self.pool.windows.size[0])
        self.out.line(f"first = {index_text([piece], [rows])}")
        self.out.line(f"end = min(first + {rows}, {windows.out[0]})")
        stride, begin = windows.stride[0], windows.begins[0]
        self.out.line(f"low = max(0, {index_text(['first'], [stride], -begin)})")
        reach = index_text(["(end - 1)"], [stride], windows.span(0) - begin)
        self.out.line(f"high = min({size}, {reach})")

    def _place_in(self, level: int) -> Place:
        """Return where the cells of a level lie in scratch."""
        sizes, width = self.plan.level_sizes, self.plan.width
        strides = [width * step for step in contiguous_strides(sizes[level])]
        offset = sum(map(prod, sizes[:level])) * width

        def place(indices: Sequence[str], block: Block) -> str:
            row, *others = indices
            cell = index_text([f"({row} - low)", *others], strides)
            return plus(cell, offset, self._column(block))

        return place

    def _load_from(self, level: int) -> Load:
        """Return how cells are loaded from scratch."""
        place = self._place_in(level)
        return lambda indices, block: f"load(work, {place(indices, block)}, {block.lanes})"

    def _write_level(self, axis: int, level: int, done: Sequence[int], load: Load) -> None:
        """Write the lines along *axis* to scratch; those of the dimensions *done* are reduced."""
        windows, place = self.pool.windows, self._place_in(level)
        others = range(1, self.plan.rank)
        sizes = ((windows.out if other in done else windows.size)[other] for other in others)
        ranges = ["low, high", *(f"{size}" for size in sizes)]
        with self._others(axis, ranges) as indices:
            for block in self._whole_blocks():

                def emit(step: str, total: str, block: Block = block) -> None:
                    to = place(_with(indices, axis, step), block)
                    self.out.line(f"store(work, {to}, {total})")

                steps = ("0", f"{windows.out[axis]}")
                self._write_line(axis, steps, indices, load, block, emit)

    def _write_results(self, sample: str, axis: int, load: Load) -> None:
        """Write the lines along *axis*, the last one to be reduced, to the result."""
        windows, rank = self.pool.windows, self.plan.rank
        ranges = ["first, end", *(f"{size}" for size in windows.out[1:rank])]
        with self._others(axis, ranges) as indices:
            bounds = self._write_counts(indices, axis)
            for block in self._result_blocks():

                def emit(step: str, total: str, block: Block = block) -> None:
                    if self.pool.is_mean:
                        bounds[axis] = windows.write_bounds(self.out, axis, step)
                    self._write_result([sample, *_with(indices, axis, step)], total, bounds, block)

                steps = ("first", "end") if axis == 0 else ("0", f"{windows.out[axis]}")
                self._write_line(axis, steps, indices, load, block, emit)

    def _write_counts(self, indices: Sequence[str], axis: int | None) -> list[tuple[str, str]]:
        """Write which taps of a mean see the input, along all dimensions of cells but *axis*."""
        bounds = [("0", "1")] * self.plan.rank
        for other, index in enumerate(indices):
            if self.pool.is_mean and other != axis:
                bounds[other] = self.pool.windows.write_bounds(self.out, other, index)
        return bounds

    def _write_result(
        self, indices: Sequence[str], total: str, bounds: Sequence[tuple[str, str]], block: Block
    ) -> None:
        """Write what becomes of the *total* of a block of the cell at *indices*."""
        results = pixels_of(self.fusion, self.plan.is_in_rows)
        site = results.site(block, results.write_places(self.out, indices))
        self.fusion.write(self.out, site, self._result(total, tuple(bounds), block))

    @abstractmethod
    def _result(self, total: str, bounds: Bounds, block: Block) -> str:
        """Return the result of windows of which some vectors of cells come to *total*."""

    @contextmanager
    def _others(self, axis: int | None, ranges: Sequence[str]) -> Iterator[list[str]]:
        """Write loops over all dimensions but *axis*; yields the names of their indices."""
        names = [f"o{number}" for number in range(self.plan.rank)]
        with ExitStack() as stack:
            for number, (name, limits) in enumerate(zip(names, ranges, strict=True)):
                if number != axis:
                    stack.enter_context(self.out.block(f"for {name} in range({limits}):"))
            yield names

    def _write_line(
        self,
        axis: int,
        steps: tuple[str, str],
        indices: Sequence[str],
        load: Load,
        block: Block,
        emit: Callable[[str, str], None],
    ) -> None:
        """Write the windows along *axis* in the way that the plan says."""
        line = Line(self.pool.windows, axis, self.pool.fold, block.lanes, self.plan.scan_offset)

        def read(cell: str) -> str:
            return load(_with(indices, axis, f"({cell})"), block)

        if axis in self.plan.scans:
            line.write_scans(self.out, *steps, read, emit)
        else:
            line.write_taps(self.out, ", ".join(steps), read, emit)


@dataclass(frozen=True)
class _ChannelWriter(_Writer):
    """Writes them for cells of channels.

    Attributes:
        block: The channels.
    """

    block: Block

    @override
    def _write_part(self, sample: str, piece: str, strip: str) -> None:
        if self.block.column == "column":
            self.out.line(f"column = {index_text([strip], [self.block.lanes])}")
        self._write_range(piece)
        load, axes = self._from_input(sample), self.plan.axes
        for level, axis in enumerate(axes[:-1]):
            self._write_level(axis, level, axes[:level], load)
            load = self._load_from(level)
        self._write_results(sample, axes[-1], load)

    def _from_input(self, sample: str) -> Load:
        """Return how cells of the input are loaded."""
        strides = self.pool.windows.source.strides

        def load(indices: Sequence[str], block: Block) -> str:
            place = index_text([sample, *indices], strides[:-1])
            return cells(self.pool.kind, block, plus(place, block.column))

        return load

    @override
    def _whole_blocks(self) -> Iterator[Block]:
        yield self.block

    @override
    def _result_blocks(self) -> Iterator[Block]:
        yield self.block

    @override
    def _column(self, _: Block) -> str:
        return "0"

    @override
    def _result(self, total: str, bounds: Bounds, block: Block) -> str:
        if not self.pool.is_mean:
            return self.pool.result(total)
        count = count_text(self.pool.instruction, self.pool.windows, bounds)
        return self.pool.result(total, f"splat_{self.pool.fold.kind.value}({count}, {block.lanes})")


@dataclass(frozen=True)
class _RowWriter(_Writer):
    """Writes them for cells that are rows of the result."""

    @override
    def _write_part(self, sample: str, piece: str, _: str) -> None:
        if self.plan.rank:
            self._write_range(piece)
        axes = self.plan.axes
        if not axes:
            self._write_rows_of_result(sample)
            return
        self._write_rows(sample)
        for level, axis in enumerate(axes[:-1], 1):
            self._write_level(axis, level, axes[: level - 1], self._load_from(level - 1))
        self._write_results(sample, axes[-1], self._load_from(len(axes) - 1))

    def _write_rows(self, sample: str) -> None:
        """Write the windows of all rows of the part to scratch."""
        place, size = self._place_in(0), self.pool.windows.size
        with self._others(
            None, ["low, high", *(f"{extent}" for extent in size[1 : self.plan.rank])]
        ) as indices:
            self._write_start(sample, indices)

            def emit(block: Block) -> None:
                self.out.line(f"store(work, {place(indices, block)}, total)")

            self.plan.row.write_windows(self.out, emit, overlaps=True)

    def _write_rows_of_result(self, sample: str) -> None:
        """Write the windows of all rows to the result: in no other dimension are there any."""
        ranges = ["first, end", *(f"{size}" for size in self.pool.windows.out[1:])][
            : self.plan.rank
        ]
        with self._others(None, ranges) as indices:
            self._write_start(sample, indices)
            bounds = self._write_counts(indices, None)

            def emit(block: Block) -> None:
                self._write_result([sample, *indices], "total", bounds, block)

            self.plan.row.write_windows(self.out, emit, overlaps=False)

    def _write_start(self, sample: str, indices: Sequence[str]) -> None:
        """Write where a row of the input begins."""
        strides = self.pool.windows.source.strides[:-2]
        self.out.line(f"row = {index_text([sample, *indices], strides)}")

    @override
    def _whole_blocks(self) -> Iterator[Block]:
        return blocks_of(self.out, self.plan.width, self.plan.lanes)

    @override
    def _result_blocks(self) -> Iterator[Block]:
        return blocks_of(self.out, self.pool.windows.out[-1], self.plan.lanes)

    @override
    def _column(self, block: Block) -> str:
        return block.column

    def write_once(self) -> None:
        """Write what stays the same for all rows: how many cells of their windows count."""
        if not self.plan.keeps_counts:
            return
        windows, last = self.pool.windows, self.plan.rank
        with self.out.block(f"for o{last} in range({windows.out[last]}):"):
            bounds = {last: windows.write_bounds(self.out, last, f"o{last}")}
            count = count_along(self.pool.instruction, windows, last, bounds[last])
            place = plus(f"o{last}", self.plan.counts_offset)
            self.out.line(f"store(work, {place}, splat_{self.pool.fold.kind.value}({count}, 1))")

    @override
    def _result(self, total: str, bounds: Bounds, block: Block) -> str:
        """Windows side by side may have counts of their own."""
        if not self.pool.is_mean:
            return self.pool.result(total)
        kind, lanes = self.pool.fold.kind.value, block.lanes
        windows, last = self.pool.windows, self.plan.rank
        counts = [count_text(self.pool.instruction, windows, bounds)] if bounds else []
        if not self.plan.keeps_counts:
            counts.append(str(windows.kernel[last]))
        common = f"splat_{kind}({' * '.join(counts) or '1'}, {lanes})"
        if self.plan.keeps_counts:
            own = f"load(work, {plus(block.column, self.plan.counts_offset)}, {lanes})"
            common = f"mul({common}, {own})"
        return self.pool.result(total, common)


def _with(indices: Sequence[str], axis: int, index: str) -> list[str]:
    """Return *indices* with another one along *axis*."""
    return [*indices[:axis], index, *indices[axis + 1 :]]
