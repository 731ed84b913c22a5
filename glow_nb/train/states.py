"""The states of a trainer, which its networks share, and how many steps they have seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from glow_nb.base.errors import ModelError, StateError
from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, State
from glow_nb.system.claims import Claim, Claims
from glow_nb.system.state_store import StateStore

COUNTER = "glow_nb.steps"
"""What the state is called that counts the steps, unless a network has that name itself."""


@dataclass(frozen=True)
class BegunStep:
    """A step of several runs that has begun: what undoes it, unless its last run counted it."""

    steps: int
    before: Mapping[str, Array]


class TrainerStates:
    """The states by name, with a step of several runs done whole or not at all.

    One of them counts the steps. The run that gives weights their new values counts its step, too:
    whatever comes between two statements of Python, both are from before the step or from after it.
    """

    def __init__(self) -> None:
        """Hold no state; the count of steps is the first one, see `counter_beside`."""
        self.store = StateStore()
        self._counter: State | None = None
        self._steps_before = 0  # there was a counter
        self._claims = Claims(_is_making_a_step)
        self._begun: BegunStep | None = None

    @property
    def steps(self) -> int:
        """How many steps were made; it may be asked for at any time."""
        counter = self._counter
        return self._steps_before if counter is None else self.store.count(counter.name)

    def counter_beside(self, function: Function) -> State:
        """Return the state that counts the steps; no value of *function* has its name.

        Raises:
            ModelError: It has its name from another size of the network, and a value here has it.
        """
        if self._counter is None:
            name = Builder(taken=function.names.union(self.store)).unique_name(COUNTER)
            counter = State.of(name, np.array(self._steps_before, np.int64))
            self.store.add([counter])
            self._counter = counter
        if self._counter.name in function.names:
            raise ModelError(
                f"function {function.name!r}: for these sizes it has a value "
                f"{self._counter.name!r}, which is what the trainer's count of steps was called "
                "for others; rename it"
            )
        return self._counter

    def snapshot(self) -> tuple[int, dict[str, Array]]:
        """Return how many steps were made, and a copy of each other state after them."""
        self.settle()
        values = self.values()
        counter = self._counter
        return self._steps_before if counter is None else int(values.pop(counter.name)), values

    def values(self) -> dict[str, Array]:
        """Return a copy of each state as it is at this moment, that of a step that is made, too."""
        with self.store.for_reading() as arrays:
            return {name: array.copy() for name, array in arrays.items()}

    def replace(self, steps: int, values: Mapping[str, Array]) -> None:
        """Let the states have *values*, also those that no network has yet, after *steps* steps.

        Raises:
            StateError: One of them has another type, or a step is being made; nothing was changed.
        """
        self.settle()
        counter = self._counter
        count = {} if counter is None else {counter.name: np.array(steps, np.int64)}
        self.store.put_all({**values, **count})
        self._steps_before = steps

    def alone(self) -> Claim[None]:
        """Reserve the states for the runs of a step in the block."""
        return Claim(self._claims, None, is_run=True)

    def begin(self, changed: Iterable[str], emptied: Iterable[str]) -> None:
        """Begin a step of several runs, which change some states and leave others full of zeros."""
        self._undo()
        with self.store.for_reading() as arrays:
            before = {name: arrays[name].copy() for name in changed}
            before |= {name: np.zeros_like(arrays[name]) for name in emptied}
        self._begun = BegunStep(self.steps, before)

    def end(self) -> None:
        """Undo what the step has changed that was begun, if its last run was not made."""
        self._undo()

    def settle(self) -> None:
        """Undo a step that was begun and interrupted; raise StateError if one is being made."""
        if self._begun is not None:
            with self.alone():
                self._undo()

    def _undo(self) -> None:
        begun = self._begun
        if begun is not None and begun.steps == self.steps:
            self.store.update_all(begun.before)
        self._begun = None


def _is_making_a_step() -> StateError:
    return StateError(
        "the trainer is making a step of several micro-batches in another thread; wait for its end"
    )
