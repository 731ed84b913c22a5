"""How runs of one executable are made: from feeds that are checked to results by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from glow_nb.base.counted import cut, visible_types
from glow_nb.base.destinations import destinations, refuse_overlap, require_in_place
from glow_nb.base.errors import GlowError, UnsupportedError
from glow_nb.base.feeds import FeedCheck, Feeds, name_feeds
from glow_nb.base.foreign import foreign
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.base.outputs import Outputs
from glow_nb.base.types import Array, TensorType
from glow_nb.base.uncopied import Uncopied
from glow_nb.network.levels import Border
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.backends.backend import (
        BindingExecutable,
        DirectExecutable,
        StatefulExecutable,
    )
    from glow_nb.codegen.loaded_program import DirectRun


class Runs(Protocol):
    """What a runner needs of an executable; some have more."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on contiguous *inputs* in the program's order; return its outputs in order."""
        ...


class BoundRun(Uncopied):
    """A run on arrays that are bound to it: a call runs on their current content, without checks.

    Calls from several threads write the same outputs, so that their caller must keep them apart.

    Attributes:
        inputs: The inputs of each call, by name.
        outputs: The outputs of each call, by name, in the model's order.
    """

    __slots__ = ("_counted", "_run", "inputs", "outputs")
    UNCOPIED = (
        "a bound run cannot be copied or pickled: it reads and writes the arrays that it was "
        "given; bind others with net.bind(inputs, outputs), or copy its inputs and outputs"
    )

    def __init__(
        self,
        run: Callable[[], None],
        inputs: Mapping[str, Array],
        outputs: dict[str, Array],
        counted: Callable[[dict[str, Array]], dict[str, Array]] | None,
    ) -> None:
        """Let each call *run*, which reads *inputs* and writes *outputs*.

        Of outputs some of which only a run can count, *counted* takes what counts.
        """
        self._run, self._counted = run, counted
        self.inputs, self.outputs = inputs, outputs

    def __call__(self) -> dict[str, Array]:
        """Run; return the outputs: the same arrays each time."""
        self._run()
        return self.outputs if self._counted is None else self._counted(self.outputs)


class Runner:
    """Makes runs of one executable.

    Attributes:
        feeds: The feeds.
        direct: The fast path of a run, if there is one; see
            :class:`~glow_nb.backends.backend.DirectExecutable`.
    """

    def __init__(self, border: Border, executable: Runs, state: StateStore) -> None:
        """Run *executable*, whose border is *border*, on *state*."""
        self._border, self._executable, self._state = border, executable, state
        self.feeds = FeedCheck(border.inputs.items())
        subject = f"network {border.name!r}: {type(executable).__name__}.run"
        self._guard = foreign(GlowError, subject)  # to the backend, which may be a user's
        self._run = self._run_of(executable)
        self.direct = self._direct_run_of(executable)

    def _direct_run_of(self, executable: Runs) -> DirectRun | None:
        """Return the fast path of a run, if *executable* has one and results need no cut."""
        if self._border.counted or not hasattr(executable, "direct_run"):
            return None
        direct: DirectExecutable = cast(Any, executable)
        with self._guard:
            return direct.direct_run(tuple(self.feeds.types), tuple(self._border.outputs))

    def _run_of(self, executable: Runs) -> Callable[[Sequence[Array]], list[Array]]:
        """Return what runs *executable*, on the state if the program has any."""
        if not self._border.has_state:
            return executable.run
        if hasattr(executable, "run_on"):
            stateful: StatefulExecutable = cast(Any, executable)
            return partial(stateful.run_on, self._state)
        raise UnsupportedError(
            f"network {self._border.name!r}: it has the state {list(self._state)!s:.80}, and "
            f"{type(executable).__name__} runs no program with state; write its method run_on"
        )

    def arrays(self, inputs: Feeds) -> list[Array]:
        """Return one contiguous array for each input, or raise FeedError."""
        return self.feeds.arrays(inputs)

    def run(self, inputs: Feeds) -> dict[str, Array]:
        """Run on *inputs*; return new arrays by output name."""
        results = self._results(self.feeds.arrays(inputs))
        outputs = Outputs(zip(self._border.outputs, results, strict=True))
        return cut(outputs, self._border.counted) if self._border.counted else outputs

    def run_into(self, inputs: Feeds, into: object) -> dict[str, Array]:
        """Run on *inputs*; return arrays by output name: those of *into*, and new ones."""
        arrays = dict(zip(self.feeds.types, self.feeds.arrays(inputs), strict=True))
        given = self._destinations(into)
        named = name_feeds(self.feeds.types.keys(), inputs)
        refuse_overlap(given, named)
        return self._bound(arrays, given)()

    def bind(self, inputs: Feeds, outputs: object) -> BoundRun:
        """Return a run on *inputs*, which are read where they lie, that writes *outputs*."""
        named = name_feeds(self.feeds.types.keys(), inputs)
        arrays = {
            name: require_in_place(f"input {name!r}", named[name], type, lent=True)
            for name, type in self.feeds.types.items()
        }
        return self._bound(arrays, self._destinations({} if outputs is None else outputs))

    @cached_property
    def _types(self) -> dict[str, TensorType]:
        """The types of what a user calls an output."""
        return visible_types(self._border.outputs, self._border.counted)

    def _destinations(self, into: object) -> dict[str, Array]:
        return destinations(into, self._types, self.feeds.types)

    def _bound(self, inputs: Mapping[str, Array], given: Mapping[str, Array]) -> BoundRun:
        """Return a run on *inputs* that writes the arrays that are *given*, and new ones."""
        refuse_overlap(given, inputs)
        outputs = Outputs()
        try:
            for name, type in self._border.outputs.items():
                made = given.get(name)
                outputs[name] = np.empty(type.shape, type.kind.dtype) if made is None else made
        except MemoryError as error:
            raise out_of_memory(f"network {self._border.name!r}", error) from error
        counted = self._border.counted
        shown = partial(cut, counted=counted, copies=False) if counted else None
        run = self.run_between(list(inputs.values()), list(outputs.values()))
        return BoundRun(run, dict(inputs), outputs, shown)

    def run_between(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """Return what reads *inputs* and writes *outputs*, both in the program's order."""
        if hasattr(self._executable, "bind"):
            binding: BindingExecutable = cast(Any, self._executable)
            with self._guard:
                return binding.bind(inputs, outputs, self._state)

        def run() -> None:
            for output, result in zip(outputs, self._results(inputs), strict=True):
                output[...] = result

        return run

    def _results(self, arrays: Sequence[Array]) -> list[Array]:
        with self._guard:
            try:
                return self._run(arrays)
            except MemoryError as error:
                raise out_of_memory(f"network {self._border.name!r}", error) from error
