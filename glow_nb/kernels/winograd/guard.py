"""The source of a Winograd convolution that sums up directly what its transforms make not finite.

The transforms mix all inputs of a tile. So a NaN or an infinity in one of them spoils outputs whose
own windows do not hold it, and what is large may overflow before it cancels out. An output that is
finite has nothing of that in it. The others are summed up again, tap by tap, before the epilogue;
the taps are recovered from the transformed filter, once a panel.
"""

from __future__ import annotations

from math import prod

from typing_extensions import override

from glow_nb.kernels.bilinear.plan import PAD_BYTES, rounded_up
from glow_nb.kernels.winograd.writer import WinogradWriter
from glow_nb.kernels.writing.index_text import plus, times


class GuardedWriter(WinogradWriter):
    """Writes a kernel that looks at each vector of outputs before it is stored."""

    @property
    @override
    def scratch_bytes(self) -> int:
        more = self.taps_elements + self.pad
        return super().scratch_bytes + more * self.nest.kind.size_bytes

    @property
    def pad(self) -> int:
        """Elements that hold the number of the panel whose taps are known.

        A variable that lives through all loops would take numba half as long again to compile.
        """
        return PAD_BYTES // self.nest.kind.size_bytes

    @property
    def taps_elements(self) -> int:
        """Elements that hold the filter of one panel as it was before it was transformed."""
        inner = self.shape.channels_per_group
        return rounded_up(prod(self.shape.kernel) * inner * self.nest.block, self.pad)

    @override
    def _write_scratch(self) -> None:
        super()._write_scratch()
        scratch = self.scratch
        self.out.line(f"taps = at(sums, {scratch.sums * scratch.sums_plane})")
        self.out.line(f"taps_of = as_int64(at(taps, {self.taps_elements}))\nput(taps_of, 0, -1)")

    @override
    def _write_results(self) -> None:
        """Transform the products of one tile and panel back, and store its outputs."""
        out, columns, lanes = self.out, self.plan.columns, self.plan.lanes
        rest = columns.tail % lanes
        with out.block(f"for c in range(0, size, {lanes}):"):
            self._write_columns("start", "c")
            self._write_guarded_rows()
            with out.block("if not tile_is_finite(guard):"):
                self._write_outputs_directly()
            out.line(f"offsets = load(bias, panel * {self.nest.block} + c, {lanes})")
            if not rest:
                self._write_rows("a", "c", lanes)
                return
            with out.block(f"if c + {lanes} <= size:"):
                self._write_rows("a", "c", lanes)
            with out.block("else:"):
                self._write_rows("b", "c", rest)

    def _write_guarded_rows(self) -> None:
        """Transform the rows too, and find out whether all outputs are finite."""
        out, lanes, wide = self.out, self.plan.lanes, self.sizes[1]
        (tile_high, tile_wide), kernel_wide = self.tile, self.kernel[1]
        out.line(f"guard = tile_fill(filter, 0, {tile_wide}, 1, {lanes})")
        with out.block(f"for i in range({tile_high}):"):
            load = f"tile_load(results, i * {wide * lanes}, {lanes}, {wide}, 1, {lanes})"
            sizes = f"{tile_wide}, {kernel_wide}, {self.stride[1]}"
            out.line(f"t = tile_winograd_output({load}, {sizes}, {tile_wide})")
            out.line(f"guard = fma(t, splat_{self.nest.kind.value}(0.0, {lanes}), guard)")
            out.line(f"tile_store(results, i * {wide * lanes}, {lanes}, t)")

    def _write_outputs_directly(self) -> None:
        """Sum up the outputs of one vector of channels, to where the transform leaves them."""
        out, lanes, wide = self.out, self.plan.lanes, self.sizes[1]
        with out.block("if get(taps_of, 0) != panel:"):
            self._write_taps()
            out.line("put(taps_of, 0, panel)")
        out.line(f"clear(results, 0, {self.scratch.sums * lanes})")
        with self._planes() as tap:
            self._write_corner(tap)
            self._write_patch()
            with out.block(f"for i in range({self.tile[0]}):"):
                place = f"results, i * {wide * lanes}, {lanes}"
                out.line(f"t = tile_load({place}, {self.tile[1]}, 1, {lanes})")
                self._write_dots(tap)
                out.line(f"tile_store({place}, t)")

    def _write_taps(self) -> None:
        """Recover the taps of a panel."""
        size = self.shape.channels_per_group * self.nest.block
        numbers = (size, *self.tile, *self.kernel, *self.stride, self.plan.lanes)
        sizes = ", ".join(map(str, numbers))
        with self._planes() as tap:
            number = plus(times("panel", self.deep), tap)
            filter = times(f"({number})", self.scratch.sums * size)
            taps = times(tap, prod(self.kernel) * size)
            self.out.line(f"winograd_taps(at(taps, {taps}), filter, {filter}, {sizes})")

    def _write_dots(self, tap: str) -> None:
        """Add the products of one plane to one line of outputs."""
        shape, inner, block = self.shape, self.shape.channels_per_group, self.nest.block
        taps, kernel_wide, wide = prod(self.kernel), self.kernel[1], self.sizes[1]
        with self.out.block(f"for k in range({taps}):"):
            row = plus(times("i", self.stride[0]), f"k // {kernel_wide}")
            pixel = f"(({row}) * {wide} + k % {kernel_wide})"
            group = times(f"(panel // {self.plan.columns.panels})", inner)
            x = plus(times(pixel, shape.channels), group if shape.group > 1 else "0")
            number = plus(times(tap, taps), "k")
            self.out.line(
                f"t = tile_dot(t, patch, {x}, {self.stride[1] * shape.channels}, 1, taps, "
                f"({number}) * {inner * block} + c, {block}, {self.plan.lanes}, {inner}, 0, 0)"
            )

    @override
    def _finished_line(self, tag: str, pixels: int) -> str:
        lanes, wide = self.plan.lanes, self.sizes[1]
        load = f"tile_load(results, i * {wide * lanes}, {lanes}, {pixels}, 1, {lanes})"
        return f"add({load}, offsets)"
