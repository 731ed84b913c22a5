"""Turns at the cores: however many threads compile, no more workers work than there are cores."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from glow_nb.system.cores import available_cores


class CoreSlots:
    """One slot for each core that the process may use; who came first gets the next one."""

    def __init__(self) -> None:
        """Begin with all slots free."""
        self._changed = threading.Condition()
        self._line: deque[object] = deque()
        self._taken = 0

    def take(self, is_wanted: Callable[[], object]) -> bool:
        """Wait for a slot while it *is_wanted*; return whether it was taken.

        :meth:`look_again` must wake a thread that may still wait for a slot that it no longer
        needs.
        """
        ticket = object()
        with self._changed:
            self._line.append(ticket)
            try:
                self._changed.wait_for(lambda: not is_wanted() or self._is_next(ticket))
                is_taken = bool(is_wanted())
                self._taken += is_taken
            finally:
                self._line.remove(ticket)
                self._changed.notify_all()
        return is_taken

    def _is_next(self, ticket: object) -> bool:
        return self._line[0] is ticket and self._taken < available_cores()

    def give(self) -> None:
        """Give a slot back."""
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()

    def is_waited_for(self) -> bool:
        """Return whether a thread waits for a slot."""
        return bool(self._line)

    def look_again(self) -> None:
        """Let all who wait ask again whether they want a slot."""
        with self._changed:
            self._changed.notify_all()


CORE_SLOTS = CoreSlots()
if hasattr(os, "register_at_fork"):  # the threads that hold slots stay in the parent
    os.register_at_fork(after_in_child=CORE_SLOTS.__init__)  # type: ignore[misc]
