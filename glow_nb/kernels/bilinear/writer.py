"""The source of a bilinear algorithm's kernel: what its writers share, from the outside in.

For a block of tiles: the transform of the input, then, for each panel, the products of all elements
of the block and the transform of its outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glow_nb.kernels.bilinear.plan import BilinearNest, BilinearPlan, Scratch
from glow_nb.kernels.bilinear.weights import ReadWeights
from glow_nb.kernels.products.open_cut import OpenCut
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import SourceWriter


class BilinearWriter:
    """Writes one kernel; every method appends one part of the nest."""

    weights: ReadWeights

    def __init__(self, nest: BilinearNest, plan: BilinearPlan, fusion: Fusion) -> None:
        self.nest, self.shape, self.plan, self.fusion = nest, nest.shape, plan, fusion
        self.tiles = TileStore(fusion, plan.lanes)
        self.step = elements_between_pixels(fusion.input)
        self.scratch = Scratch.of(nest, plan)
        self.deep = self.shape.kernel[0]
        self.factors = plan.kinds.factors
        self.out = SourceWriter()

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch memory of a thread."""
        return self.scratch.bytes

    def write(self, title: str) -> str:
        """Return the whole text."""
        out, nest = self.out, self.nest
        out.line(f"# {title}\n# {self._describe()}")
        with out.block(self.fusion.header):
            if 0 in (nest.tiles, nest.panels, nest.output_elements):
                out.line("return")
            else:
                units, panels = self.plan.cut.tiles, nest.panels
                if isinstance(self.plan.cut, OpenCut):
                    self.plan.cut.write(out)
                write_shares(out, units, panels, panels_first=self.plan.panels_first)
                self._write_scratch()
                self._write_blocks()
        return out.text

    def _describe(self) -> str:
        plan, cut = self.plan, self.plan.cut
        rows = " and ".join(str(loop.rows) for loop in cut.loops)
        shared = "panels" if plan.panels_first else "tiles"
        return (
            f"{self.nest.tiles} tiles in blocks of {plan.block_tiles}; register tiles of "
            f"{rows} rows x {plan.columns.vectors} vectors of {plan.lanes}; "
            f"{self.nest.panels} panels; threads share {shared}"
        )

    def _write_scratch(self) -> None:
        """Name the parts of the scratch memory."""
        kinds = self.plan.kinds
        left, total = kinds.left.value, kinds.total.value
        self.out.line(f"factors = as_{left}(at(scratch, {self.scratch.factors}))")
        self.out.line(f"sums = as_{total}(at(scratch, {self.scratch.products}))")
        self.weights.write_pointer(self.out)

    def _write_blocks(self) -> None:
        out, plan = self.out, self.plan
        with out.block("while unit < unit_end and panel_begin < panel_end:"):
            out.line(f"count = min(unit_end - unit, {plan.block_units})")
            out.line(f"begin = {plan.cut.start('unit')}")
            out.line(f"end = {plan.cut.start('(unit + count)')}")
            with out.block("for tile in range(begin, end):"):
                self._write_input()
            with out.block("for panel in range(panel_begin, panel_end):"):
                self._write_channel()
                self._write_products()
                with out.block("for tile in range(begin, end):"):
                    self._write_output()
            out.line("unit += count")

    def _write_input(self) -> None:
        """Transform the input of number ``tile`` to ``factors``."""
        raise NotImplementedError(type(self).__name__)

    def _write_output(self) -> None:
        """Transform the products of number ``tile`` and one panel back, and store the outputs."""
        raise NotImplementedError(type(self).__name__)

    def _write_ahead(self, row: str, rows: int) -> None:
        """Bring what the outputs of a register tile will need nearer, while it is computed."""

    @contextmanager
    def _planes(self) -> Iterator[str]:
        """Write a loop over the planes of the input that a tile reads; yield their number."""
        if self.deep == 1:
            yield "0"
            return
        with self.out.block(f"for tap in range({self.deep}):"):
            yield "tap"

    def _write_products(self) -> None:
        """Multiply the factors of the block by the weights of one panel.

        Meanwhile the weights of the next element or panel are brought into the cache.
        """
        out, shape = self.out, self.shape
        source = f"element * {self.scratch.plane}"
        if shape.group > 1:
            source += f" + panel // {self.plan.columns.panels} * {shape.channels_per_group}"
        with self.weights.elements(out) as part:
            out.line(f"place = element * {self.scratch.sums_plane}")
            out.line(f"origin = {plus(source, times(part, self.factors))}")
            self._write_panel()

    def _write_panel(self) -> None:
        with self._if_whole() as cases:
            for tag, vectors in cases:
                self._write_register_tiles(tag, vectors)

    @contextmanager
    def _if_whole(self) -> Iterator[Iterator[tuple[str, int]]]:
        """Give tag and vectors of a whole panel, and those of the last one if it has fewer."""
        columns, number = self.plan.columns, "panel"
        if self.shape.group > 1:
            number = f"panel % {columns.panels}"

        def cases() -> Iterator[tuple[str, int]]:
            if not columns.tail or not columns.full or columns.tail_vectors == columns.vectors:
                yield "a", columns.tail_vectors if columns.full == 0 else columns.vectors
                return
            with self.out.block(f"if {number} < {columns.full}:"):
                yield "a", columns.vectors
            with self.out.block("else:"):
                yield "b", columns.tail_vectors

        yield cases()

    def _write_register_tiles(self, tag: str, vectors: int) -> None:
        out, plan, block = self.out, self.plan, self.nest.block
        dot, weights = plan.dot, self.weights
        row, pace = weights.row, weights.pace
        size = f"{vectors}, {plan.lanes}"
        for number, loop in enumerate(plan.cut.loops):
            name, rows = f"{tag}{number}", loop.rows
            first, last = loop.begin, loop.end
            with out.block(
                f"for u_{name} in range(max(unit, {first}), min(unit + count, {last})):"
            ):
                out.line(f"row_{name} = {loop.start(f'u_{name}')} - begin")
                self._write_ahead(f"row_{name}", rows)
                out.line(f"t_{name} = tile_fill(sums, 0, {rows}, {size})")
                with self._planes() as tap:
                    x = plus(
                        f"origin + row_{name} * {self.scratch.rows}",
                        times(tap, self.scratch.sums * self.scratch.plane),
                    )
                    w = plus("weights", times(tap, weights.planes * weights.plane))
                    ahead = f"{w} + {dot * row} + (u_{name} - unit) * {dot * pace}"
                    out.line(
                        f"t_{name} = {plan.kinds.dot.name}(t_{name}, factors, {x}, "
                        f"{self.scratch.rows}, {self.factors}, {weights.pointer}, {w}, {row}, "
                        f"{vectors * plan.lanes}, {weights.count}, {ahead}, {pace})"
                    )
                to = f"place + row_{name} * {block}"
                if dot < plan.groups:
                    with out.block("if part:"):
                        waiting = f"tile_load(sums, {to}, {block}, {rows}, {size})"
                        out.line(f"t_{name} = add(t_{name}, {waiting})")
                out.line(f"tile_store(sums, {to}, {block}, t_{name})")

    def _write_channel(self) -> None:
        """Find the first output channel of the panel, and how many whole vectors it has."""
        out, columns, block = self.out, self.plan.columns, self.nest.block
        number, first = "panel", "0"
        if self.shape.group > 1:
            number = f"panel % {columns.panels}"
            first = f"panel // {columns.panels} * {columns.depth}"
        out.line(f"channel = {plus(first, f'{number} * {block}')}")
        out.line(f"size = min({columns.depth} - {number} * {block}, {block})")
