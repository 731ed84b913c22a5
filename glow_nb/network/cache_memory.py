"""The memory of growing caches: arrays with room, of which the first rows count."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.arguments import as_array, whole_number
from glow_nb.base.errors import FeedError, StateError
from glow_nb.base.feeds import Feeds, as_fitting, check_open_feeds, name_feeds
from glow_nb.base.memory_limit import require_run_memory, within_memory
from glow_nb.base.size import at, symbols_of
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import Array, TensorType, symbolic

if TYPE_CHECKING:
    from glow_nb.base.grown_cache import Cache


class CacheMemory:
    """One array for each of some caches, and how many of its rows are there.

    Attributes:
        caches: The caches of the function.
        length: The number of rows, the same in each cache.
    """

    def __init__(self, caches: Sequence[Cache]) -> None:
        """Begin empty; there is memory from the first run on."""
        self.caches, self.length = tuple(caches), 0
        self._arrays: dict[str, Array] = {}
        self._symbols = symbols_of(*(size for cache in caches for size in cache.type.shape))
        self._made_for: list[int] = []
        self._lock = threading.Lock()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Lock the memory; raise StateError if it is in use."""
        if not self._lock.acquire(blocking=False):
            raise StateError(
                "the caches are in use by another run: a network with caches does one run at a "
                "time; wait for it, or give each thread its own, net.fork()"
            )
        try:
            yield
        finally:
            self._lock.release()

    @property
    def rows(self) -> dict[str, Array]:
        """The rows that are there, where they lie; nothing before there is memory."""
        return {
            cache.name: self._arrays[cache.name][_rows(cache, self.length)]
            for cache in self.caches
            if self._arrays
        }

    def copy_of(self, cache: Cache, length: int) -> Array:
        """Return a copy of the first *length* rows of *cache*."""
        return self._arrays[cache.name][_rows(cache, length)].copy()

    def lengths(self) -> dict[str, int]:
        """Return the number of rows by the names of the sizes that determine it."""
        return {cache.past.name: self.length for cache in self.caches}

    def tellers(self) -> dict[str, Array]:
        """Return the inputs that give a program the number of rows."""
        teller = np.empty((self.length, 0), np.bool_)
        return dict.fromkeys((cache.teller for cache in self.caches), teller)

    def require_room(self) -> None:
        """Raise FeedError if the program finds too many or too few rows."""
        for cache in self.caches:
            past = cache.past
            if self.length > past.high:
                raise FeedError(
                    f"caches: there are {self.length} rows in them, and a run may find {past.high} "
                    f"at most, the end of the range of {past.name!r}; drop some, "
                    f"net.truncate({past.high}), or compile the model with a wider range, "
                    f"sizes={{{past.name!r}: ({past.low}, {2 * past.high})}}"
                )
            if self.length < past.low:
                raise FeedError(
                    f"caches: there are {self.length} rows in them, and a run must find {past.low} "
                    f"at least, the begin of the range of {past.name!r}; put some there, "
                    f"net.fill(arrays), or let the range begin at {self.length}"
                )

    def arrays_for(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Return the whole arrays for a run of *sizes*; empty caches get memory for these.

        Raises:
            FeedError: Rows are there of other sizes.
            MemoryLimitError: There is no memory.
        """
        key = [sizes[symbol.name] for symbol in self._symbols]
        if self._arrays and key == self._made_for:
            return self._arrays
        wanted = {cache.name: cache.type.at(sizes) for cache in self.caches}
        for name, type in wanted.items() if self.length else ():
            if self._arrays[name].shape != type.shape:
                raise FeedError(
                    f"cache {name!r}: with its room it is {list(self._arrays[name].shape)}, and "
                    f"the feeds are for {list(type.shape)}; feed arrays of the same sizes as "
                    "before, or begin anew, net.reset()"
                )
        if not self.length:
            self._arrays = {}  # gone before others are made
            self._arrays = _memory_for(wanted)
        self._made_for = key
        return self._arrays

    def truncate(self, length: object) -> None:
        """Keep the first *length* rows; raise OptionError if there are fewer."""
        with self.in_use():
            self.length = whole_number("length", length, 0, self.length)

    def fill(self, arrays: Feeds) -> None:
        """Let the rows be those of *arrays*, one for each cache; if that fails, they stay.

        Raises:
            FeedError: One is missing or unknown, or has another kind or shape, or other rows than
                the others.
            MemoryLimitError: There is no memory.
        """
        types = {cache.name: _of_rows(cache) for cache in self.caches}
        named = name_feeds(types.keys(), arrays)
        given = {name: as_array(name, named[name]) for name in types}
        check_open_feeds({name: symbolic(type) for name, type in types.items()}, given)
        shapes = {name: array.shape for name, array in given.items()}
        symbols = symbols_of(*(size for type in types.values() for size in type.shape))
        sizes = sizes_of_shapes(types, symbols, shapes)
        fitting = {
            name: as_fitting(f"cache {name!r}", array, types[name].at(sizes))
            for name, array in given.items()
        }
        lengths = {at(cache.past.size, sizes) for cache in self.caches}
        if len(lengths) > 1:
            raise FeedError(
                f"caches: arrays of {sorted(lengths)} rows are given; give the same number for each"
            )
        (length,) = lengths
        with self.in_use():
            made = _memory_for({cache.name: cache.type.at(sizes) for cache in self.caches})
            for cache in self.caches:
                made[cache.name][_rows(cache, length)] = fitting[cache.name]  # maybe our own rows
            self._arrays, self._made_for, self.length = made, [], length

    def copy(self) -> CacheMemory:
        """Return other memory with the same rows."""
        made = CacheMemory(self.caches)
        with self.in_use():
            if self._arrays:
                types = {name: TensorType.of(array) for name, array in self._arrays.items()}
                made._arrays = _memory_for(types)
            made.length = self.length
            for name, rows in made.rows.items():
                rows[...] = self.rows[name]
        return made


def _memory_for(types: Mapping[str, TensorType]) -> dict[str, Array]:
    """Return zeros of these *types*; raise MemoryLimitError if there is no memory."""
    require_run_memory("caches", {name: type.size_bytes for name, type in types.items()})
    with within_memory("caches"):
        return {name: _zeros(type) for name, type in types.items()}


def _rows(cache: Cache, length: int) -> tuple[slice, ...]:
    return (*(slice(None),) * cache.axis, slice(length))


def _of_rows(cache: Cache) -> TensorType:
    """Return the type of the rows of *cache* that a run finds."""
    shape = cache.type.shape
    before, after = shape[: cache.axis], shape[cache.axis + 1 :]
    return cache.type.with_shape((*before, cache.past.size, *after))


def _zeros(type: TensorType) -> Array:
    """Return zeros that begin where vectors are read best; the system makes pages when written."""
    memory = np.zeros(type.size_bytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + type.size_bytes].view(type.kind.dtype).reshape(type.shape)
