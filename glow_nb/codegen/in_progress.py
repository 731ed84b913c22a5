"""Objects that threads of this process are making: what one makes, the others wait for.

A thread claims what it is about to make, and never waits while it holds a claim: so no two wait for
each other. What a thread gives up, as after an error, is made by one of those that wait.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from types import TracebackType
from typing import Self

Result = Future[bytes | None]
"""What another thread will have made; None if it gave up."""

Name = tuple[str, str]
"""The symbol of an object and its key, of which two families of kernels may have the same."""

_RESULTS: dict[Name, Result] = {}
"""What will come of each object that is being made."""

if hasattr(os, "register_at_fork"):  # the threads that make them stay in the parent
    os.register_at_fork(after_in_child=_RESULTS.clear)


class KernelClaims:
    """The kernels that one thread has claimed; it releases them at the end of the block."""

    def __init__(self) -> None:
        """Begin without claims."""
        self._own: dict[Name, Result] = {}

    def __enter__(self) -> Self:
        """Return the claims."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give up what is not finished."""
        for name in list(self._own):
            self._end(name, None)

    def claim(self, name: Name) -> Result | None:
        """Claim the object *name*; if another thread makes it, return what will come of that."""
        mine: Result = Future()
        self._own[name] = mine
        found = _RESULTS.setdefault(name, mine)  # one step, also among threads
        if found is mine:
            return None
        del self._own[name]
        return found

    def finish(self, name: Name, payload: bytes) -> None:
        """Hand *payload*, the object *name*, to all who wait for it."""
        self._end(name, payload)

    def _end(self, name: Name, payload: bytes | None) -> None:
        mine = self._own.pop(name)
        if _RESULTS.get(name) is mine:  # it is not after an interrupt within claim, or a fork
            del _RESULTS[name]
        mine.set_result(payload)
