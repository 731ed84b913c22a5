"""Who uses something that one run at a time may use, however that run ends.

A signal may raise at any place in Python, also between a claim and the statement that would give it
back. So no code relies on claims being given back: a claim belongs to the function that made it,
and is over when that function has ended.
"""

from __future__ import annotations

import inspect
import operator
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any, Generic, TypeVar

from glow_nb.base.errors import GlowError

T = TypeVar("T")

SECONDS_BETWEEN_LOOKS = 1e-4
"""A claim that is waited for lasts as long as a copy of some arrays."""


class Claims:
    """The claims on one thing, in the order in which they were made.

    A dict is one, as each of its methods is a single step that neither a signal nor another thread
    divides: of two threads that claim at the same time, both see the same one first.
    """

    def __init__(self, refusal: Callable[[], GlowError]) -> None:
        """Have runs that meet another one raise what *refusal* returns."""
        self.claims: dict[Claim[Any], None] = {}
        self.refusal = refusal


class Claim(Generic[T]):
    """A statement ``with`` whose block alone uses something, which it gets.

    Runs refuse each other. Whoever reads or assigns is refused while a run is in progress; a run,
    and who assigns next, waits until they are ready.
    """

    def __init__(self, claims: Claims, lent: T, *, is_run: bool) -> None:
        """Claim what *claims* are on, and give the block *lent*."""
        self._claims, self._lent, self._is_run = claims, lent, is_run
        self._thread = threading.get_ident()
        self._frame: FrameType

    def __enter__(self) -> T:
        """Raise the refusal if a run has a claim."""
        self._frame = _owner_of(sys._getframe(1))
        claims = self._claims.claims
        claims[self] = None
        for earlier in tuple(claims):
            if earlier is self:
                break
            if earlier._is_run and not earlier._is_over():
                claims.pop(self, None)
                raise self._claims.refusal()
            while earlier._thread != self._thread and not earlier._is_over():
                time.sleep(SECONDS_BETWEEN_LOOKS)
        return self._lent

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the claim back."""
        self._claims.claims.pop(self, None)

    def _is_over(self) -> bool:
        """Return whether the claim was given back, or the function that made it has ended."""
        if self not in self._claims.claims:
            return True
        try:
            self._frame.clear()  # the one question that Python answers of frames of any thread
        except RuntimeError:
            return False  # it is being executed
        self._claims.claims.pop(self, None)
        return True


def _owner_of(frame: FrameType) -> FrameType:
    """Return the frame for which *frame* executes a ``with``: generators sleep in its block."""
    while frame.f_back is not None and (
        frame.f_code.co_flags & inspect.CO_GENERATOR or frame.f_globals["__name__"] == "contextlib"
    ):
        frame = frame.f_back
    return frame


def do_at_once(changes: Iterable[Callable[[], object]]) -> None:
    """Make all *changes*, functions of C with their arguments, which no signal comes between."""
    deque(map(operator.call, tuple(changes)), maxlen=0)
