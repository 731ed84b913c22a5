"""Sizes in the text of a program: printed as what Python computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PRINTS_CODE = ContextVar("PRINTS_CODE", default=False)
"""Whether ``str(size)`` is what Python computes, and not the text of the IR."""


@contextmanager
def printed_as_code() -> Iterator[None]:
    """Let ``str(size)`` be what Python computes, as ``format`` is: inside of it code is written.

    The text of the IR, ``(height + 1)/2``, would be another number there.
    """
    before = PRINTS_CODE.set(True)
    try:
        yield
    finally:
        PRINTS_CODE.reset(before)
