"""The limits of the server: sizes, times and numbers of requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of the size, the time and the number of requests.

    Attributes:
        body_bytes: The limit of a body, both as it is sent and decompressed.
        bodies_bytes: The limit of all bodies that are being received; a compressed one counts both
            as it is sent and decompressed.
        head_seconds: From the first byte of a connection, or from the end of its last response, to
            the end of the headers.
        body_seconds: From the headers to the end of the body.
        request_seconds: From the end of the body to the answer.
        linger_seconds: The time during which the data that a refused client still sends are
            discarded, so that the client can read the reason.
        reply_seconds: From when a client leaves some of a response untaken until it has taken all.
        in_flight: Requests that are read or computed at a time; more are refused.
        connections: Open at a time; more are refused.
        stop_seconds: For requests in flight when the server is stopped; then they are given up.
    """

    body_bytes: int = 64 << 20
    bodies_bytes: int = 512 << 20
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    request_seconds: float = 60.0
    linger_seconds: float = 2.0
    reply_seconds: float = 30.0
    in_flight: int = 256
    connections: int = 1024
    stop_seconds: float = 8.0
