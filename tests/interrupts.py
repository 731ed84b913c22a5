"""Interrupts that come at a chosen place: a KeyboardInterrupt before a line of the package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

Place = tuple[tuple[str, int], ...]


def interrupted_at_each_line(action: Callable[[], object], *files: str) -> Iterator[Place]:
    """Do *action* again and again, and interrupt it each time at another place.

    A place is where a line, or the end of a ``with``, begins in a file of the package whose path
    ends with one of *files*, with the places that called it. After each interrupt its place is
    yielded; it ends when *action* comes to its end.
    """
    seen: set[Place] = set()
    while True:
        tracer = _Tracer(seen, files)
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            action()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if tracer.place is None:
            return
        yield tracer.place


class _Tracer:
    """Raises at the first place that is not among those that were *seen*."""

    def __init__(self, seen: set[Place], files: tuple[str, ...]) -> None:
        self._seen, self._files = seen, files
        self.place: Place | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.place is not None or not frame.f_code.co_filename.endswith(self._files):
            return None
        if event == "line":
            place = _place_of(frame)
            if place not in self._seen:
                self._seen.add(place)
                self.place = place
                raise KeyboardInterrupt
        return self


def _place_of(frame: FrameType) -> Place:
    lines: list[tuple[str, int]] = []
    above: FrameType | None = frame
    while above is not None and len(lines) < 3:
        lines.append((above.f_code.co_qualname, above.f_lasti))
        above = above.f_back
    return tuple(lines)
