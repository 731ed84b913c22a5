"""State at run time: one array for each, which runs read and write where it lies."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from typing_extensions import override

from glow_nb.alignment import aligned_empty
from glow_nb.arguments import array_of_numbers
from glow_nb.errors import StateError
from glow_nb.schema import closest
from glow_nb.types import Array, TensorType


class BeginsAs(Protocol):
    """What knows the value of a state before the first run."""

    @property
    def name(self) -> str:
        """The name, by which all functions of a module mean the same state."""

    @property
    def type(self) -> TensorType:
        """Kind and shape."""

    def write_to(self, place: Array) -> None:
        """Write the value to *place*."""


class LentState:
    """The memory of a store, in the hands of who has it for a run."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        """Lend *arrays*."""
        self._arrays = arrays

    def array(self, name: str, type: TensorType) -> Array:
        """Return the memory of the state *name*; raise StateError if there is none of *type*."""
        found = self._arrays.get(name)
        if found is None or TensorType.of(found) != TensorType(type.kind, type.shape):
            held = "none of this name" if found is None else f"one of {TensorType.of(found)}"
            raise StateError(
                f"state {name!r} : {type}: the store holds {held}; give the one that was made for "
                "this program"
            )
        return found


class StateStore(MutableMapping[str, Array]):
    """The arrays of states by name, shared by all functions that work on them.

    Reading gives a copy; an assignment is checked and copied. While a run is in progress, both are
    refused, and so is another run. A run that begins while somebody reads or assigns waits for it.
    """

    def __init__(self, states: Iterable[BeginsAs] = ()) -> None:
        """Hold *states*, each as it is before the first run.

        Raises:
            StateError: Two of them have the same name.
        """
        self._arrays: dict[str, Array] = {}
        self._lock = threading.Lock()  # held by who reads or assigns, and to begin a run
        self._is_in_use = False  # by a run
        self._lent = LentState(self._arrays)
        for state in states:
            if state.name in self._arrays:
                raise StateError(
                    f"state {state.name!r}: two states have this name; give each its own, or use "
                    "one in all functions"
                )
            self._allocate(state)

    def add(self, states: Iterable[BeginsAs]) -> None:
        """Hold *states*, too; those that are held already keep their values.

        Raises:
            StateError: One of the name has another type; nothing was added.
        """
        new = {state.name: state for state in states}
        for name in new.keys() & self._arrays.keys():
            held, wanted = self.types[name], new[name].type
            if held != TensorType(wanted.kind, wanted.shape):
                raise StateError(
                    f"state {name!r}: the store holds one of {held}, the network has {wanted}; "
                    "give the store of a network with the same states"
                )
        for name, state in new.items():
            if name not in self._arrays:
                self._allocate(state)

    def _allocate(self, state: BeginsAs) -> None:
        block = aligned_empty(state.type.size_bytes)
        array = block.view(state.type.kind.dtype).reshape(state.type.shape)
        state.write_to(array)
        self._arrays[state.name] = array

    @property
    def types(self) -> dict[str, TensorType]:
        """The types of the states by name."""
        return {name: TensorType.of(array) for name, array in self._arrays.items()}

    @contextmanager
    def for_a_run(self) -> Iterator[LentState]:
        """Lend the memory to a run; raise StateError if another one has it."""
        with self._between_runs():
            self._is_in_use = True
        try:
            yield self._lent
        finally:
            self._is_in_use = False

    @contextmanager
    def for_reading(self) -> Iterator[Mapping[str, Array]]:
        """Lend the arrays to who reads them; raise StateError while a run is in progress."""
        with self._between_runs():
            yield self._arrays

    @contextmanager
    def _between_runs(self) -> Iterator[None]:
        """Let no run begin while the body of the statement runs; raise StateError during one."""
        with self._lock:
            if self._is_in_use:
                raise StateError(
                    f"the state {list(self._arrays)!s:.80} is in use by another run: a network "
                    "with state does one run at a time; wait for it, or compile the network once "
                    "more for a state of its own"
                )
            yield

    def update_all(self, arrays: Mapping[str, object]) -> None:
        """Give new values to some of the states, to all of *arrays* or to none.

        Raises:
            StateError: A name is unknown, or an array has another kind or shape; all are listed.
        """
        fitted: dict[str, Array] = {}
        problems: list[str] = []
        for name, value in arrays.items():
            try:
                fitted[name] = self._fitting(name, value)
            except StateError as error:
                problems.append(str(error))
        if problems:
            raise StateError("; ".join(problems))
        with self._between_runs():
            for name, array in fitted.items():
                np.copyto(self._arrays[name], array)

    def _fitting(self, name: str, value: object) -> Array:
        """Return *value* as an array for the state *name*, or raise StateError."""
        wanted = TensorType.of(self._known(name))
        array = array_of_numbers(StateError, f"state {name!r}", value)
        if array.dtype.newbyteorder("=") != wanted.kind.dtype or array.shape != wanted.shape:
            raise StateError(
                f"state {name!r}: it is {wanted}, the array is {array.dtype} of shape "
                f"{list(array.shape)}; convert or reshape it"
            )
        return array

    def _known(self, name: str) -> Array:
        if name not in self._arrays:
            raise StateError(
                f"there is no state {name!r}{closest(str(name), self._arrays)}; the states are "
                f"{list(self._arrays)}"
            )
        return self._arrays[name]

    @override
    def __getitem__(self, name: str) -> Array:
        array = self._known(name)
        with self._between_runs():
            return array.copy()

    @override
    def __setitem__(self, name: str, value: Array) -> None:
        self.update_all({name: value})

    @override
    def __delitem__(self, name: str) -> None:
        raise StateError(f"state {name!r}: it belongs to the network and cannot be deleted")

    @override
    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    @override
    def __len__(self) -> int:
        return len(self._arrays)

    @override
    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {type}" for name, type in self.types.items())
        return f"<StateStore {shown}>"
