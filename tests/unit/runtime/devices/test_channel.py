"""Frames arrive whole and in order, or not at all."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from glow_nb.base.errors import CompileError, GlowError, MemoryLimitError, VerifyError
from glow_nb.runtime.devices.channel import Channel, Frame, Verb, error_of, text_of


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ends = socket.socketpair()
    yield ends
    for end in ends:
        end.close()


def test_frames_in_order(ends: tuple[socket.socket, socket.socket]) -> None:
    frames = [
        Frame(Verb.RUN, 3, 1),
        Frame(Verb.FAILED, (1 << 32) - 1, 0, "ein Übel\n" * 20_000),
        Frame(Verb.ALIVE),
    ]
    ours, theirs = map(Channel, ends)
    sender = threading.Thread(target=lambda: list(map(ours.send, frames)))
    sender.start()
    assert [theirs.receive() for _ in frames] == frames
    sender.join()


@pytest.mark.parametrize("sent", [0, 1, 15, 16, 18])
def test_the_other_end_goes_in_the_middle(
    ends: tuple[socket.socket, socket.socket], sent: int
) -> None:
    ours, theirs = ends
    whole = threading.Thread(target=Channel(ours).send, args=(Frame(Verb.LOAD, text="net"),))
    whole.start()
    content = theirs.recv(1000)
    whole.join()
    again, last = socket.socketpair()
    again.sendall(content[:sent])
    again.close()
    assert Channel(last).receive() is None
    last.close()


def test_descriptors_follow_their_frame(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = map(Channel, ends)
    (tmp_path / "file").write_text("content")
    with (tmp_path / "file").open() as file:
        ours.send(Frame(Verb.LOAD, 7), (file.fileno(), file.fileno()))
        ours.send(Frame(Verb.RUN, 7))
    assert theirs.receive() == Frame(Verb.LOAD, 7)
    first, second = theirs.receive_descriptors()
    assert os.read(first, 100) == b"content"
    assert theirs.receive() == Frame(Verb.RUN, 7)
    os.close(first)
    os.close(second)


def test_errors_keep_their_kind() -> None:
    for error in (CompileError("a\nb"), MemoryLimitError(""), GlowError("x")):
        read = error_of(text_of(error))
        assert (type(read), str(read)) == (type(error), str(error))
    other = error_of(text_of(VerifyError("node", "is wrong")))
    assert (type(other), str(other)) == (GlowError, "'node': is wrong")
