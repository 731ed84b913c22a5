"""Requests over HTTP that are refused: the status that says of what kind the reason is."""

from __future__ import annotations

from glow_nb.base.errors import (
    DeadlineError,
    DeviceError,
    GlowError,
    MemoryLimitError,
    RefusedError,
)

_STATUS: tuple[tuple[type[GlowError], int], ...] = (
    (DeadlineError, 504),
    (DeviceError, 503),
    (MemoryLimitError, 503),
    (RefusedError, 503),
)


class Refusal(GlowError):
    """A request that is refused before a host sees it.

    Attributes:
        status: The status of the response.
    """

    def __init__(self, status: int, message: str) -> None:
        """Answer *message* with *status*."""
        super().__init__(message)
        self.status = status


def bad_request(message: str) -> Refusal:
    """Return the refusal of a request that says something wrong."""
    return Refusal(400, message)


def status_of(error: GlowError) -> int:
    """Return the status that a response about *error* has."""
    if isinstance(error, Refusal):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
