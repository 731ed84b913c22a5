"""Shared code of both loops over steps: shares, steps, and tiles of samples and panels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from glow_nb.hlir.ops.formulas.recurrence.cells import Phase
from glow_nb.kernels.products.open_cut import OpenCut
from glow_nb.kernels.recurrence.plan import RecurrencePlan
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.source import SourceWriter


@dataclass(frozen=True)
class Tile:
    """A tile of samples by a panel of hidden elements; the first ones are ``row`` and ``c``.

    Attributes:
        plan: The plan of the kernel.
        vectors: Vectors of hidden elements.
        rows: Samples.
        columns: Elements in use, None for all.
        name: Tells its variables from those of other tiles.
    """

    plan: RecurrencePlan
    vectors: int
    rows: int
    columns: int | None
    name: str

    @property
    def _size(self) -> str:
        return f"{self.rows}, {self.vectors}, {self.plan.lanes}"

    def load(self, pointer: str, at: str, stride: int) -> str:
        """Return the tile of an operand whose rows are *stride* apart."""
        if self.columns is None:
            return f"tile_load({pointer}, {at}, {stride}, {self._size})"
        return f"tile_load_masked({pointer}, {at}, {stride}, {self._size}, {self.columns})"

    def load_row(self, pointer: str, at: str) -> str:
        """Return a tile of which all rows are what the operand has at a place."""
        if self.columns is None:
            return f"tile_bias({pointer}, {at}, {self._size})"
        return f"tile_bias_masked({pointer}, {at}, {self._size}, {self.columns})"

    def store(self, pointer: str, at: str, stride: int, tile: str) -> str:
        """Return the store of a tile to an operand whose rows are *stride* apart."""
        if self.columns is None:
            return f"tile_store({pointer}, {at}, {stride}, {tile})"
        return f"tile_store_masked({pointer}, {at}, {stride}, {tile}, {self.columns})"

    def kept(self, pointer: str, begin: str = "0") -> str:
        """Return the load of a tile from scratch, whose rows are padded."""
        at = plus(begin, times("row", self.plan.padded), "c")
        return f"tile_load({pointer}, {at}, {self.plan.padded}, {self._size})"

    def keep(self, pointer: str, tile: str, begin: str = "0") -> str:
        """Return the store of a tile to scratch."""
        at = plus(begin, times("row", self.plan.padded), "c")
        return f"tile_store({pointer}, {at}, {self.plan.padded}, {tile})"

    def filled(self, pointer: str, gates: int = 1) -> str:
        """Return a tile of zeros of the kind of *pointer*, for some gates."""
        vectors = gates * self.vectors
        return f"tile_fill({pointer}, 0.0, {self.rows}, {vectors}, {self.plan.lanes})"


@dataclass(frozen=True)
class Walk:
    """Writes the loops of a kernel around what a tile needs.

    Attributes:
        out: Receives the lines.
        plan: The plan of the kernel.
    """

    out: SourceWriter
    plan: RecurrencePlan

    @contextmanager
    def shares(self) -> Iterator[None]:
        """Loop over what a thread has of each direction ``d``: the tiles ``first`` to ``last``.

        These are the samples from ``row_begin`` to ``row_end``.
        """
        out, tiles = self.out, self.plan.cut.tiles
        pieces = len(self.plan.is_backward) * tiles
        if isinstance(self.plan.cut, OpenCut):
            self.plan.cut.write(out)
        out.line(f"piece = thread * {pieces} // threads")
        out.line(f"piece_end = (thread + 1) * {pieces} // threads")
        with out.block("while piece < piece_end:"):
            out.line(f"d = piece // {tiles}")
            out.line(f"first = piece % {tiles}")
            out.line(f"last = min(first + piece_end - piece, {tiles})")
            out.line("piece = piece + last - first")
            out.line(f"row_begin = {self.plan.cut.start('first')}")
            out.line(f"row_end = {self.plan.cut.start('last')}")
            yield

    @contextmanager
    def steps(self, *, opposite: bool = False) -> Iterator[None]:
        """Loop over the steps; ``t`` is the number of one in the order of ``d``, or opposite."""
        out, last = self.out, self.plan.steps - 1
        with out.block(f"for step in range({self.plan.steps}):"):
            falls = [is_backward != opposite for is_backward in self.plan.is_backward]
            if falls == [False]:
                out.line("t = step")
            elif falls == [True]:
                out.line(f"t = {last} - step")
            else:
                falling = "d" if falls[1] else "(1 - d)"
                out.line(f"t = step + {falling} * ({last} - 2 * step)")
            yield

    def tiles(self, tag: str, phase: Phase) -> Iterator[Tile]:
        """Loop over panels of *phase*, and in each over tiles; what is written is their body."""
        plan, out = self.plan, self.out
        vectors = plan.vectors_of(phase)
        width = vectors * plan.lanes
        full, rest = divmod(plan.size, width)
        spans: list[tuple[str, int | None]] = [(f"range({full})", None)] if full else []
        if rest:
            spans.append((f"range({full}, {full + 1})", rest))
        for span, columns in spans:
            with out.block(f"for panel in {span}:"):
                out.line(f"c = {times('panel', width)}")
                for loop in plan.cut.loops:
                    span = f"max(first, {loop.begin}), min(last, {loop.end})"
                    with out.block(f"for tile in range({span}):"):
                        out.line(f"row = {plan.cut.start('tile')}")
                        name = f"{tag}{loop.rows}{'' if columns is None else 'm'}"
                        yield Tile(plan, vectors, loop.rows, columns, name)

    def state_at(self, number: int, *, step: str | None) -> str:
        """Return where row ``row`` and column ``c`` of a state are in ``[S(, steps), D, B, H]``."""
        plan = self.plan
        directions = len(plan.is_backward)
        sample = plan.rows * plan.size
        if step is None:
            offset = number * directions * sample
            return index_text(["d", "row", "c"], [sample, plan.size, 1], offset)
        steps = directions * sample
        offset = number * plan.steps * steps
        return index_text([step, "d", "row", "c"], [steps, sample, plan.size, 1], offset)

    def gate_at(self, gate: int) -> str:
        """Return where row ``row`` and column ``c`` of a gate of step ``t`` are in the inputs."""
        plan = self.plan
        row = self.input_stride
        own = plan.cell.gates * plan.size
        indices, strides = ["t", "row", "d", "c"], [plan.rows * row, row, own, 1]
        return index_text(indices, strides, gate * plan.size)

    @property
    def input_stride(self) -> int:
        """Elements from row to row of the inputs of a step."""
        return len(self.plan.is_backward) * self.plan.cell.gates * self.plan.size

    def weights_at(self, phase: Phase, inner: int, gates: int) -> str:
        """Return where the weights of panel ``panel`` begin."""
        plan = self.plan
        number = plan.cell.phases.index(phase)
        panel = inner * gates * plan.vectors_of(phase) * plan.lanes
        return index_text(
            ["d", "panel"], [plan.direction_weights, panel], plan.phase_weights[number]
        )


def ended(tile: Tile) -> str:
    """Return a tile that says which samples run in step ``t``; ``ends`` holds their lengths."""
    width, lanes = tile.plan.widest, tile.plan.lanes
    size = f"{tile.rows}, {tile.vectors}, {lanes}"
    lengths = f"tile_load(ends, {times('row', width)}, {width}, {size})"
    return f"less(splat_int32(t, {lanes}), {lengths})"


def write_ends(out: SourceWriter, plan: RecurrencePlan) -> None:
    """Write the length of each sample of the share to all lanes of its row of ``ends``."""
    with out.block("for row in range(row_begin, row_end):"):
        out.line(f"fill(ends, {times('row', plan.widest)}, get(lengths, row), {plan.widest})")


def load_shared(name: str, tile: Tile) -> str:
    """Return the load of a bias or peephole, which all samples of a direction ``d`` share."""
    size = tile.plan.size
    if name == "bias":
        return tile.load_row("bias", index_text(["d", "c"], [size, 1]))
    place = int(name.removeprefix("peephole")) * size
    return tile.load_row("peepholes", index_text(["d", "c"], [3 * size, 1], place))
