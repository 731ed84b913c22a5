"""A program in this process: linked code, and one context for each concurrent run."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakSet

import numpy as np

from glow_nb.base.alignment import aligned_empty
from glow_nb.base.arguments import fits_as_it_is
from glow_nb.base.errors import FeedError
from glow_nb.base.memory_limit import require_run_memory
from glow_nb.base.outputs import Outputs
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.aligned_feeds import Address, AlignedFeeds, aligned_inputs, begin_on_lines
from glow_nb.codegen.array_address import address_of
from glow_nb.codegen.result_memory import array_maker
from glow_nb.codegen.run_layout import RunLayout
from glow_nb.codegen.threads import Code, Team
from glow_nb.system.cores import available_cores
from glow_nb.system.state_store import LentState, StateStore

_Wanted = tuple[np.dtype[Any], tuple[int, ...]]

DirectRun = Callable[[object], dict[str, Array] | None]
"""From what is fed to the results by name. It returns None, and has done nothing, for all that it
does not know at once; it raises nothing of its own."""


class LoadedProgram:
    """Machine code in memory, ready to run on given arrays.

    It may be run from any number of Python threads. Each run in progress has its own context
    (arena, scratch, team of threads); idle contexts are kept, the last used first. State belongs to
    the caller, who gives the same :class:`~glow_nb.system.state_store.StateStore` to each run; a
    run without one begins with the values before the first run, and what it leaves is lost.
    """

    def __init__(self, layout: RunLayout, code: Code) -> None:
        """Run the entry of *layout* in *code*, which must fit each other."""
        self.layout, self.code = layout, code
        self._inputs = [(b.type.kind.dtype, b.type.shape) for b in layout.inputs]
        self._outputs = [(b.type.kind.dtype, b.type.shape) for b in layout.outputs]
        self._makers = [
            array_maker(b.type.kind.dtype, b.type.shape, is_aligned=b.is_aligned)
            for b in layout.outputs
        ]
        self._aligned = aligned_inputs(layout)
        fed = enumerate(output.fed_by for output in layout.outputs)
        self._fed = [(output, source) for output, source in fed if source is not None]
        self._first_bound = len(layout.memory.borrowed) + len(layout.state)
        self._idle: deque[_Context] = deque(maxlen=available_cores())
        programs_of_this_process.add(self)

    def run(self, inputs: Sequence[Array], state: StateStore | None = None) -> list[Array]:
        """Run on *inputs*, in the program's order, and return new output arrays in order.

        Raises:
            FeedError: An input has another shape or dtype, or is not contiguous and aligned.
            StateError: *state* is in use, or is without a state of the program.
        """
        _check("input", inputs, self._inputs)
        return self.run_checked(inputs, state)

    def leave_contexts(self) -> None:
        """Forget the idle contexts."""
        self._idle.clear()

    def run_checked(self, inputs: Sequence[Array], state: StateStore | None = None) -> list[Array]:
        """Do what :meth:`run` does, on arrays of which the caller knows that they fit."""
        outputs = self.new_outputs(inputs)
        self._run_on([*inputs, *outputs], state)
        return outputs

    def direct_run(self, inputs: Sequence[str], outputs: Sequence[str]) -> DirectRun | None:
        """Return a function from a dict of arrays to a dict of results, by the names in order.

        Nearly all that a run needs is in this one function. Python takes 3 us for it;
        with a call for each part it takes 7, and a small network may take less.

        The function returns None, and has done nothing, for feeds that are no dict of arrays which
        fit as they are, if no context is idle, and if there is no memory. There is no function for
        programs with state, and with outputs that are inputs as well.
        """
        if self.layout.state or self._fed:
            return None
        wanted = [(name, *bound) for name, bound in zip(inputs, self._inputs, strict=True)]
        makers = list(zip(outputs, self._makers, strict=True))
        idle, first_bound, aligned = self._idle, self._first_bound, self._aligned

        def run(feeds: object) -> dict[str, Array] | None:
            if type(feeds) is not dict or len(feeds) != len(wanted):
                return None
            addresses: list[Address] = []
            for name, dtype, shape in wanted:
                array = feeds.get(name)
                if not fits_as_it_is(array, dtype, shape):
                    return None
                addresses.append(address_of(array))
            results = Outputs()
            try:
                for name, new_array in makers:
                    results[name] = array = new_array()
                    addresses.append(address_of(array))
                context = idle.pop()
                if aligned:
                    context.feeds.place([feeds[name] for name, *_ in wanted], addresses)
            except (IndexError, MemoryError):
                return None
            context.pointers[first_bound:] = addresses
            context.team.run()
            idle.append(context)
            return results

        return run

    def run_into(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        state: StateStore | None = None,
    ) -> None:
        """Run on *inputs* and write *outputs*, both in the program's order.

        An output that is an input as well must hold what is fed.

        Raises:
            FeedError: An array has another shape or dtype, is not contiguous and aligned, or is an
                output that cannot be written.
            StateError: *state* is in use, or is without a state of the program.
        """
        self._check_bound(inputs, outputs)
        self._run_on([*inputs, *outputs], state)

    def _check_bound(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _check("input", inputs, self._inputs)
        _check("output", outputs, self._outputs)
        for index, array in enumerate(outputs):
            if not array.flags.writeable:
                raise FeedError(f"output {index}: the array is read-only; give one to write to")

    def bind(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        state: StateStore | None = None,
    ) -> Callable[[], None]:
        """Return what runs on these very arrays each time that it is called, and checks nothing.

        It keeps the arrays, and takes a context for each run as all runs do. An output that is an
        input as well begins as a copy of what is fed.

        Raises:
            FeedError: As :meth:`run_into`.
        """
        self._check_bound(inputs, outputs)
        arrays = [*inputs, *outputs]
        is_copied = not begin_on_lines(inputs, self._aligned)
        if self.layout.state or self._fed or is_copied:
            return partial(self._run_bound, arrays, inputs, outputs, state)
        addresses: list[Address] = [address_of(array) for array in arrays]
        idle, first_bound, take = self._idle, self._first_bound, self._take_context

        def run(_: object = arrays) -> None:
            context = take()
            context.pointers[first_bound:] = addresses
            context.team.run()
            idle.append(context)

        return run

    def _run_bound(
        self,
        arrays: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        state: StateStore | None,
    ) -> None:
        self.copy_fed(inputs, outputs)
        self._run_on(arrays, state)

    def new_outputs(self, inputs: Sequence[Array]) -> list[Array]:
        """Return new arrays; one that is an input as well begins as a copy of what is fed."""
        outputs = [new_array() for new_array in self._makers]
        if self._fed:
            self.copy_fed(inputs, outputs)
        return outputs

    def copy_fed(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Let each of the *outputs* that is an input as well hold what is fed."""
        for output, source in self._fed:
            if outputs[output] is not inputs[source]:
                outputs[output][...] = inputs[source]

    def _run_on(self, arrays: Sequence[Array], state: StateStore | None) -> None:
        if not self.layout.state:
            self._run_in_context(arrays)
            return
        store = StateStore(self.layout.state) if state is None else state
        with store.for_a_run() as lent:
            self._run_in_context(arrays, lent)

    def _run_in_context(self, arrays: Sequence[Array], lent: LentState | None = None) -> None:
        context = self._take_context()
        addresses: list[Address] = [address_of(array) for array in arrays]
        context.feeds.place(arrays, addresses)
        context.pointers[self._first_bound :] = addresses
        if lent is not None:
            context.point_at(lent)
        context.team.run()
        self._idle.append(context)  # a full deque drops the one idle for longest

    def _take_context(self) -> _Context:
        try:
            return self._idle.pop()
        except IndexError:  # there is no unused one
            return _Context(self.layout, self.code)


programs_of_this_process: WeakSet[LoadedProgram] = WeakSet()
"""Programs that are loaded; a child of a fork has them, too."""


def _leave_contexts() -> None:
    """Forget contexts in the child of a fork: their threads stayed in the parent."""
    for program in programs_of_this_process:
        program.leave_contexts()


os.register_at_fork(after_in_child=_leave_contexts)


def _check(role: str, arrays: Sequence[Array], wanted: Sequence[_Wanted]) -> None:
    """Raise FeedError unless the entry can work on *arrays* where they lie."""
    if len(arrays) != len(wanted):
        raise FeedError(f"run: {len(arrays)} {role}s, the program has {len(wanted)}")
    for index, (array, (dtype, shape)) in enumerate(zip(arrays, wanted, strict=True)):
        if array.dtype != dtype or array.shape != shape:
            raise FeedError(
                f"{role} {index}: {array.dtype} of shape {array.shape}, the program has "
                f"{TensorType(ElementKind.of(dtype), shape)}"
            )
        if not (array.flags.c_contiguous and array.flags.aligned):
            raise FeedError(f"{role} {index}: not contiguous and aligned; make a copy")


class _Context:
    """The memory and the threads of one run at a time."""

    def __init__(self, layout: RunLayout, code: Code) -> None:
        memory = layout.memory
        needs = {"arena": memory.arena_bytes, "scratch": layout.scratch_bytes}
        require_run_memory("run", needs)
        bound = len(layout.state) + len(layout.inputs) + len(layout.outputs)
        begin = len(memory.borrowed)
        self._state, self._place = layout.state, slice(begin, begin + len(layout.state))
        self._lent: LentState | None = None
        # ctypes has no arrays of length zero that it can take the address of on every version.
        self.pointers = (ctypes.c_void_p * (len(memory.borrowed) + bound))()
        self.feeds = AlignedFeeds(layout)
        for index, block in enumerate(memory.borrowed):
            self.pointers[index] = block.ctypes.data
        self.team = Team(
            code,
            layout,
            constants=memory.constants,
            arena=aligned_empty(memory.arena_bytes),
            bindings=self.pointers,
            scratch=aligned_empty(layout.scratch_bytes),
        )

    def point_at(self, lent: LentState) -> None:
        """Let the program work on the state that is *lent* for a run."""
        if lent is not self._lent:
            arrays = [lent.array(binding.name, binding.type) for binding in self._state]
            self.pointers[self._place] = [address_of(array) for array in arrays]
            self._lent = lent
