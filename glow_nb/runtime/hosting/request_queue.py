"""The requests of one network that wait: the higher priority first, then the order of arrival."""

from __future__ import annotations

import heapq
from collections import Counter
from itertools import count

from glow_nb.base.errors import RefusedError
from glow_nb.runtime.hosting.request import Request

Kind = tuple[tuple[int, ...], ...]
"""Sizes of one row of each input."""


class RequestQueue:
    """A bounded queue; the caller has the host's lock.

    A request that is answered while it waits is left where it is, and passed over.
    """

    def __init__(self, name: str, limit: int) -> None:
        """Let at most *limit* requests wait for the network *name*."""
        self._name, self._limit = name, limit
        self._heap: list[tuple[int, int, Request]] = []
        self._arrivals = count()
        self._waiting = 0
        self._rows: Counter[Kind] = Counter()  # of requests that wait

    @property
    def rows(self) -> int:
        """Samples of all requests that wait and may run together with the next one."""
        head = self.head()
        return 0 if head is None else self._rows[_kind(head)]

    def __len__(self) -> int:
        """Return how many requests wait."""
        return self._waiting

    def push(self, request: Request) -> None:
        """Let *request* wait; raise RefusedError if too many do."""
        if self._waiting >= self._limit:
            raise RefusedError(
                f"network {self._name!r}: {self._waiting} requests wait, and no more than "
                f"{self._limit} may (max_queued); try again later, or send fewer at a time"
            )
        try:
            heapq.heappush(self._heap, (-request.priority, next(self._arrivals), request))
            self._waiting += 1
            self._rows[_kind(request)] += request.rows
        except BaseException:  # an interrupt from the keyboard, perhaps before it was counted
            self._leave_out(request)
            raise

    def _leave_out(self, request: Request) -> None:
        """Let *request* not wait, and count all others again."""
        self._heap = [e for e in self._heap if e[2].is_open and e[2] is not request]
        heapq.heapify(self._heap)
        self._waiting = len(self._heap)
        self._rows.clear()
        for *_, waiting in self._heap:
            self._rows[_kind(waiting)] += waiting.rows

    def head(self) -> Request | None:
        """Return the request that is next; None if none waits."""
        while self._heap and not self._heap[0][2].is_open:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def forget(self, request: Request) -> None:
        """Count *request*, which has just been closed, no more."""
        self._count_out(request)
        if len(self._heap) > 2 * self._waiting + 16:  # most are closed
            self._heap = [entry for entry in self._heap if entry[2].is_open]
            heapq.heapify(self._heap)

    def take(self, most_rows: int) -> list[Request]:
        """Remove the requests that come next, have at most *most_rows* together, and are alike.

        Those of other sizes stay where they are.
        """
        taken: list[Request] = []
        passed = []
        while (request := self.head()) is not None and request.rows <= most_rows:
            entry, kind = heapq.heappop(self._heap), _kind(request)
            if taken and kind != _kind(taken[0]):
                passed.append(entry)
                continue
            self._count_out(request)
            most_rows -= request.rows
            taken.append(request)
            if not self._rows[kind]:
                break
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return taken

    def _count_out(self, request: Request) -> None:
        kind = _kind(request)
        self._waiting -= 1
        self._rows[kind] -= request.rows
        if not self._rows[kind]:
            del self._rows[kind]


def _kind(request: Request) -> Kind:
    """Return the sizes that requests which run together share: all but the leading ones."""
    return tuple(array.shape[1:] for array in request.arrays)
