"""State at run time: one array for each, which runs read and write where it lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, Protocol

from glow_nb.base.alignment import aligned_empty
from glow_nb.base.arguments import array_of_numbers
from glow_nb.base.errors import StateError
from glow_nb.base.override import override
from glow_nb.base.types import Array, TensorType
from glow_nb.system.claims import Claim, Claims, do_at_once


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


def _memory_for(type: TensorType) -> Array:
    """Return an array that begins where vectors are read best."""
    return aligned_empty(type.size_bytes).view(type.kind.dtype).reshape(type.shape)


def write_all(copies: Iterable[tuple[Array, Array]]) -> None:
    """Write to the first array of each pair what the second one holds: all of it, or nothing."""
    do_at_once(partial(place.__setitem__, ..., array) for place, array in copies)


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

    Reading gives a copy; an assignment is checked and copied. ``copy``, ``deepcopy`` and ``pickle``
    make a dict of copies, which ``update`` takes back. While a run is in progress, both are
    refused, and so is another run. A run that begins during a read or an assignment waits for it.
    """

    def __init__(self, states: Iterable[BeginsAs] = ()) -> None:
        """Hold *states*, each as it is before the first run.

        Raises:
            StateError: Two of them have the same name.
        """
        self._arrays: dict[str, Array] = {}
        self._claims = Claims(self._is_in_use)
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
        array = _memory_for(state.type)
        state.write_to(array)
        self._arrays[state.name] = array

    @property
    def types(self) -> dict[str, TensorType]:
        """The types of the states by name."""
        return {name: TensorType.of(array) for name, array in self._arrays.items()}

    def for_a_run(self) -> Claim[LentState]:
        """Lend the memory to a run; raise StateError if another one has it."""
        return Claim(self._claims, self._lent, is_run=True)

    def for_reading(self) -> Claim[Mapping[str, Array]]:
        """Lend the arrays to who reads them; raise StateError while a run is in progress."""
        return Claim(self._claims, self._arrays, is_run=False)

    def _is_in_use(self) -> StateError:
        return StateError(
            f"the state {list(self._arrays)!s:.80} is in use by another run: a network "
            "with state does one run at a time; wait for it, or compile the network once "
            "more for a state of its own"
        )

    def count(self, name: str) -> int:
        """Return what the state *name*, one integer, is at this moment, also during a run."""
        return int(self._known(name))

    def update_all(self, arrays: Mapping[str, object]) -> None:
        """Give new values to some of the states, to all of *arrays* or to none.

        Raises:
            StateError: A name is unknown, or an array has another kind or shape; all are listed.
        """
        fitted = self._all_fitting(arrays)
        with self.for_reading() as held:
            write_all((held[name], array) for name, array in fitted.items())

    def put_all(self, arrays: Mapping[str, Array]) -> None:
        """Do what :meth:`update_all` does; arrays of names that are not held become states."""
        known = {name: array for name, array in arrays.items() if name in self._arrays}
        fitted = self._all_fitting(known)
        new = {n: _memory_for(TensorType.of(a)) for n, a in arrays.items() if n not in known}
        write_all((array, arrays[name]) for name, array in new.items())
        with self.for_reading() as held:
            writes = [partial(held[name].__setitem__, ..., a) for name, a in fitted.items()]
            additions = [partial(self._arrays.__setitem__, name, a) for name, a in new.items()]
            do_at_once([*writes, *additions])

    def _all_fitting(self, arrays: Mapping[str, object]) -> dict[str, Array]:
        """Return *arrays* as the states take them; raise StateError, which lists all problems."""
        fitted: dict[str, Array] = {}
        problems: list[str] = []
        for name, value in arrays.items():
            try:
                fitted[name] = self._fitting(name, value)
            except StateError as error:
                problems.append(str(error))
        if problems:
            raise StateError("; ".join(problems))
        return fitted

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
            from glow_nb.base.schema import closest  # for what is wrong alone

            raise StateError(
                f"there is no state {name!r}{closest(str(name), self._arrays)}; the states are "
                f"{list(self._arrays)}"
            )
        return self._arrays[name]

    @override
    def __getitem__(self, name: str) -> Array:
        array = self._known(name)
        with self.for_reading():
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
    def get(self, name: str, /, default: Any = None) -> Any:
        return self[name] if name in self._arrays else default

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    @override
    def __len__(self) -> int:
        return len(self._arrays)

    @override
    def __reduce_ex__(self, protocol: object) -> tuple[type, tuple[dict[str, Array]]]:
        """Be copied and pickled as a dict of arrays: the store itself belongs to its networks."""
        with self.for_reading() as held:
            return dict, ({name: array.copy() for name, array in held.items()},)

    @override
    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {type}" for name, type in self.types.items())
        return f"<StateStore {shown}>"
