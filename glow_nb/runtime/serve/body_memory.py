"""Memory for bodies of requests: what all of them that are in flight may take together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from glow_nb.runtime.serve.refusal import Refusal


class BodyMemory:
    """Counts the bytes of bodies; requests take shares of them, from any thread.

    Attributes:
        used_bytes: The bytes in use.
    """

    def __init__(self, limit_bytes: int) -> None:
        """Give shares of *limit_bytes*."""
        self._limit_bytes, self.used_bytes = limit_bytes, 0
        self._lock = threading.Lock()

    @contextmanager
    def share(self) -> Iterator[Share]:
        """Return the share of a request, which is given back at the end of the statement."""
        share = Share(self)
        try:
            yield share
        finally:
            with self._lock:
                self.used_bytes -= share.size_bytes

    def take(self, size_bytes: int) -> None:
        """Take *size_bytes*; raise Refusal if fewer are left."""
        with self._lock:
            if self.used_bytes + size_bytes > self._limit_bytes:
                raise Refusal(
                    503,
                    f"bodies of {self.used_bytes} bytes are in flight, {size_bytes} more would "
                    f"exceed the {self._limit_bytes} allowed for all requests; try again later",
                )
            self.used_bytes += size_bytes


class Share:
    """The share of one request's body in the memory for bodies.

    Attributes:
        size_bytes: The size in bytes.
    """

    def __init__(self, memory: BodyMemory) -> None:
        """Have nothing of *memory*."""
        self._memory, self.size_bytes = memory, 0

    def take(self, size_bytes: int) -> None:
        """Have *size_bytes* more; raise Refusal if fewer are left."""
        self._memory.take(size_bytes)
        self.size_bytes += size_bytes
