"""A server on a port of its own, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.model_server import ModelServer
from glow_nb.runtime.serve.server import listen, make_server


@contextmanager
def live(models: ModelServer, limits: Limits) -> Iterator[int]:
    """Let *models* be served within *limits*; give the port."""
    listening = listen("127.0.0.1", 0)
    server = make_server(models, limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    port: int = listening.getsockname()[1]
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def exchange(port: int, *pieces: bytes, ends: bool = False, seconds: float = 10.0) -> bytes:
    """Send *pieces* over one connection and return all that comes until it is closed."""
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has closed its end, and may have said why
        return all_from(connection)


def all_from(connection: socket.socket) -> bytes:
    """Return all that comes from *connection* until it is closed."""
    received = bytearray()
    try:
        while piece := connection.recv(1 << 16):
            received += piece
    except ConnectionResetError:
        pass
    return bytes(received)
