"""The states of a trainer, which its networks share, and how many steps they have seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from glow_nb.claims import Claim, Claims
from glow_nb.errors import StateError
from glow_nb.hlir.graph import State
from glow_nb.state_store import StateStore
from glow_nb.types import Array

STEPS = State.of("glow_nb.steps", np.zeros((), np.int64))
"""Counts the steps. The run that gives weights their new values counts its step, too: whatever
comes between two statements of Python, both are from before the step or from after it."""


@dataclass(frozen=True)
class BegunStep:
    """A step of several runs that has begun: what undoes it, unless its last run counted it."""

    steps: int
    before: Mapping[str, Array]


class TrainerStates:
    """The states by name, with a step of several runs done whole or not at all."""

    def __init__(self) -> None:
        """Hold no state but the count of steps."""
        self.store = StateStore()
        self.store.add([STEPS])
        self._claims = Claims(_is_making_a_step)
        self._begun: BegunStep | None = None

    @property
    def steps(self) -> int:
        """How many steps were made; it may be asked for at any time."""
        return self.store.count(STEPS.name)

    def snapshot(self) -> tuple[int, dict[str, Array]]:
        """Return how many steps were made, and a copy of each other state after them."""
        self.settle()
        values = self.values()
        return int(values.pop(STEPS.name)), values

    def values(self) -> dict[str, Array]:
        """Return a copy of each state as it is at this moment, that of a step that is made, too."""
        with self.store.for_reading() as arrays:
            return {name: array.copy() for name, array in arrays.items()}

    def replace(self, steps: int, values: Mapping[str, Array]) -> None:
        """Let the states have *values*, also those that no network has yet, after so many *steps*.

        Raises:
            StateError: One of them has another type, or a step is being made; nothing was changed.
        """
        self.settle()
        self.store.put_all({**values, STEPS.name: np.array(steps, np.int64)})

    def alone(self) -> Claim[None]:
        """Let nobody else use the states between the runs of a step in the block."""
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
