"""Pools one dimension after the other (see :mod:`.pool_plan`): lines of vectors of channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod

from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.windows.pool_plan import SeparablePlan
from glow_nb.kernels.windows.pool_windows import Pool, cells
from glow_nb.kernels.windows.window_lines import Line
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.pixels import Pixels
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Block, ceil_power_of_two
from glow_nb.llir.strides import contiguous_strides

Load = Callable[[Sequence[str]], str]
"""Returns the load of a vector at some spatial indices."""


def write_separable_pool(
    family: str, pool: Pool, plan: SeparablePlan, fusion: Fusion
) -> KernelSource:
    """Return the kernel of *pool* as *plan* says."""
    out, source = SourceWriter(), fusion.names[pool.windows.source]
    with out.block(fusion.header):
        if source != "src":
            out.line(f"src = {source}")
        if plan.scratch_bytes:
            out.line(f"work = as_{pool.fold.kind.value}(scratch)")
        for strips, block in _strips(pool.windows.channels, plan.lanes):
            _Writer(out, pool, plan, fusion, block).write(strips)
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
class _Writer:
    """Writes the loops for blocks of channels of one form.

    Attributes:
        out: Takes the lines.
        pool: What is computed.
        plan: How.
        fusion: What is done to the result.
        block: The channels.
    """

    out: SourceWriter
    pool: Pool
    plan: SeparablePlan
    fusion: Fusion
    block: Block

    @property
    def rank(self) -> int:
        """Spatial dimensions."""
        return len(self.pool.windows.out)

    def write(self, strips: int) -> None:
        """Write the thread's share of samples, parts and *strips* of channels."""
        out, sizes = self.out, (self.pool.windows.source.type.shape[0], self.plan.pieces, strips)
        with loops(out, sizes, shared=True, prefix="u") as (sample, piece, strip):
            if self.block.column == "column":
                out.line(f"column = {index_text([strip], [self.block.lanes])}")
            self._write_range(piece)
            load = self._from_input(sample)
            for number, axis in enumerate(self.plan.axes[:-1]):
                load = self._write_level(axis, number, load)
            self._write_results(sample, load)

    def _write_range(self, piece: str) -> None:
        """Write which steps of the first dimension the part has, and which rows it reads."""
        windows, (rows, size) = self.pool.windows, (self.plan.rows, self.pool.windows.size[0])
        self.out.line(f"first = {index_text([piece], [rows])}")
        self.out.line(f"end = min(first + {rows}, {windows.out[0]})")
        stride, begin = windows.stride[0], windows.begins[0]
        self.out.line(f"low = max(0, {index_text(['first'], [stride], -begin)})")
        reach = index_text(["(end - 1)"], [stride], windows.span(0) - begin)
        self.out.line(f"high = min({size}, {reach})")

    def _from_input(self, sample: str) -> Load:
        """Return how cells of the input are loaded."""
        strides = self.pool.windows.source.strides

        def load(indices: Sequence[str]) -> str:
            place = index_text([sample, *indices], strides[:-1])
            return cells(self.pool.kind, self.block, plus(place, self.block.column))

        return load

    def _write_level(self, axis: int, number: int, load: Load) -> Load:
        """Write the lines along *axis* to scratch; returns how they are loaded from there."""
        windows, lanes = self.pool.windows, self.block.lanes
        sizes = self.plan.level_sizes
        strides = [lanes * step for step in contiguous_strides(sizes[number])]
        offset = sum(prod(level) for level in sizes[:number]) * self.plan.lanes
        done = self.plan.axes[:number]

        def place(indices: Sequence[str]) -> str:
            row, *others = indices
            return plus(index_text([f"({row} - low)", *others], strides), str(offset))

        def load_again(indices: Sequence[str]) -> str:
            return f"load(work, {place(indices)}, {lanes})"

        ranges = ["low, high"]
        ranges += [
            str((windows.out if a in done else windows.size)[a]) for a in range(1, self.rank)
        ]
        with self._others(axis, ranges) as indices:

            def emit(step: str, total: str) -> None:
                self.out.line(f"store(work, {place(_with(indices, axis, step))}, {total})")

            self._write_line(axis, ("0", str(windows.out[axis])), indices, load, emit)
        return load_again

    def _write_results(self, sample: str, load: Load) -> None:
        """Write the lines along the last of the dimensions to the result."""
        axis, windows, out = self.plan.axes[-1], self.pool.windows, self.out
        results = Pixels.of(self.fusion.pointers, self.fusion.made.type.shape)
        ranges = ["first, end", *(str(n) for n in windows.out[1:])]
        with self._others(axis, ranges) as indices:
            bounds = [("0", "1")] * self.rank
            if self.pool.is_mean:
                for other in range(self.rank):
                    if other != axis:
                        bounds[other] = windows.write_bounds(out, other, indices[other])

            def emit(step: str, total: str) -> None:
                if self.pool.is_mean:
                    bounds[axis] = windows.write_bounds(out, axis, step)
                places = results.write_places(out, [sample, *_with(indices, axis, step)])
                site = results.site(self.block, places)
                self.fusion.write(out, site, self.pool.result(total, tuple(bounds), site.lanes))

            steps = ("first", "end") if axis == 0 else ("0", str(windows.out[axis]))
            self._write_line(axis, steps, indices, load, emit)

    @contextmanager
    def _others(self, axis: int, ranges: Sequence[str]) -> Iterator[list[str]]:
        """Write loops over all dimensions but *axis*; yields the names of their indices."""
        names = [f"o{number}" for number in range(self.rank)]
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
        emit: Callable[[str, str], None],
    ) -> None:
        """Write the windows along *axis* in the way that the plan says."""
        plan, lanes = self.plan, self.block.lanes
        kept = sum(map(prod, plan.level_sizes)) * plan.lanes
        line = Line(self.pool.windows, axis, self.pool.fold, lanes, kept)

        def read(cell: str) -> str:
            return load(_with(indices, axis, f"({cell})"))

        if axis in plan.scans:
            line.write_scans(self.out, *steps, read, emit)
        else:
            line.write_taps(self.out, ", ".join(steps), read, emit)


def _with(indices: Sequence[str], axis: int, index: str) -> list[str]:
    """Return *indices* with another one along *axis*."""
    return [*indices[:axis], index, *indices[axis + 1 :]]
