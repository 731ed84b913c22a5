"""A server on a port, until it is stopped."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import time
from collections.abc import Iterator
from types import FrameType

import uvicorn
from typing_extensions import override

from glow_nb.base.errors import OptionError
from glow_nb.runtime.serve.application import application
from glow_nb.runtime.serve.connection import connection_within
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.model_server import ModelServer

KEEP_ALIVE_SECONDS = 5
WAITING = 128
"""Connections that the system holds until they are accepted."""
LEFT_OVER_SECONDS = 1
"""What connections have to close when their requests are given up."""


class Server(uvicorn.Server):
    """A server that knows since when it is to stop.

    Attributes:
        stopped: When that began, by ``time.monotonic``; None until then.
    """

    stopped: float | None = None

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.stopped = time.monotonic()
        await super().shutdown(sockets)


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens at *address* alone; port 0 means any that is free.

    Raises:
        OptionError: That is impossible.
    """
    try:
        (family, *_, place), *_ = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server(place[:2], family=family, backlog=WAITING)
    except (OSError, UnicodeError) as error:  # a name of a host that cannot be one
        reason = error.strerror if isinstance(error, OSError) else error
        raise OptionError(
            f"{address}:{port}: cannot listen: {reason}; choose another address or port"
        ) from error


def make_server(
    models: ModelServer, limits: Limits | None = None, token: str | None = None
) -> Server:
    """Return the server of *models*; ``run(sockets=[...])`` lets it answer."""
    limits = limits or Limits()
    return Server(
        uvicorn.Config(
            application(models, limits, token),
            http=connection_within(limits),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            log_level="error",  # clients get the errors of their requests
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=math.ceil(limits.stop_seconds) + LEFT_OVER_SECONDS,
        )
    )


def serve(server: Server, listening: socket.socket) -> float:
    """Let *server* answer requests on *listening* until SIGINT or SIGTERM.

    Then no connection is accepted any more, and what is in flight has ``limits.stop_seconds`` to
    end; a second SIGINT ends it at once. The host stays open.

    Returns:
        How many seconds ago that began.
    """
    with _signals_stop(server):
        server.run(sockets=[listening])
    return 0.0 if server.stopped is None else time.monotonic() - server.stopped


@contextlib.contextmanager
def _signals_stop(server: Server) -> Iterator[None]:
    """Let a signal stop *server* and nothing else: uvicorn sends it again when it has stopped."""

    def stop(_: int, __: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
