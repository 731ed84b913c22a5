"""The feeds of a network: each array is found by its name, and fits the input, or is refused."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Protocol

import numpy as np

from glow_nb.base.arguments import array_of_numbers, fits_as_it_is
from glow_nb.base.errors import FeedError
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.misfits import fits, wrong_kind, wrong_shape
from glow_nb.base.types import Array, SymbolicType, TensorType

Feeds = Mapping[str, Array] | Array


class Input(Protocol):
    """An input of a graph or of a program."""

    @property
    def name(self) -> str:
        """The name in feeds."""

    @property
    def type(self) -> TensorType:
        """Element kind and shape."""


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
    def of(cls, inputs: Iterable[Input]) -> FeedCheck:
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
                f"a {type(feeds).__name__} is fed, and the network has {len(names)} inputs; feed "
                f"them by their names, {_example(names)}"
            )
        return dict.fromkeys(names, feeds)
    if feeds.keys() == names:
        return feeds
    from glow_nb.base.schema import closest, listed  # for what is wrong alone

    for name in feeds:
        if name not in names and name not in defaults:
            meant = closest(str(name), [*names, *defaults])  # an old model may have hundreds
            raise FeedError(f"unknown input {name!r}{meant}; the inputs are {listed(names)}")
    missing = [name for name in names if name not in feeds]
    if missing:
        raise FeedError(f"input(s) {missing} are not fed; the network has {listed(names)}")
    return feeds


def gathered(
    names: Collection[str],
    inputs: Feeds | None,
    more: Sequence[object],
    by_name: Mapping[str, Array],
) -> Feeds:
    """Return what is fed by the call ``run(inputs, *more, **by_name)``, which is unusual.

    Keywords are names of inputs; the one that *inputs* itself is called like may be named so.

    Raises:
        FeedError: Something is fed twice, or without a name, or nothing is fed.
    """
    if more:
        raise FeedError(
            f"run was called with {1 + len(more)} arguments; it takes the feeds alone, "
            f"{_example(names)}, and outputs=['name'] to choose outputs"
        )
    if inputs is None and not by_name:
        raise FeedError(f"nothing is fed: {_example(names)}")
    if inputs is None:
        return by_name
    if not isinstance(inputs, Mapping):
        if "inputs" not in names:
            raise FeedError(f"one array is fed without a name: {_example(names)}")
        inputs = {"inputs": inputs}
    twice = [name for name in inputs if name in by_name]
    if twice:
        raise FeedError(f"input(s) {twice} are fed twice; leave one of them out")
    return {**inputs, **by_name}


def _example(names: Iterable[str]) -> str:
    """Return how the inputs called *names* are fed."""
    first, rest = list(islice(names, 3)), ", ..."
    shown = ", ".join(f"{name!r}: array" for name in first)
    return f"run({{{shown}{rest if len(first) == 3 else ''}}})"


def as_fitting(subject: str, value: object, wanted: TensorType) -> Array:
    """Return *value* as an array that a kernel can read, or raise FeedError about the *subject*.

    What has to be copied may find no memory: that is a MemoryLimitError.
    """
    dtype, array = wanted.kind.dtype, array_of_numbers(FeedError, subject, value)
    if array.dtype.newbyteorder("=") != dtype:
        raise wrong_kind(subject, value, array, wanted.kind)
    if array.shape != wanted.shape:
        raise wrong_shape(subject, array.shape, wanted.shape)
    with within_memory(subject):  # a view may show more than there is
        return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def check_open_feeds(
    inputs: Mapping[str, SymbolicType], feeds: Mapping[str, Array]
) -> dict[str, int]:
    """Return the open sizes of *inputs* in *feeds* by name.

    Raises:
        FeedError: An array cannot fit; nothing needs to be compiled to know.
    """
    sizes: dict[str, tuple[int, str]] = {}
    for name, type in inputs.items():
        if name not in feeds:  # one with a default
            continue
        array = feeds[name]
        if type.kind is not None and array.dtype.newbyteorder("=") != type.kind.dtype:
            raise wrong_kind(f"input {name!r}", array, array, type.kind)
        if type.shape is None:
            continue
        if not fits(array.shape, type.shape):
            raise wrong_shape(f"input {name!r}", array.shape, type.shape)
        for want, got in zip(type.shape, array.shape, strict=True):
            if not isinstance(want, str):
                continue
            bound, owner = sizes.setdefault(want, (got, name))
            if bound != got:
                raise FeedError(
                    f"dimension {want!r} is {bound} in input {owner!r} but {got} in {name!r}; "
                    "it must have one size"
                )
    return {name: size for name, (size, _) in sizes.items()}
