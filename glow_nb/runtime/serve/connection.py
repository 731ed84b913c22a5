"""Connections to the server: how many there are, how long they take, how much is read at once."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from glow_nb.base.errors import bounded
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.request_parser import RequestParser

BODY_BYTES = 1 << 18
"""So much of a body whose length is known is read at once."""
FRAMED_BYTES = 1 << 13
"""So much of what must be parsed: chunks of one byte take 10 ms, then other connections go on."""


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """A connection that is closed when it brings no whole head of a request in time.

    It is closed, too, when its client does not take a response in time: until then, the response is
    in our memory.
    """

    limits = Limits()
    """The limits of the server; a subclass has its own."""
    conn: RequestParser
    _late: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None
    _stopping: asyncio.TimerHandle | None = None
    _read = bytearray()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Be what uvicorn makes, with a parser of ours."""
        super().__init__(*arguments, **named)
        self.conn = RequestParser()

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Head and body are written one after the other. asyncio sets this only where the socket
        # names its protocol, which that of socket.create_server does not.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(0)  # writing pauses as soon as something is not taken
        most = self.limits.connections
        if len(self.connections) > most:
            self._refuse(503, f"more than {most} connections are open; try again later")
        else:
            self._wait_for_head()

    @override
    def get_buffer(self, sizehint: int) -> bytearray:
        self._read = bytearray(BODY_BYTES if self.conn.reads_counted_body else FRAMED_BYTES)
        return self._read

    @override
    def buffer_updated(self, nbytes: int) -> None:
        data, self._read = bytes(memoryview(self._read)[:nbytes]), bytearray()
        self.data_received(data)

    @override
    def data_received(self, data: bytes) -> None:
        if self._late is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_head()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._end_untaken()
        if self._stopping is not None:
            self._stopping.cancel()
        super().connection_lost(exc)

    @override
    def shutdown(self) -> None:
        super().shutdown()
        if not self.transport.is_closing():
            self._stopping = self.loop.call_later(self.limits.stop_seconds, self._end)

    def _end(self) -> None:
        """End what is in flight, since the server has been stopped some time ago."""
        seconds = self.limits.stop_seconds
        self._refuse(503, f"the server was stopped, and gave the request {seconds:g} s to end")
        self.transport.abort()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken = self.loop.call_later(self.limits.reply_seconds, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        self._end_untaken()
        super().resume_writing()

    def _end_untaken(self) -> None:
        """Know that nothing waits to be taken by the client any more."""
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    @override
    def send_400_response(self, msg: str) -> None:
        status, reason = self.conn.refusal
        self._refuse(status, bounded(f"the request is not HTTP as it should be: {reason or msg}"))

    def _wait_for_head(self) -> None:
        seconds = self.limits.head_seconds
        message = f"the headers did not come within {seconds:g} s; send them faster"
        self._late = self.loop.call_later(seconds, self._refuse, 408, message)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, status: int, message: str) -> None:
        """Say why the connection is closed, unless a response is being sent, and close it."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = json.dumps({"error": message}).encode()
            head = (
                f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()


def connection_within(limits: Limits) -> type[Connection]:
    """Return the connections of a server with *limits*."""
    members: dict[str, Any] = {"limits": limits}
    return type("LimitedConnection", (Connection,), members)
