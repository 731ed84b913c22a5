"""Arrays that a run is to write its results to, and names of outputs that are chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from glow_nb.base.arguments import as_it_lies, described
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.base.foreign import foreign
from glow_nb.base.types import Array, TensorType


def chosen(outputs: object, known: Collection[str], inputs: Collection[str] = ()) -> list[str]:
    """Return the names that ``outputs=`` chooses among the *known* ones, in its order.

    *inputs* are the names of inputs, one of which may be called "outputs".

    Raises:
        OptionError: It is no list of names, names nothing, or an output that is not there.
    """
    names = as_names("outputs", outputs, inputs)
    for name in names:
        require_output("outputs", name, known)
    return names


def as_names(argument: str, value: object, inputs: Collection[str] = ()) -> list[str]:
    """Return the *value* of an *argument* that names values, each once; raise OptionError."""
    names = list(value) if isinstance(value, list | tuple | set | frozenset | dict) else []
    if names and all(isinstance(name, str) for name in names):
        return list(dict.fromkeys(names))
    fed = f"; the input {argument!r} is fed in a dict" if argument in inputs else ""
    raise OptionError(f"{argument}={described(value)}: give a list of names, ['name', ...]{fed}")


def destinations(
    into: object, wanted: Mapping[str, TensorType], inputs: Collection[str] = ()
) -> dict[str, Array]:
    """Return the arrays of ``into=`` by output name, as a run can write to them.

    Args:
        into: Arrays by the names of outputs, not necessarily of all.
        wanted: The types of the outputs.
        inputs: The names of inputs, one of which may be called "into".

    Raises:
        OptionError: It is no dict, or names an output that is not there.
        FeedError: An array has another kind or shape, is not contiguous and aligned, or is
            read-only, or two of them overlap.
    """
    if not isinstance(into, Mapping):
        fed = "; the input 'into' is fed in a dict" if "into" in inputs else ""
        raise OptionError(f"into={described(into)}: give a dict of arrays by output name{fed}")
    found: dict[str, Array] = {}
    for name, value in into.items():
        require_output("into", name, wanted)
        found[name] = _writable(f"output {name!r}", value, wanted[name])
    refuse_overlap(found, {})
    return found


def refuse_overlap(outputs: Mapping[str, Array], inputs: Mapping[str, object]) -> None:
    """Raise FeedError if an array that is written overlaps another one of these.

    An output that is an input as well may be written where it is fed.
    """
    taken = [(f"input {name!r}", a) for name, a in inputs.items() if isinstance(a, np.ndarray)]
    for name, array in outputs.items():
        for other, held in taken:
            if inputs.get(name) is array and held is array:
                continue
            if np.shares_memory(array, held):
                raise FeedError(
                    f"output {name!r}: the array overlaps that of {other}, which a run still reads "
                    "or writes; give it memory of its own"
                )
        taken.append((f"output {name!r}", array))


def require_in_place(
    subject: str, value: object, wanted: TensorType, *, lent: bool = False
) -> Array:
    """Return *value* as an array that is used where it lies, or raise FeedError about *subject*.

    If *lent*, it may be an array of another library that lends its memory.
    """
    array = None
    if lent:
        with foreign(FeedError, f"{subject}: a {type(value).__name__} that is no array"):
            array = as_it_lies(FeedError, subject, value)
    if array is None:
        if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
            raise FeedError(
                f"{subject}: a {type(value).__name__} is no NumPy array; give one, such as "
                "tensor.numpy(), which shares the memory of a tensor"
            )
        array = np.asarray(value)  # of the class itself
    if array.dtype != wanted.kind.dtype or array.shape != wanted.shape:
        raise FeedError(
            f"{subject}: the array is {array.dtype} of shape {list(array.shape)}, the network has "
            f"{wanted}; give one of this kind and shape"
        )
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise FeedError(
            f"{subject}: the array is not contiguous and aligned, and it is used where it lies; "
            "give numpy.ascontiguousarray(array)"
        )
    return array


def _writable(subject: str, value: object, wanted: TensorType) -> Array:
    array = require_in_place(subject, value, wanted)
    if not array.flags.writeable:
        raise FeedError(f"{subject}: the array is read-only; give one to write to")
    return array


def require_output(argument: str, name: object, known: Iterable[str]) -> None:
    """Raise OptionError if there is no output called *name*."""
    known = list(known)
    if name not in known:
        from glow_nb.base.schema import closest, listed  # for what is wrong alone

        raise OptionError(
            f"{argument}: there is no output {name!r:.80}{closest(str(name), known)}; the outputs "
            f"are {listed(known)}"
        )
