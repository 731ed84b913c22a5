"""HTTP/1.1 as the server reads it: what a careful server refuses, and work that is bounded."""

from __future__ import annotations

import re

import h11
from typing_extensions import override

FREE_BYTES = 1 << 16
"""Bytes of the frame around a body in chunks that are always allowed."""
MOST_FRAME = 3
"""The most bytes of the frame for each byte of the body; chunks of two bytes have 2.5."""

_ORIGIN = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


class RequestParser(h11.Connection):
    """The side of a server, with rules of RFC 9112 that h11 leaves to it.

    Attributes:
        refusal: The fault in the request that was refused, with the status.
    """

    def __init__(self) -> None:
        """Wait for a request."""
        super().__init__(h11.SERVER)
        self.refusal = (400, "")
        self._is_counted = False
        self._frame_bytes = 0

    @property
    def reads_counted_body(self) -> bool:
        """Return whether bytes of a body of known length come: they are copied, not parsed."""
        return self._is_counted and self.their_state is h11.SEND_BODY

    @override
    def receive_data(self, data: bytes) -> None:
        if self.their_state is h11.SEND_BODY and not self._is_counted:
            self._frame_bytes += len(data)
        super().receive_data(data)

    @override
    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            event = super().next_event()
            if isinstance(event, h11.Data):
                self._frame_bytes -= (1 + MOST_FRAME) * len(event.data)
                self._check_frame()
            elif isinstance(event, h11.Request):
                event = self._checked(event)
        except h11.RemoteProtocolError as error:
            reason = str(error).partition(": bytearray(")[0]  # which line it was is not repeated
            self.refusal = (error.error_status_hint, reason)
            raise
        return event

    def _check_frame(self) -> None:
        """Raise RemoteProtocolError if reading the body is all work and no body."""
        if self._frame_bytes > FREE_BYTES:
            raise h11.RemoteProtocolError(
                "the chunks of the body are too small; send more bytes in each"
            )

    def _checked(self, request: h11.Request) -> h11.Request:
        """Return *request* with its target in origin form; raise RemoteProtocolError if it lies."""
        if request.http_version not in (b"1.0", b"1.1"):
            raise h11.RemoteProtocolError("send HTTP/1.1 or HTTP/1.0", error_status_hint=505)
        names = {name for name, _ in request.headers}
        self._is_counted = b"content-length" in names
        self._frame_bytes = 0
        if b"transfer-encoding" in names:
            if self._is_counted:
                raise h11.RemoteProtocolError(
                    "it has both Content-Length and Transfer-Encoding; send one of them"
                )
            if request.http_version == b"1.0":
                raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")
        if (origin := _ORIGIN.match(request.target)) is None:
            return request
        target = request.target[origin.end() :]
        return h11.Request(
            method=request.method,
            headers=request.headers,
            target=target if target.startswith(b"/") else b"/" + target,
            http_version=request.http_version,
        )
