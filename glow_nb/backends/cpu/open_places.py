"""Where the memory of a program lies whose sizes are known only when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import override

from glow_nb.backends.cpu.placed_calls import Places, runs_of
from glow_nb.base.map_sizes import guard_with
from glow_nb.base.size import Guard, Size, Symbol, symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.codegen.entry import Call, Region, Space
from glow_nb.codegen.hazards import AccessMode
from glow_nb.codegen.open_sizes import OpenSizes, Window
from glow_nb.codegen.program_memory import PlacedWeight
from glow_nb.codegen.run_layout import LARGEST_RUN_BYTES
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.allocate import ranges_of
from glow_nb.llir.order_placement import placement_order
from glow_nb.llir.program import Activation, Buffer, Instruction, Program, Weight, kernel_operands
from glow_nb.llir.verify import element_interval
from glow_nb.llir.with_sizes import guards_of, symbols_of_instruction, symbols_of_program

WORD_BYTES = 8

_Place = tuple[Buffer, int]
"""A region, and the bytes up to a view whose place is an open size, 0 for other views."""


class OpenPlaces(Places):
    """Where the buffers lie of a program with open sizes.

    An activation, and a view that begins at a place that depends on sizes, is bound when it runs.
    """

    def __init__(
        self,
        program: Program,
        work: Sequence[Instruction],
        weights: Mapping[Buffer, PlacedWeight],
        borrowed: int,
    ) -> None:
        """Find the windows of *work*, the instructions of *program* that have kernels."""
        super().__init__(program, weights, borrowed)
        self._program, self._ranges = program, ranges_of(program)
        operands = (buffer for one in work for buffer in kernel_operands(one))
        places = dict.fromkeys(map(_place_of, operands))
        self._windows = {place: n for n, place in enumerate(filter(_is_window, places))}
        self._numbers = {buffer: n for n, buffer in enumerate(program.activations)}
        self._sizes_binding = borrowed + len(program.state)
        for buffer, binding in self._bindings.items():
            if binding >= self._sizes_binding:
                self._bindings[buffer] = binding + 1 + len(self._windows)
        self._words: dict[tuple[Symbol, ...], int] = {}
        self._guards: dict[Guard, None] = {}
        self._scratch: dict[int, None] = {}

    @override
    def call(self, instruction: Instruction, source: KernelSource) -> Call:
        operands = self.regions(instruction)
        symbols = symbols_of_instruction(instruction)
        if symbols:
            operands = (*operands, self._sizes(symbols))
        names = dict(zip(source.symbols, symbols, strict=True))
        self._guards.update(dict.fromkeys(guard_with(guard, names) for guard in source.guards))
        scratch = source.scratch_bytes
        scratch = scratch.with_symbols(names) if isinstance(scratch, Size) else scratch
        self._scratch[scratch] = None
        return Call(source, operands)

    def _sizes(self, symbols: tuple[Symbol, ...]) -> Region:
        """Return where a kernel reads the sizes of *symbols*, in this order."""
        count = sum(map(len, self._words))
        first = self._words.setdefault(symbols, count)
        size_bytes, offset_bytes = WORD_BYTES * len(symbols), WORD_BYTES * first
        return Region(
            *("binding", ElementKind.INT64, size_bytes, "in"),
            offset_bytes=offset_bytes,
            binding=self._sizes_binding,
        )

    @override
    def _region(self, buffer: Buffer, mode: AccessMode) -> Region:
        root, start = place = _place_of(buffer)
        kind = buffer.type.kind
        first, last = element_interval(buffer)
        begin, end = first * kind.size_bytes, (last + 1) * kind.size_bytes
        offset_bytes = 0 if start != 0 else buffer.offset * kind.size_bytes
        run_bytes, pitch_bytes = runs_of(buffer)
        space, number = self._space_of(place)
        if isinstance(root, Weight) and start == 0:
            offset_bytes += self._weights[root].offset_bytes
        are_numbers = not symbols_of(run_bytes, pitch_bytes, begin)
        return Region(
            *(space, kind, 0, mode),
            offset_bytes=offset_bytes,
            binding=number,
            run_bytes=run_bytes if are_numbers else 0,
            pitch_bytes=pitch_bytes if are_numbers else 0,
            memory=self._memory_of(root),
            extent=(
                0 if symbols_of(begin) else begin,
                LARGEST_RUN_BYTES if symbols_of(end) else end,
            ),
            lives=self._life_of(root),
        )

    def _space_of(self, place: _Place) -> tuple[Space, int]:
        """Return the space of *place* and the number of its binding."""
        if place in self._windows:
            return "binding", self._sizes_binding + 1 + self._windows[place]
        root, _ = place
        if isinstance(root, Weight):
            block = self._weights[root].block
            return ("binding", block - 1) if block else ("constants", 0)
        return "binding", self._bindings[root]

    def _life_of(self, root: Buffer) -> tuple[int, int] | None:
        """Return the steps in which an activation *root* begins to live and is freed."""
        live = self._ranges.get(root)
        return None if live is None else (live.start, live.end)

    def _memory_of(self, root: Buffer) -> str:
        """Return a name for the memory of *root*, nothing for what is only read."""
        if isinstance(root, Weight):
            return ""
        if isinstance(root, Activation):
            return f"activation{self._numbers[root]}"
        return f"bound{self._bindings[root]}"

    @property
    def open_sizes(self) -> OpenSizes:
        """What a run needs besides; complete once all calls are made."""
        symbols = symbols_of_program(self._program)
        noted = dict.fromkeys(guards_of(self._program))
        return OpenSizes(
            symbols=symbols,
            guards=tuple(noted | self._guards),
            words=tuple(symbol for words in self._words for symbol in words),
            scratch_bytes=tuple(self._scratch),
            placement=placement_order(self._program),
            windows=tuple(map(self._window, self._windows)),
        )

    def _window(self, place: _Place) -> Window:
        root, start = place
        if isinstance(root, Activation):
            return Window("activation", self._numbers[root], start)
        if isinstance(root, Weight):
            weight = self._weights[root]
            offset_bytes = weight.offset_bytes + start
            if not weight.block:
                return Window("constants", 0, offset_bytes)
            return Window("binding", weight.block - 1, offset_bytes)
        return Window("binding", self._bindings[root], start)


def _place_of(buffer: Buffer) -> _Place:
    start = buffer.offset * buffer.type.kind.size_bytes
    return buffer.root, start if isinstance(start, Size) else 0


def _is_window(place: _Place) -> bool:
    root, start = place
    return isinstance(root, Activation) or start != 0
