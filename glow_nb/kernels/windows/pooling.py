"""Pooling over windows, channels last: each output pixel is a loop over taps of channel vectors.

The window is clamped to the input once for each pixel, so that no tap is tested. Pools with many
taps are computed one dimension after the other (:mod:`.separable_pooling`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod

from glow_nb.base.errors import UnsupportedError
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.kernels.registry import head_kernel_for, kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.windows.pool_plan import SEPARABLE, SeparablePlan, plan_pool
from glow_nb.kernels.windows.pool_windows import (
    Bounds,
    Fold,
    Pool,
    Windows,
    cells,
    count_text,
    narrowed,
)
from glow_nb.kernels.windows.separable_pooling import write_separable_pool
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.pixels import Pixels
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Block, Site, blocks_of, computed_kind, native_lanes
from glow_nb.llir.instructions.pooling import AvgPoolInst, MaxPoolInst, MaxPoolWithArgmaxInst
from glow_nb.llir.program import Buffer
from glow_nb.llir.traits import FUSES_EPILOGUE


@dataclass(frozen=True)
class _Window:
    """One window as text.

    Attributes:
        windows: All of them.
        origin: Index in the input of the first cell of the window, channel 0.
        bounds: For each spatial dimension, the first tap inside of the input and the one after the
            last.
    """

    windows: Windows
    origin: str
    bounds: Bounds

    def place(self, taps: Sequence[str], block: Block) -> str:
        """Return the index in the input of a block of channels of one tap."""
        strides = self.windows.source.strides[1:-1]
        steps = [s * d for s, d in zip(strides, self.windows.dilation, strict=True)]
        return plus(self.origin, index_text(taps, steps), block.column)

    @contextmanager
    def taps(self, out: SourceWriter) -> Iterator[tuple[str, ...]]:
        """Write loops over the taps inside of the input around the block; yields their names."""
        names = tuple(f"k{axis}" for axis in range(len(self.bounds)))
        with ExitStack() as stack:
            for name, (begin, end) in zip(names, self.bounds, strict=True):
                stack.enter_context(out.block(f"for {name} in range({begin}, {end}):"))
            yield names


@contextmanager
def _each_window(
    out: SourceWriter, windows: Windows, dest: Buffer
) -> Iterator[tuple[_Window, tuple[str, ...]]]:
    """Write loops over the pixels of *dest* around the block.

    Yields the window and the indices of the loops: the sample, then the spatial ones.
    """
    with loops(out, (dest.type.shape[0], *windows.out), shared=True) as indices:
        bounds = [windows.write_bounds(out, axis, i) for axis, i in enumerate(indices[1:])]
        firsts = [f"cell{axis}" for axis in range(len(bounds))]
        out.line(f"origin = {index_text([indices[0], *firsts], windows.source.strides[:-1])}")
        yield _Window(windows, "origin", tuple(bounds)), indices


def _pool_kernel(
    family: str,
    windows: Windows,
    fusion: Fusion,
    lanes: int,
    body: Callable[[SourceWriter, _Window, Site, tuple[str, ...]], None],
) -> KernelSource:
    """Return a kernel that writes *body* for each pixel and block of channels."""
    out, dest, source = SourceWriter(), fusion.made, fusion.names[windows.source]
    results = Pixels.of(fusion.pointers, dest.type.shape)
    with out.block(fusion.header):
        if dest.type.size == 0:
            out.line("return")
        else:
            if source != "src":
                out.line(f"src = {source}")
            with _each_window(out, windows, dest) as (window, indices):
                places = results.write_places(out, indices)
                for block in blocks_of(out, windows.channels, lanes if results.are_dense else 1):
                    body(out, window, results.site(block, places), indices)
    return KernelSource(family, out.text, fusion.kinds)


@head_kernel_for(MaxPoolInst, AvgPoolInst, traits=FUSES_EPILOGUE, planner=plan_pool)
def pool_source(
    instruction: MaxPoolInst | AvgPoolInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel of a maximum over windows, or of a mean.

    Of a maximum NaN wins, padding never. A mean divides by the cells that count.
    """
    fusion = fusion.named("dest", "src")
    pool = Pool.of(instruction)
    family = "avg_pool" if pool.is_mean else "max_pool"
    if instruction.plan is not None:
        plan = SeparablePlan.from_plan(plan_of(instruction, SEPARABLE), pool, target)
        return write_separable_pool(family, pool, plan, fusion)

    def body(out: SourceWriter, window: _Window, site: Site, _: tuple[str, ...]) -> None:
        out.line(f"total = {pool.fold.start(site.lanes)}")
        with window.taps(out) as taps:
            pool.fold.write(
                out, "total", cells(pool.kind, site.block, window.place(taps, site.block))
            )
        count = ""
        if pool.is_mean:
            text = count_text(instruction, pool.windows, window.bounds)
            count = f"splat_{pool.fold.kind.value}({text}, {site.lanes})"
        fusion.write(out, site, pool.result("total", count))

    lanes = target.machine.unroll_vectors * native_lanes(target, pool.fold.kind)
    return _pool_kernel(family, pool.windows, fusion, lanes, body)


@kernel_for(MaxPoolWithArgmaxInst)
def max_pool_with_argmax_source(instruction: MaxPoolWithArgmaxInst, target: Target) -> KernelSource:
    """Return the kernel of a maximum over windows and the places it was found at.

    Places count the elements of ``[N, C, *in]``; the first of equal cells wins, and the last NaN
    over all.
    """
    fusion = Fusion.of(instruction).named("dest", "places", "src")
    values, kind = instruction.values, instruction.values.type.kind
    windows = Windows.of(instruction, values)
    if instruction.indices.strides != values.strides:
        raise UnsupportedError(f"{instruction!r}: values and indices lie differently in memory")
    wide = computed_kind(kind)
    fold = Fold("maximum", wide, bounds_of(kind)[0])
    size = windows.size
    spots = [prod(size[axis + 1 :]) for axis in range(len(size))]
    if instruction.column_major:
        spots = [prod(size[:axis]) for axis in range(len(size))]

    def body(out: SourceWriter, window: _Window, site: Site, indices: tuple[str, ...]) -> None:
        block, lanes = site.block, site.lanes
        out.line(f"total = {fold.start(lanes)}")
        out.line(f"place = splat_int64(-1, {lanes})")
        with window.taps(out) as taps:
            out.line(f"x = {cells(kind, block, window.place(taps, block))}")
            out.line(f"better = bit_or(greater(x, total), less(place, splat_int64(0, {lanes})))")
            if kind.is_float:
                out.line("better = bit_or(better, isnan(x))")
            spots_of = [
                f"(cell{axis} + {index_text([tap], [windows.dilation[axis]])})"
                for axis, tap in enumerate(taps)
            ]
            out.line(f"spot = {index_text(spots_of, spots)}")
            out.line("total = where(better, x, total)")
            out.line(f"place = where(better, splat_int64(spot, {lanes}), place)")
        plane = plus(index_text([indices[0]], [windows.channels]), block.column)
        out.line(f"plane = add(splat_int64({plane}, {lanes}), iota_int64({lanes}))")
        out.line(f"found = add(mul(plane, splat_int64({prod(size)}, {lanes})), place)")
        out.line(f"place = where(less(place, splat_int64(0, {lanes})), place, found)")
        out.line(site.store("dest", narrowed(kind, "total")))
        out.line(site.store("places", "place"))

    lanes = native_lanes(target, wide)
    return _pool_kernel("max_pool_with_argmax", windows, fusion, lanes, body)
