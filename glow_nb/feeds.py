"""What is fed to a network: each array is found by its name, and fits the input, or is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import numpy as np

from glow_nb.arguments import array_of_numbers, fits_as_it_is
from glow_nb.errors import FeedError
from glow_nb.schema import closest
from glow_nb.types import Array, SymbolicType, TensorType

if TYPE_CHECKING:
    from glow_nb.hlir.graph import Placeholder
    from glow_nb.llir.program import Buffer

Feeds = Mapping[str, Array] | Array


class FeedCheck:
    """The inputs that a network takes, prepared so that feeds which fit are found so at once.

    Attributes:
        types: Type of each input by name, in order.
    """

    def __init__(self, inputs: Iterable[tuple[str, TensorType]]) -> None:
        """Check what is fed to *inputs*, each with its name and its type."""
        self.types = dict(inputs)
        self._wanted = [(name, t.kind.dtype, t.shape) for name, t in self.types.items()]

    @classmethod
    def of(cls, inputs: Iterable[Buffer | Placeholder]) -> FeedCheck:
        """Return the check of what is fed to *inputs* of a program or a graph."""
        return cls((value.name, value.type) for value in inputs)

    def arrays(self, feeds: Feeds) -> list[Array]:
        """Return one contiguous array for each input, or raise FeedError."""
        named = name_feeds(self.types.keys(), feeds)
        arrays = []
        for name, dtype, shape in self._wanted:
            array = named[name]
            if not fits_as_it_is(array, dtype, shape):
                array = as_fitting(f"input {name!r}", array, self.types[name])
            arrays.append(array)
        return arrays

    def in_order(self, arrays: Sequence[Array]) -> list[Array]:
        """Return *arrays*, one for each input in order, contiguous; or raise FeedError."""
        if len(arrays) != len(self._wanted):
            raise FeedError(
                f"{len(arrays)} arrays are fed; the network has {len(self._wanted)} inputs, "
                f"{list(self.types)!s:.200}"
            )
        return self.arrays(dict(zip(self.types, arrays, strict=True)))


def name_feeds(
    names: AbstractSet[str], feeds: Feeds, defaults: AbstractSet[str] = frozenset()
) -> Mapping[str, Array]:
    """Return *feeds* as a mapping that has all *names* and maybe *defaults*; or raise FeedError."""
    if not isinstance(feeds, (dict, Mapping)):  # a dict is recognized faster
        if len(names) != 1:
            raise FeedError(
                f"the network has {len(names)} inputs; feed a dict with the names {list(names)}"
            )
        return dict.fromkeys(names, feeds)
    if feeds.keys() == names:
        return feeds
    for name in feeds:
        if name not in names and name not in defaults:
            known = [*names, *defaults]
            raise FeedError(
                f"unknown input {name!r}{closest(str(name), known)}; the inputs are {known}"
            )
    missing = [name for name in names if name not in feeds]
    if missing:
        raise FeedError(f"input(s) {missing} are not fed; the network has {list(names)}")
    return feeds


def as_fitting(subject: str, value: object, wanted: TensorType) -> Array:
    """Return *value* as an array that a kernel can read, or raise FeedError about the *subject*."""
    dtype, array = wanted.kind.dtype, array_of_numbers(FeedError, subject, value)
    if array.dtype.newbyteorder("=") != dtype:
        raise FeedError(
            f"{subject}: dtype is {array.dtype}, the network takes {wanted.kind.value}; "
            f"convert it with .astype({wanted.kind.value!r})"
        )
    if array.shape != wanted.shape:
        raise FeedError(
            f"{subject}: shape is {list(array.shape)}, the network takes {list(wanted.shape)}; "
            "reshape it, or compile for this shape"
        )
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def check_open_feeds(inputs: Mapping[str, SymbolicType], feeds: Mapping[str, Array]) -> None:
    """Raise FeedError, before anything is compiled, for arrays that cannot fit open *inputs*."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, type in inputs.items():
        if name not in feeds:  # one with a default
            continue
        array = feeds[name]
        if type.kind is not None and array.dtype.newbyteorder("=") != type.kind.dtype:
            raise FeedError(
                f"input {name!r}: dtype is {array.dtype}, the network takes "
                f"{type.kind.value}; convert it with .astype({type.kind.value!r})"
            )
        if type.shape is None:
            continue
        fits = array.ndim == len(type.shape) and all(
            isinstance(want, str) or want == got
            for want, got in zip(type.shape, array.shape, strict=True)
        )
        if not fits:
            raise FeedError(
                f"input {name!r}: shape is {list(array.shape)}, the network takes "
                f"{list(type.shape)}; reshape it"
            )
        for want, got in zip(type.shape, array.shape, strict=True):
            if not isinstance(want, str):
                continue
            bound, owner = sizes.setdefault(want, (got, name))
            if bound != got:
                raise FeedError(
                    f"dimension {want!r} is {bound} in input {owner!r} but {got} in {name!r}; "
                    "it must have one size"
                )
