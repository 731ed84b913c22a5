"""A program with open sizes in this process: laid out once for each set of sizes that comes."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glow_nb.base.alignment import aligned_bytes, aligned_empty
from glow_nb.base.errors import FeedError
from glow_nb.base.memory_limit import require_run_memory
from glow_nb.base.outputs import Outputs
from glow_nb.base.override import override
from glow_nb.base.size import at
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import Array
from glow_nb.codegen.aligned_feeds import Address, AlignedFeeds, aligned_inputs, begin_on_lines
from glow_nb.codegen.array_address import address_of
from glow_nb.codegen.loaded_program import DirectRun, LoadedProgram, programs_of_this_process
from glow_nb.codegen.run_layout import RunLayout
from glow_nb.codegen.size_layout import SizeLayout
from glow_nb.codegen.threads import Code, Team
from glow_nb.system.cores import available_cores
from glow_nb.system.state_store import LentState, StateStore

MOST_LAYOUTS = 1024
"""Sets of sizes whose layouts are kept; one takes some kilobytes."""

ROOM = 5 / 4
"""How much of what a run needs is taken when there was too little: sizes often grow."""

Shapes = tuple[tuple[int, ...], ...]


class OpenProgram(LoadedProgram):
    """Machine code in memory whose sizes are those of the input arrays.

    Runs are as those of a :class:`~glow_nb.codegen.loaded_program.LoadedProgram`. A context has
    memory for the largest run that it did.
    """

    def __init__(self, layout: RunLayout, code: Code) -> None:
        """Run the entry of *layout* in *code*, which must fit each other."""
        assert layout.open is not None
        self.layout, self.code = layout, code
        self._symbols, self._aligned = layout.open.symbols, aligned_inputs(layout)
        feeds_outputs = any(binding.fed_by is not None for binding in layout.outputs)
        self._is_plain = not (layout.state or feeds_outputs)  # an array is read or written, no more
        self._types = {b.name or str(n): b.type for n, b in enumerate(layout.inputs)}
        self._first_window = len(layout.memory.borrowed) + len(layout.state) + 1
        self._first_bound = self._first_window + len(layout.open.windows)
        self._layouts: dict[Shapes, SizeLayout] = {}
        self._instead: dict[Shapes, DirectRun] = {}
        self._lock = threading.Lock()
        self._hot_after = 0
        self._on_hot: Callable[[Shapes], None] = _ignore
        self._contexts: deque[_Context] = deque(maxlen=available_cores())
        programs_of_this_process.add(self)

    def notify_hot(self, after: int, notice: Callable[[Shapes], None]) -> None:
        """Let *notice* be called with shapes of inputs when this number of runs had them."""
        self._hot_after, self._on_hot = after, notice

    def take_over(self, shapes: Shapes, run: DirectRun, most: int) -> None:
        """Let *run* do the plain runs for inputs of these *shapes*.

        There are *most* of such runs; the one that came first is let go.
        """
        with self._lock:
            self._instead[shapes] = run
            if shapes in self._layouts:
                self._layouts[shapes].instead = run
            while len(self._instead) > most:
                oldest = next(iter(self._instead))
                del self._instead[oldest]
                if oldest in self._layouts:
                    self._layouts[oldest].instead = None

    @override
    def leave_contexts(self) -> None:
        self._contexts.clear()
        self._lock = threading.Lock()

    def layout_for(self, inputs: Sequence[Array]) -> SizeLayout:
        """Return the layout for the shapes of *inputs*, which has been made or is made now.

        Raises:
            FeedError: The shapes are not those of the program for any sizes.
            OptionError: The program is not right for the sizes.
        """
        shapes = tuple(array.shape for array in inputs)
        found = self._layouts.get(shapes)
        return found or self._laid_out(shapes)

    def _laid_out(self, shapes: Shapes) -> SizeLayout:
        by_name = dict(zip(self._types, shapes, strict=True))
        sizes = sizes_of_shapes(self._types, self._symbols, by_name)
        for name, type in self._types.items():
            if by_name[name] != tuple(at(size, sizes) for size in type.shape):
                wanted = type.at(sizes)
                raise FeedError(
                    f"input {name!r}: shape {by_name[name]}, but it is {type}, which is {wanted} "
                    f"for {', '.join(f'{symbol} = {size}' for symbol, size in sizes.items())}"
                )
        made = SizeLayout(self.layout, sizes, shapes)
        with self._lock:
            made.instead = self._instead.get(shapes)
            if len(self._layouts) >= MOST_LAYOUTS:
                del self._layouts[next(iter(self._layouts))]
            self._layouts[shapes] = made
        return made

    @override
    def run(self, inputs: Sequence[Array], state: StateStore | None = None) -> list[Array]:
        return self.run_checked(inputs, state)

    @override
    def run_checked(self, inputs: Sequence[Array], state: StateStore | None = None) -> list[Array]:
        """Run on contiguous *inputs* of the program's kinds; return new output arrays in order."""
        placed = self.layout_for(inputs)
        outputs = [make() for make in placed.makers]
        self._run(placed, inputs, outputs, state)
        return outputs

    @override
    def run_into(
        self, inputs: Sequence[Array], outputs: Sequence[Array], state: StateStore | None = None
    ) -> None:
        """Run on *inputs* and write *outputs*, which must have the right types."""
        placed = self.layout_for(inputs)
        for index, (array, type) in enumerate(zip(outputs, placed.types, strict=True)):
            if array.shape != type.shape or array.dtype != type.kind.dtype:
                raise FeedError(f"output {index}: {array.dtype}{array.shape}, the run makes {type}")
        self._run(placed, inputs, outputs, state)

    @override
    def copy_fed(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Do nothing: each run does it."""

    @override
    def new_outputs(self, inputs: Sequence[Array]) -> list[Array]:
        """Return new arrays for a run on *inputs*."""
        return [make() for make in self.layout_for(inputs).makers]

    @override
    def bind(
        self, inputs: Sequence[Array], outputs: Sequence[Array], state: StateStore | None = None
    ) -> Callable[[], None]:
        """Return what runs on these very arrays each time that it is called, and checks nothing."""
        placed = self.layout_for(inputs)
        if not (self._is_plain and begin_on_lines(inputs, self._aligned)):
            return lambda: self._run(placed, inputs, outputs, state)
        arrays = [*inputs, *outputs]
        addresses: list[Address] = [address_of(array) for array in arrays]

        def run(_: object = arrays) -> None:
            self._run_in(self._context_for(placed), placed, addresses)

        return run

    @override
    def direct_run(self, inputs: Sequence[str], outputs: Sequence[str]) -> DirectRun | None:
        """Return a function from a dict of arrays to a dict of results, by the names in order.

        As that of a program with fixed sizes; the first run of some shapes is not done by it.
        """
        if not self._is_plain:
            return None
        kinds = [binding.type.kind.dtype for binding in self.layout.inputs]
        wanted, contexts = list(zip(inputs, kinds, strict=True)), self._contexts
        aligned = self._aligned

        def run(feeds: object) -> dict[str, Array] | None:
            if type(feeds) is not dict or len(feeds) != len(wanted):
                return None
            addresses: list[Address] = []
            placed = self._known_layout(feeds, wanted, addresses)
            if placed is None:
                return None
            if placed.instead is not None:
                return placed.instead(feeds)
            results = Outputs()
            try:
                for name, make in zip(outputs, placed.makers, strict=True):
                    results[name] = array = make()
                    addresses.append(address_of(array))
                context = contexts.pop()
            except (IndexError, MemoryError):
                return None
            if context.placed is not placed and not context.has_room(placed):
                return None
            if aligned:
                context.feeds.place([feeds[name] for name, _ in wanted], addresses)
            self._run_in(context, placed, addresses)
            return results

        return run

    def _known_layout(
        self,
        feeds: dict[str, object],
        wanted: Sequence[tuple[str, np.dtype[Any]]],
        addresses: list[Address],
    ) -> SizeLayout | None:
        """Return the layout for *feeds* that fit as they are, and append where they lie."""
        shapes: list[tuple[int, ...]] = []
        for name, dtype in wanted:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.carray:
                return None
            shapes.append(array.shape)
            addresses.append(address_of(array))
        return self._layouts.get(tuple(shapes))

    def _run(
        self,
        placed: SizeLayout,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        state: StateStore | None,
    ) -> None:
        for output, binding in zip(outputs, self.layout.outputs, strict=True):
            if binding.fed_by is not None and output is not inputs[binding.fed_by]:
                output[...] = inputs[binding.fed_by]
        addresses: list[Address] = [address_of(array) for array in (*inputs, *outputs)]
        if not self.layout.state:
            context = self._context_for(placed)
            context.feeds.place(inputs, addresses)
            self._run_in(context, placed, addresses)
            return
        store = StateStore(self.layout.state) if state is None else state
        with store.for_a_run() as lent:
            context = self._context_for(placed)
            context.point_at(lent)
            context.feeds.place(inputs, addresses)
            self._run_in(context, placed, addresses)

    def _run_in(self, context: _Context, placed: SizeLayout, addresses: list[Address]) -> None:
        pointers = context.pointers
        pointers[self._first_bound :] = addresses
        if context.placed is not placed:
            context.lie(placed)
        for window, binding, offset in placed.in_bindings:
            pointers[self._first_window + window] = (pointers[binding] or 0) + offset
        runs = placed.runs = (
            placed.runs + 1
        )  # several threads may count one run, but miss no number
        if runs == self._hot_after:
            self._on_hot(placed.shapes)
        context.team.run()
        self._contexts.append(context)

    def _context_for(self, placed: SizeLayout) -> _Context:
        try:
            context = self._contexts.pop()
        except IndexError:  # there is no unused one
            return _Context(self.layout, self.code, placed)
        return context if context.has_room(placed) else _Context(self.layout, self.code, placed)


def _ignore(_: Shapes) -> None:
    """Do nothing."""


class _Context:
    """The memory and the threads of one run at a time."""

    def __init__(self, layout: RunLayout, code: Code, placed: SizeLayout) -> None:
        memory, opened = layout.memory, layout.open
        assert opened is not None
        self._arena_bytes = aligned_bytes(int(placed.arena_bytes * ROOM))
        self._scratch_bytes = layout.threads * aligned_bytes(int(placed.scratch_bytes * ROOM))
        require_run_memory("run", {"arena": self._arena_bytes, "scratch": self._scratch_bytes})
        bound = len(layout.state) + len(layout.inputs) + len(layout.outputs)
        self._state, self._state_at = layout.state, len(memory.borrowed)
        self._sizes_at = self._state_at + len(layout.state)
        count = len(memory.borrowed) + bound + 1 + len(opened.windows)
        self.pointers = (ctypes.c_void_p * count)()
        self.feeds = AlignedFeeds(layout)
        for index, block in enumerate(memory.borrowed):
            self.pointers[index] = block.ctypes.data
        arena = aligned_empty(self._arena_bytes)
        self._arena, self._constants = arena.ctypes.data, memory.constants.ctypes.data
        self._threads, self.placed, self._lent = layout.threads, None, None
        self.team = Team(
            code,
            layout,
            constants=memory.constants,
            arena=arena,
            bindings=self.pointers,
            scratch=aligned_empty(self._scratch_bytes),
        )

    placed: SizeLayout | None
    _lent: LentState | None

    def has_room(self, placed: SizeLayout) -> bool:
        """Return whether there is memory for a run of *placed*."""
        return (
            placed.arena_bytes <= self._arena_bytes
            and self._threads * placed.scratch_bytes <= self._scratch_bytes
        )

    def lie(self, placed: SizeLayout) -> None:
        """Let the memory be laid out as *placed* says."""
        first = self._sizes_at + 1
        self.pointers[self._sizes_at] = placed.words.ctypes.data
        for window, offset in placed.in_arena:
            self.pointers[first + window] = self._arena + offset
        for window, offset in placed.in_constants:
            self.pointers[first + window] = self._constants + offset
        self.placed = placed

    def point_at(self, lent: LentState) -> None:
        """Let the program work on the state that is *lent* for a run."""
        if lent is not self._lent:
            arrays = [lent.array(binding.name, binding.type) for binding in self._state]
            place = slice(self._state_at, self._state_at + len(arrays))
            self.pointers[place] = [address_of(array) for array in arrays]
            self._lent = lent
