"""The messages between a process device and its process: small frames through a Unix socket.

A frame is 16 bytes, four 32-bit numbers in the order of the machine: what is said, of which
network, of which slot, and how many bytes of text follow. Arrays are not sent: they lie in
memory that both map (:mod:`glow_nb.runtime.devices.shared_memory`), and the descriptors of that
memory follow the frame ``LOAD``.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from glow_nb.base.errors import CompileError, FeedError, GlowError, MemoryLimitError, StateError
from glow_nb.runtime.devices.heartbeat import HEARTBEATS

_HEADER = struct.Struct("=IIII")
_DESCRIPTORS = 3


class Verb(IntEnum):
    """The kind of a frame: three orders to the process, its heartbeat, and its answers.

    ``UNLOAD`` has no answer.
    """

    LOAD = 1
    UNLOAD = 2
    RUN = 3
    ALIVE = 4
    LOADED = 5
    DONE = 6
    FAILED = 7


class Frame(NamedTuple):
    """One frame.

    Attributes:
        verb: The kind of message.
        network: The number of the network that it is about.
        slot: The slot of the run that it is about.
        text: The name of the network, for ``LOAD``; its open sizes, for ``RUN``; the error, for
            ``FAILED``.
    """

    verb: int
    network: int = 0
    slot: int = 0
    text: str = ""


class Channel:
    """One end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        """Send and receive messages through *connection*."""
        self._socket = connection
        self._sending = threading.Lock()

    def wait_at_most(self, seconds: float) -> None:
        """Let :meth:`receive` wait *seconds* seconds, and not forever."""
        # Not settimeout: Python would ask the system before each call whether it has to wait.
        whole, part = divmod(round(seconds / HEARTBEATS * 1e6), 1_000_000)
        pause = struct.pack("ll", whole, part)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, pause)

    def send(self, frame: Frame, descriptors: tuple[int, ...] = ()) -> None:
        """Send *frame*, and *descriptors* behind it; raise OSError if the other end has gone."""
        verb, network, slot, text = frame
        content = text.encode()
        with self._sending:
            self._socket.sendall(_HEADER.pack(verb, network, slot, len(content)) + content)
            if descriptors:
                socket.send_fds(self._socket, [b"\0"], descriptors)

    def receive(self) -> Frame | None:
        """Return the next frame; None if the other end has gone.

        Raises:
            TimeoutError: The other end was silent for so long as :meth:`wait_at_most` says.
        """
        try:
            header = self._exactly(_HEADER.size)
            if header is None:
                return None
            verb, network, slot, length = _HEADER.unpack(header)
            content = self._exactly(length) if length else b""
        except ConnectionResetError:
            return None
        return None if content is None else Frame(verb, network, slot, content.decode())

    def receive_descriptors(self) -> list[int]:
        """Return what was sent after a frame; the caller closes them."""
        _, descriptors, _, _ = socket.recv_fds(self._socket, 1, _DESCRIPTORS)
        return descriptors

    def _exactly(self, count: int) -> bytes | None:
        content = self._some(count)
        while 0 < len(content) < count:
            if not (more := self._some(count - len(content))):
                return None
            content += more
        return content or None

    def _some(self, most: int) -> bytes:
        for _ in range(HEARTBEATS):
            try:
                return self._socket.recv(most)
            except BlockingIOError:
                continue
        raise TimeoutError


_CARRIED = (GlowError, CompileError, FeedError, MemoryLimitError, StateError)
_KINDS = {kind.__name__: kind for kind in _CARRIED}


def text_of(error: GlowError) -> str:
    """Return *error* as text, of which :func:`error_of` makes one of the same kind."""
    kind = next(kind for kind in type(error).__mro__ if kind.__name__ in _KINDS)
    return f"{kind.__name__}\n{error}"


def error_of(text: str) -> GlowError:
    """Return the error that :func:`text_of` wrote."""
    kind, _, message = text.partition("\n")
    return _KINDS[kind](message)


def text_of_numbers(numbers: Iterable[int]) -> str:
    """Return *numbers* as text, of which :func:`numbers_of` makes them."""
    return " ".join(map(str, numbers))


def numbers_of(text: str) -> list[int]:
    """Return the numbers that :func:`text_of_numbers` wrote."""
    return [int(number) for number in text.split()]
