"""The runs of an executable whose program is loaded: what all such executables have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from glow_nb.base.size import Guard
from glow_nb.base.types import Array
from glow_nb.codegen.loaded_program import DirectRun, LoadedProgram
from glow_nb.codegen.open_program import OpenProgram, Shapes
from glow_nb.system.state_store import StateStore


class LoadedRuns(ABC):
    """Runs of a program that is loaded now or when the first one comes."""

    @property
    @abstractmethod
    def _loaded(self) -> LoadedProgram: ...

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The comparisons of open sizes for which the program is right."""
        opened = self._loaded.layout.open
        return () if opened is None else opened.guards

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on contiguous *inputs*, which must fit the program; return new output arrays."""
        return self._loaded.run_checked(inputs)

    def run_on(self, state: StateStore, inputs: Sequence[Array]) -> list[Array]:
        """Do what :meth:`run` does, on *state*, which the next run finds as this one leaves it."""
        return self._loaded.run_checked(inputs, state)

    def bind(
        self, inputs: Sequence[Array], outputs: Sequence[Array], state: StateStore
    ) -> Callable[[], None]:
        """Return what runs on these very arrays, and on *state*, each time that it is called."""
        return self._loaded.bind(inputs, outputs, state)

    def direct_run(self, inputs: Sequence[str], outputs: Sequence[str]) -> DirectRun | None:
        """Return the fast path of a run from a dict of arrays, if there is one."""
        return self._loaded.direct_run(inputs, outputs)

    def notify_hot(self, after: int, notice: Callable[[Shapes], None]) -> None:
        """Of a program with open sizes, call *notice* with shapes that this number of runs had."""
        if isinstance(self._loaded, OpenProgram):
            self._loaded.notify_hot(after, notice)

    def take_over(self, shapes: Shapes, run: DirectRun, most: int) -> None:
        """Of a program with open sizes, let *run* do the plain runs for inputs of *shapes*."""
        if isinstance(self._loaded, OpenProgram):
            self._loaded.take_over(shapes, run, most)
