"""Pooling over windows, channels last: each output pixel is a loop over taps of channel vectors.

The window is clamped to the input once for each pixel, so that no tap is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.kernels.registry import head_kernel_for, kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.pixels import Pixels
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Block, Site, blocks_of, computed_kind, native_lanes
from glow_nb.llir.instructions.pooling import AvgPoolInst, MaxPoolInst, MaxPoolWithArgmaxInst
from glow_nb.llir.program import Buffer
from glow_nb.llir.traits import FUSES_EPILOGUE


@dataclass(frozen=True)
class _Windows:
    """Windows over the spatial dimensions of an input.

    Attributes:
        source: The input, ``[N, *in, C]``.
        out: Spatial sizes of the result.
        kernel, stride, dilation, begins, ends: For each spatial dimension.
    """

    source: Buffer
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(
        cls, instruction: MaxPoolInst | AvgPoolInst | MaxPoolWithArgmaxInst, dest: Buffer
    ) -> _Windows:
        """Return the windows of a pooling *instruction*."""
        source, rank = instruction.input, len(instruction.kernel)
        for buffer in (source, dest):
            if buffer.strides[-1] != 1 and buffer.type.shape[-1] > 1:
                raise UnsupportedError(
                    f"{instruction!r}: channels of {buffer!r} lie {buffer.strides[-1]} elements "
                    "apart; copy them side by side first"
                )
        return cls(
            source,
            dest.type.shape[1:-1],
            instruction.kernel,
            instruction.stride,
            instruction.dilation,
            instruction.pads[:rank],
            instruction.pads[rank:],
        )

    @property
    def size(self) -> tuple[int, ...]:
        """Spatial sizes of the input."""
        return self.source.type.shape[1:-1]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.source.type.shape[-1]

    def is_clipped(self, axis: int) -> bool:
        """Return whether some window reaches into padding along *axis*."""
        last = (self.out[axis] - 1) * self.stride[axis] - self.begins[axis]
        reach = last + self.dilation[axis] * (self.kernel[axis] - 1)
        return self.begins[axis] > 0 or reach >= self.size[axis]

    def taps_before(self, axis: int, limit: str) -> str:
        """Return how many taps of a window lie before the cell *limit*, relative to its start."""
        step = self.dilation[axis]
        count = limit if step == 1 else f"({plus(limit, str(step - 1))}) // {step}"
        return f"min({self.kernel[axis]}, {count})"


@dataclass(frozen=True)
class _Window:
    """One window as text.

    Attributes:
        windows: All of them.
        origin: Index in the input of the first cell of the window, channel 0.
        bounds: For each spatial dimension, the first tap inside of the input and the one after the
            last.
    """

    windows: _Windows
    origin: str
    bounds: tuple[tuple[str, str], ...]

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
    out: SourceWriter, windows: _Windows, dest: Buffer
) -> Iterator[tuple[_Window, tuple[str, ...]]]:
    """Write loops over the pixels of *dest* around the block.

    Yields the window and the indices of the loops: the sample, then the spatial ones.
    """
    with loops(out, (dest.type.shape[0], *windows.out), shared=True) as indices:
        bounds = [_write_bounds(out, windows, axis, i) for axis, i in enumerate(indices[1:])]
        cells = [f"cell{axis}" for axis in range(len(bounds))]
        out.line(f"origin = {index_text([indices[0], *cells], windows.source.strides[:-1])}")
        yield _Window(windows, "origin", tuple(bounds)), indices


def _write_bounds(out: SourceWriter, windows: _Windows, axis: int, index: str) -> tuple[str, str]:
    """Write where the window begins along *axis* and which taps are inside of the input."""
    start = index_text([index], [windows.stride[axis]], -windows.begins[axis])
    out.line(f"cell{axis} = {start}")
    if not windows.is_clipped(axis):
        return "0", str(windows.kernel[axis])
    out.line(f"begin{axis} = max(0, {windows.taps_before(axis, f'-cell{axis}')})")
    size = windows.size[axis]
    out.line(f"end{axis} = {windows.taps_before(axis, f'{size} - cell{axis}')}")
    return f"begin{axis}", f"end{axis}"


def _write_total(
    out: SourceWriter, window: _Window, block: Block, kind: ElementKind, fold: _Fold
) -> None:
    """Write ``total``, what all cells of the window of a block of channels come to."""
    out.line(f"total = {fold.start(block.lanes)}")
    with window.taps(out) as taps:
        fold.write_next(out, _cells(kind, block, window.place(taps, block)))


def _cells(kind: ElementKind, block: Block, place: str) -> str:
    """Return the load of a block of cells, in the kind that they are computed in."""
    cells, wide = block.load("src", place), computed_kind(kind)
    return cells if kind is wide else f"convert_{wide.value}({cells})"


@dataclass(frozen=True)
class _Fold:
    """How cells come together: a sum, or a maximum.

    Attributes:
        function: Of two vectors.
        kind: Of the vectors.
        neutral: What the total starts with.
    """

    function: str
    kind: ElementKind
    neutral: float

    def start(self, lanes: int) -> str:
        """Return the vector that the total starts with."""
        return f"splat_{self.kind.value}({number_text(self.neutral)}, {lanes})"

    def write_next(self, out: SourceWriter, cell: str) -> None:
        """Write the total with one more *cell*; of zeros, a maximum is the first one."""
        if self.function == "maximum" and self.kind.is_float:
            out.line(f"x = {cell}")
            out.line("total = where(bit_or(less(total, x), isnan(x)), x, total)")
        else:
            out.line(f"total = {self.function}(total, {cell})")


def _pool_kernel(
    family: str,
    windows: _Windows,
    fusion: Fusion,
    lanes: int,
    body: Callable[[SourceWriter, _Window, Site, tuple[str, ...]], None],
) -> KernelSource:
    """Return a kernel that writes *body* for each pixel and block of channels."""
    out, dest, source = SourceWriter(), fusion.made, fusion.names[windows.source]
    results = Pixels.of(fusion.pointers, dest.type.shape)
    with out.block(fusion.header):
        if not dest.type.size:
            out.line("return")
        else:
            if source != "src":
                out.line(f"src = {source}")
            with _each_window(out, windows, dest) as (window, indices):
                places = results.write_places(out, indices)
                for block in blocks_of(out, windows.channels, lanes if results.are_dense else 1):
                    body(out, window, results.site(block, places), indices)
    return KernelSource(family, out.text, fusion.kinds)


def _narrowed(kind: ElementKind, vector: str) -> str:
    """Return a vector of the kind that is computed in as *kind*."""
    return vector if computed_kind(kind) is kind else f"convert_{kind.value}({vector})"


@head_kernel_for(MaxPoolInst, traits=FUSES_EPILOGUE)
def max_pool_source(instruction: MaxPoolInst, target: Target, fusion: Fusion) -> KernelSource:
    """Return the kernel of a maximum over windows; NaN wins, padding never."""
    fusion = fusion.named("dest", "src")
    kind = instruction.dest.type.kind
    windows = _Windows.of(instruction, instruction.dest)
    wide = computed_kind(kind)
    fold = _Fold("maximum", wide, bounds_of(kind)[0])

    def body(out: SourceWriter, window: _Window, site: Site, _: tuple[str, ...]) -> None:
        _write_total(out, window, site.block, kind, fold)
        fusion.write(out, site, _narrowed(kind, "total"))

    lanes = target.machine.unroll_vectors * native_lanes(target, wide)
    return _pool_kernel("max_pool", windows, fusion, lanes, body)


@head_kernel_for(AvgPoolInst, traits=FUSES_EPILOGUE)
def avg_pool_source(instruction: AvgPoolInst, target: Target, fusion: Fusion) -> KernelSource:
    """Return the kernel of a mean over windows, which divides by the cells that count."""
    fusion = fusion.named("dest", "src")
    kind = instruction.dest.type.kind
    windows = _Windows.of(instruction, instruction.dest)
    wide = computed_kind(kind)

    def body(out: SourceWriter, window: _Window, site: Site, _: tuple[str, ...]) -> None:
        _write_total(out, window, site.block, kind, _Fold("add", wide, 0.0))
        count = _count_text(window, instruction)
        mean = f"div(total, splat_{wide.value}({count}, {site.lanes}))"
        fusion.write(out, site, _narrowed(kind, mean))

    lanes = target.machine.unroll_vectors * native_lanes(target, wide)
    return _pool_kernel("avg_pool", windows, fusion, lanes, body)


def _count_text(window: _Window, instruction: AvgPoolInst) -> str:
    """Return how many cells of the window count, as text."""
    windows, factors = window.windows, []
    for axis, (begin, end) in enumerate(window.bounds):
        if instruction.count_padding:
            skipped = instruction.uncounted[axis] if instruction.uncounted else 0
            limit = windows.size[axis] + windows.ends[axis] - skipped
            factors.append(f"max(0, {windows.taps_before(axis, f'{limit} - cell{axis}')})")
        else:
            factors.append(end if begin == "0" else f"max(0, {end} - {begin})")
    return " * ".join(factors)


@kernel_for(MaxPoolWithArgmaxInst)
def max_pool_with_argmax_source(instruction: MaxPoolWithArgmaxInst, target: Target) -> KernelSource:
    """Return the kernel of a maximum over windows and the places it was found at.

    Places count the elements of ``[N, C, *in]``; the first of equal cells wins, and the last NaN
    over all.
    """
    fusion = Fusion.of(instruction).named("dest", "places", "src")
    values, kind = instruction.values, instruction.values.type.kind
    windows = _Windows.of(instruction, values)
    if instruction.indices.strides != values.strides:
        raise UnsupportedError(f"{instruction!r}: values and indices lie differently in memory")
    wide = computed_kind(kind)
    fold = _Fold("maximum", wide, bounds_of(kind)[0])
    size = windows.size
    spots = [prod(size[axis + 1 :]) for axis in range(len(size))]
    if instruction.column_major:
        spots = [prod(size[:axis]) for axis in range(len(size))]

    def body(out: SourceWriter, window: _Window, site: Site, indices: tuple[str, ...]) -> None:
        block, lanes = site.block, site.lanes
        out.line(f"total = {fold.start(lanes)}")
        out.line(f"place = splat_int64(-1, {lanes})")
        with window.taps(out) as taps:
            out.line(f"x = {_cells(kind, block, window.place(taps, block))}")
            out.line(f"better = bit_or(greater(x, total), less(place, splat_int64(0, {lanes})))")
            if kind.is_float:
                out.line("better = bit_or(better, isnan(x))")
            cells = [
                f"(cell{axis} + {index_text([tap], [windows.dilation[axis]])})"
                for axis, tap in enumerate(taps)
            ]
            out.line(f"spot = {index_text(cells, spots)}")
            out.line("total = where(better, x, total)")
            out.line(f"place = where(better, splat_int64(spot, {lanes}), place)")
        plane = plus(index_text([indices[0]], [windows.channels]), block.column)
        out.line(f"plane = add(splat_int64({plane}, {lanes}), iota_int64({lanes}))")
        out.line(f"found = add(mul(plane, splat_int64({prod(size)}, {lanes})), place)")
        out.line(f"place = where(less(place, splat_int64(0, {lanes})), place, found)")
        out.line(site.store("dest", _narrowed(kind, "total")))
        out.line(site.store("places", "place"))

    lanes = native_lanes(target, wide)
    return _pool_kernel("max_pool_with_argmax", windows, fusion, lanes, body)
