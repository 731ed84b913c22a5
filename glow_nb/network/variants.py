"""Networks made for some sizes: each set of sizes once, however many threads ask for it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from glow_nb.base.errors import GlowError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(eq=False)
class _Entry(Generic[V]):
    """A value that is there, or that a thread is making or is about to make."""

    thread: int = field(default_factory=threading.get_ident)
    is_kept: bool = False
    future: Future[V] = field(default_factory=Future)

    @property
    def is_made(self) -> bool:
        return self.future.done()


class VariantCache(Generic[K, V]):
    """Values by key: made at first use, the least recently used dropped.

    While a value is being made, those that want the same one wait for it, and all others go on:
    the lock is held for look-ups only. A dropped value stays alive as long as it is used.
    """

    def __init__(self, limit: int, *, in_turn: bool = False) -> None:
        """Keep at most *limit* values; those that are being made are not counted.

        Values of different keys are made at the same time, unless *in_turn*: then all other threads
        wait, but the one that makes a value may ask for others meanwhile.
        """
        self._limit, self._in_turn = limit, in_turn
        self._entries: dict[K, _Entry[V]] = {}  # the last used is last
        self._make_locks()
        _CACHES.add(self)

    def _make_locks(self) -> None:
        self._lock = threading.RLock()  # which does not stop a thread that an interrupt left it to
        self._turn = threading.RLock() if self._in_turn else nullcontext()
        self._awaited: dict[int, _Entry[V]] = {}  # by the thread that waits for it

    def get(self, key: K, make: Callable[[], V], *, is_kept: bool = False) -> V:
        """Return the value of *key*, from *make* if there is none.

        One that *is kept* is never dropped, does not count, and is not among those that are ready.

        If *make* fails, all who wait for the value get its error, and the next call tries again. If
        it is interrupted from the keyboard, one of those who wait makes the value instead.

        Raises:
            GlowError: *make* asks for the value that it is making, or for one whose maker waits for
                this one.
        """
        while True:
            entry: _Entry[V] = _Entry(is_kept=is_kept)
            try:
                known = self._find(key, entry)
                if known is entry or self._may_take_over(known):
                    self._make(key, known, make)
            except BaseException as error:  # an interrupt may come at any place above
                self._drop(key, entry, error)
                raise
            try:
                return self._result(known)
            except CancelledError:  # its maker was interrupted
                continue

    def is_making(self) -> bool:
        """Return whether this thread makes a value: it is called by what makes it, then."""
        me = threading.get_ident()
        with self._lock:
            return any(e.thread == me and not e.is_made for e in self._entries.values())

    def _may_take_over(self, entry: _Entry[V]) -> bool:
        """Return whether the maker of *entry* waits for the turn, which this thread has."""
        if entry.is_made or not self._in_turn or entry.thread == threading.get_ident():
            return False
        return self.is_making()

    def _make(self, key: K, entry: _Entry[V], make: Callable[[], V]) -> None:
        with self._turn:
            if entry.is_made:  # by a thread that took it over
                return
            entry.thread = threading.get_ident()
            try:
                self._keep(key, entry, make())
            except BaseException as error:
                self._drop(key, entry, error)
                raise

    def _result(self, entry: _Entry[V]) -> V:
        """Return the value of *entry* once it is made; raise GlowError if that would never be."""
        if entry.is_made:
            return entry.future.result()
        me = threading.get_ident()
        with self._lock:
            if self._waits_for(entry, me):
                raise GlowError(
                    "the network is run by a pass or an observer while it is being compiled for "
                    "these sizes, which cannot end before this run does; "
                    "let passes and observers leave the network alone"
                )
            self._awaited[me] = entry
        try:
            return entry.future.result()
        finally:
            del self._awaited[me]

    def _waits_for(self, entry: _Entry[V] | None, thread: int) -> bool:
        """Return whether *entry* cannot be made before *thread* continues."""
        while entry is not None and not entry.is_made:
            if entry.thread == thread:
                return True
            entry = self._awaited.get(entry.thread)
        return False

    def __contains__(self, key: object) -> bool:
        """Return whether the value of *key* is there, or is being made."""
        return key in self._entries

    def is_ready(self, key: K) -> bool:
        """Return whether the value of *key* is available without waiting."""
        entry = self._entries.get(key)
        return entry is not None and entry.is_made

    def ready(self) -> dict[K, V]:
        """Return what is made, the least recently used first."""
        with self._lock:
            made = [
                (key, entry)
                for key, entry in self._entries.items()
                if entry.is_made and not entry.is_kept
            ]
        return {key: entry.future.result() for key, entry in made}

    def _find(self, key: K, new: _Entry[V]) -> _Entry[V]:
        """Return the entry of *key*, used now: *new* if there was none, which the caller fills."""
        with self._lock:
            entry = self._entries.get(key, new)
            self._entries.pop(key, None)
            self._entries[key] = entry
            return entry

    def _keep(self, key: K, entry: _Entry[V], value: V) -> None:
        with self._lock:
            entry.future.set_result(value)
            self._entries.pop(key, None)
            self._entries[key] = entry  # used now, not when it was begun
            made = [k for k, e in self._entries.items() if e.is_made and not e.is_kept]
            for old in made[: max(0, len(made) - self._limit)]:
                del self._entries[old]

    def _drop(self, key: K, entry: _Entry[V], error: BaseException) -> None:
        """Forget *entry*, whose computation failed with *error*; waiting threads get the error."""
        if entry.is_made:
            return
        with self._lock:
            if self._entries.get(key) is entry:
                del self._entries[key]
        if isinstance(error, Exception):
            entry.future.set_exception(error)
        else:
            entry.future.cancel()

    def forget_unfinished(self) -> None:
        """Drop what other threads were making when this process was forked: they are not here."""
        self._make_locks()
        self._entries = {key: entry for key, entry in self._entries.items() if entry.is_made}


_CACHES: weakref.WeakSet[VariantCache[Any, Any]] = weakref.WeakSet()


def _forget_unfinished() -> None:
    for cache in _CACHES:
        cache.forget_unfinished()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_unfinished)
