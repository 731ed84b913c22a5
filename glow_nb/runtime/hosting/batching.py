"""Batches: requests that run together, their rows one after the other in the same arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from glow_nb.base.arguments import as_array
from glow_nb.base.errors import FeedError
from glow_nb.base.feeds import FeedCheck, Feeds, check_open_feeds, name_feeds
from glow_nb.base.types import Array, SymbolicType, TensorType, symbolic

ROWS = "batch"
"""What the leading dimension is called where types are shown."""


def batch_sizes(most: int) -> tuple[int, ...]:
    """Return the batch sizes that are compiled: the powers of two below *most*, and *most*."""
    return (*(1 << power for power in range(most.bit_length()) if 1 << power < most), most)


def joined(arrays: Sequence[Array], rows: int) -> Array:
    """Return *arrays* one after the other; the last row is repeated until there are *rows*.

    A row is repeated since the network can take it, which cannot be said of made-up numbers.
    """
    whole = np.empty((rows, *arrays[0].shape[1:]), arrays[0].dtype)
    begin = 0
    for array in arrays:
        whole[begin : begin + len(array)] = array
        begin += len(array)
    whole[begin:] = whole[begin - 1]
    return whole


def split(arrays: Mapping[str, Array], rows: Sequence[int]) -> list[dict[str, Array]]:
    """Return the outputs of each request, by name; *rows* says how many rows each has."""
    ends = np.cumsum(rows).tolist()
    return [
        {name: array[end - count : end] for name, array in arrays.items()}
        for count, end in zip(rows, ends, strict=True)
    ]


def listed_types(types: Mapping[str, TensorType | SymbolicType]) -> str:
    """Return *types* by name, as messages have them."""
    return ", ".join(f"{name!r} is {type}" for name, type in types.items())


def open_types(types: Mapping[str, TensorType | SymbolicType]) -> dict[str, SymbolicType]:
    """Return *types*, of known rank, with a leading dimension that is left open."""
    shown = {name: shown_type(type) for name, type in types.items()}
    return {name: SymbolicType(t.kind, (ROWS, *(t.shape or ())[1:])) for name, t in shown.items()}


def shown_type(type: TensorType | SymbolicType) -> TensorType | SymbolicType:
    """Return *type* with names instead of open sizes."""
    return symbolic(type) if isinstance(type, TensorType) and type.is_open else type


class FixedFeeds:
    """The feeds of a network whose requests run one by one."""

    def __init__(self, inputs: Mapping[str, TensorType]) -> None:
        """Check what is fed to *inputs*."""
        self._check = FeedCheck(inputs.items())

    def rows(self, feeds: Feeds) -> tuple[list[Array], int]:
        """Return one contiguous array for each input, which are one row; or raise FeedError."""
        return self._check.arrays(feeds), 1


class OpenFeeds:
    """The feeds of a network with open sizes."""

    def __init__(self, check: FeedCheck, most: int) -> None:
        """Check by *check* what is fed: at most *most* rows, or any number if that is 1."""
        self._check, self._most = check, most

    def rows(self, feeds: Feeds) -> tuple[list[Array], int]:
        """Return one contiguous array for each input, and their rows; or raise FeedError."""
        if self._most == 1:
            return self._check.arrays(feeds), 1
        named = name_feeds(self._check.types.keys(), feeds)
        arrays = {name: as_array(name, named[name]) for name in self._check.types}
        rows = rows_of(arrays, self._most) if all(a.ndim for a in arrays.values()) else 1
        return self._check.arrays(arrays), rows


def rows_of(arrays: Mapping[str, Array], most: int) -> int:
    """Return the rows of *arrays*; raise FeedError if they differ or are more than *most*."""
    first = next(iter(arrays))
    rows = len(arrays[first])
    if not 1 <= rows <= most:
        raise FeedError(
            f"input {first!r}: it has {rows} rows, the network takes 1 to {most} "
            "(max_batch); send them in several requests"
        )
    for name, array in arrays.items():
        if len(array) != rows:
            raise FeedError(
                f"input {name!r}: it has {len(array)} rows, but input {first!r} has {rows}; give "
                "the same number for each"
            )
    return rows


class RowFeeds:
    """The feeds of a network that takes any number of rows, up to a limit."""

    def __init__(self, inputs: Mapping[str, SymbolicType], most: int) -> None:
        """Check what is fed to *inputs*, at most *most* rows."""
        self._inputs, self._most = inputs, most

    def rows(self, feeds: Feeds) -> tuple[list[Array], int]:
        """Return one contiguous array for each input, and their rows; or raise FeedError."""
        named = name_feeds(self._inputs.keys(), feeds)
        arrays = {name: as_array(name, named[name]) for name in self._inputs}
        check_open_feeds(self._inputs, arrays)
        rows = rows_of(arrays, self._most)
        return [self._plain(name, array) for name, array in arrays.items()], rows

    def _plain(self, name: str, array: Array) -> Array:
        kind = self._inputs[name].kind
        assert kind is not None  # types of a compiled network
        return np.require(array, kind.dtype, ["C_CONTIGUOUS", "ALIGNED"])
