"""What only shows on a connection: heads, lengths, closing, and how many there are."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import OptionError
from glow_nb.runtime.serve.connection import FRAMED_BYTES, Connection
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.server import listen
from tests.unit.runtime.serve.conftest import Served
from tests.unit.runtime.serve.live_server import all_from, exchange, live
from tests.unit.runtime.serve.requests import DOUBLE, JSON_LENGTH, binary, tensor
from tests.unit.runtime.small_networks import scaled

LIMITS = Limits(body_bytes=4096, body_seconds=0.4, head_seconds=0.4, connections=3)
BODY = json.dumps({"inputs": [tensor()]}).encode()


def post(body: bytes, length: int | None = None, *, path: str = DOUBLE) -> bytes:
    """Return a request over HTTP, after which the connection ends."""
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


@pytest.fixture
def port(served: Served) -> Iterator[int]:
    with live(served.models, LIMITS) as port:
        yield port


def test_a_request_is_answered(port: int) -> None:
    reply = exchange(port, post(BODY))
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert b'"data": [2.0, 4.0]' in reply


def test_no_answer_waits_until_the_client_acknowledges_its_head(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[int] = []
    made = Connection.connection_made

    def look(self: Connection, transport: asyncio.Transport) -> None:
        made(self, transport)
        connection = transport.get_extra_info("socket")
        delays.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(Connection, "connection_made", look)
    exchange(port, post(BODY))
    assert delays == [1]


@pytest.mark.parametrize("what", [b"GARBAGE\r\n\r\n", b"\x00\xff\r\n\r\n"])
def test_what_is_not_http_is_refused(port: int, what: bytes) -> None:
    reply = exchange(port, what)
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b'{"error": "the request is not HTTP as it should be' in reply


@pytest.mark.parametrize("begin", [b"", b"POST /v2/mod"])
def test_a_slow_head_is_refused(port: int, begin: bytes) -> None:
    reply = exchange(port, begin)
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b"the headers did not come within 0.4 s; send them faster" in reply


def test_a_slow_body_is_refused(port: int) -> None:
    reply = exchange(port, post(BODY[:5], 50))
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come within 0.4 s; send it faster" in reply


def test_a_connection_that_is_kept_alive_has_time_again(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, 10)
    for _ in range(3):
        connection.request("POST", DOUBLE, BODY)
        reply = connection.getresponse()
        assert (reply.status, len(reply.read()) > 0) == (200, True)
        time.sleep(0.3)
    connection.sock.sendall(post(BODY)[:20])
    late = http.client.HTTPResponse(connection.sock)
    late.begin()
    assert late.status == 408
    connection.close()


def test_the_client_of_a_body_that_is_too_large_reads_why(port: int) -> None:
    reply = exchange(port, post(bytes(3 << 20)))
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"the body has 3145728 bytes, but the limit is 4096" in reply


def test_a_cut_body_ends_its_connection_alone(port: int) -> None:
    assert b"200" not in exchange(port, post(BODY[:5], 50), ends=True)
    assert exchange(port, post(BODY)).startswith(b"HTTP/1.1 200 ")


def test_a_body_in_chunks_that_are_none_is_refused(port: int) -> None:
    head = f"POST {DOUBLE} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    reply = exchange(port, head + b"zz\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"the request is not HTTP as it should be" in reply
    assert exchange(port, post(BODY)).startswith(b"HTTP/1.1 200 ")


CHUNKED = f"POST {DOUBLE} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n".encode()


def in_chunks(body: bytes, size: int) -> bytes:
    """Return *body* in chunks of *size* bytes."""
    parts = [body[begin : begin + size] for begin in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_a_body_of_two_lengths_is_refused(port: int) -> None:
    """What one server takes for the body, another one takes for the next request."""
    hidden = b"GET /v2 HTTP/1.1\r\nHost: h\r\n\r\n"
    head = CHUNKED + f"Content-Length: {len(BODY)}\r\n\r\n".encode()
    reply = exchange(port, head + in_chunks(BODY, 100) + hidden)
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert reply.count(b"HTTP/1.1") == 1, "the connection is closed"
    assert b"it has both Content-Length and Transfer-Encoding; send one of them" in reply
    old = CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n" + in_chunks(BODY, 100)
    assert b"HTTP/1.0 has no Transfer-Encoding" in exchange(port, old)


@pytest.mark.parametrize(
    ("head", "status", "reason"),
    [
        (b"GET /v2 HTTP/2.0\r\nHost: h", b"505", b": send HTTP/1.1 or HTTP/1.0"),
        (b"GET /v2 HTTP/1.1\r\nHost: h\r\nA : b", b"400", b": illegal header line"),
        (b"GET /v2 HTTP/1.1", b"400", b": Missing mandatory Host: header"),
        (b"POST /v2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip", b"501", b": Only Transfer-En"),
    ],
)
def test_the_reason_of_a_refusal_is_said(
    port: int, head: bytes, status: bytes, reason: bytes
) -> None:
    reply = exchange(port, head + b"\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 " + status)
    assert b"the request is not HTTP as it should be" + reason in reply
    assert b"bytearray" not in reply


@pytest.mark.parametrize("server", [b"http://h", b"HTTP://user@h:80", b"https://[::1]:8000"])
def test_a_target_may_name_the_server(port: int, server: bytes) -> None:
    named = post(BODY).replace(b"POST /", b"POST " + server + b"/")
    assert exchange(port, named).startswith(b"HTTP/1.1 200 ")
    bare = b"GET " + server + b"?x=/v2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    assert exchange(port, bare).startswith(b"HTTP/1.1 404 ")


def test_a_head_that_is_too_large_is_refused(port: int) -> None:
    for fields in (b"A: %s\r\n" % (b"x" * 200_000), b"A: x\r\n" * 40_000):
        reply = exchange(port, b"GET /v2 HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n")
        assert reply.startswith(b"HTTP/1.1 431 ")


def test_requests_may_come_together(port: int) -> None:
    asked = post(BODY).replace(b"Connection: close\r\n", b"") * 20 + post(BODY)
    assert exchange(port, asked).count(b"HTTP/1.1 200 ") == 21


def test_what_must_be_parsed_is_read_in_small_pieces(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other connections have their turn between these."""
    sizes: list[int] = []
    received = Connection.data_received

    def look(self: Connection, data: bytes) -> None:
        sizes.append(len(data))
        received(self, data)

    monkeypatch.setattr(Connection, "data_received", look)
    padded = BODY + b" " * 60_000
    with live(served.models, replace(LIMITS, body_bytes=1 << 20, body_seconds=20.0)) as port:
        chunks = CHUNKED + b"Connection: close\r\n\r\n" + in_chunks(padded, 100)
        assert exchange(port, chunks).startswith(b"HTTP/1.1 200 ")
        assert max(sizes) <= FRAMED_BYTES
        assert exchange(port, post(padded)).startswith(b"HTTP/1.1 200 ")
        assert max(sizes) > FRAMED_BYTES


def test_a_body_that_is_nothing_but_chunks_is_refused(served: Served) -> None:
    limits = replace(LIMITS, body_bytes=1 << 20, body_seconds=20.0)
    padded = BODY + b" " * 60_000
    with live(served.models, limits) as port:
        head = CHUNKED + b"Connection: close\r\n\r\n"
        reply = exchange(port, head + in_chunks(padded, 1))
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert b"the chunks of the body are too small; send more bytes in each" in reply
        for sent in (in_chunks(padded, 2), in_chunks(BODY, 1), in_chunks(padded, 50_000)):
            assert exchange(port, head + sent).startswith(b"HTTP/1.1 200 ")


def test_too_many_connections_are_refused(port: int) -> None:
    held = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(3)]
    time.sleep(0.1)
    reply = exchange(port)
    assert reply.startswith(b"HTTP/1.1 503 ")
    assert b"more than 3 connections are open; try again later" in reply
    for connection in held:
        connection.close()
    time.sleep(0.1)
    assert exchange(port, post(BODY)).startswith(b"HTTP/1.1 200 ")


def test_a_response_that_is_not_taken_is_thrown_away(served: Served) -> None:
    """Its client would otherwise keep it, and the connection, as long as it likes."""
    glow_nb.save_text(scaled(1.0, rows=1 << 20), served.folder / "large.glow")
    served.models.load("large")
    raw = np.zeros((1 << 20, 2), np.float32)
    head = json.dumps({"inputs": [binary(raw)], "parameters": {"binary_data_output": True}})
    lines = (
        "POST /v2/models/large/infer HTTP/1.1",
        *("Host: h", f"{JSON_LENGTH}: {len(head)}", f"Content-Length: {len(head) + raw.nbytes}"),
    )
    request = "\r\n".join(lines).encode() + b"\r\n\r\n" + head.encode() + raw.tobytes()
    limits = replace(LIMITS, body_bytes=32 << 20, body_seconds=10.0, reply_seconds=0.3)
    with live(served.models, limits) as port:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(30)
            connection.connect(("127.0.0.1", port))
            connection.sendall(request)
            assert connection.recv(12) == b"HTTP/1.1 200"
            time.sleep(1.0)
            assert len(all_from(connection)) < raw.nbytes  # what the system had taken
        taken = exchange(port, request.replace(b"Host: h", b"Host: h\r\nConnection: close"))
        assert len(taken) > raw.nbytes


def test_a_port_that_is_taken_is_an_error(port: int) -> None:
    with pytest.raises(OptionError, match=f"127.0.0.1:{port}: cannot listen: .*choose another"):
        listen("127.0.0.1", port)
    with pytest.raises(OptionError, match="nowhere.invalid:1: cannot listen"):
        listen("nowhere.invalid", 1)


@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", "Content-Length: 100"])
def test_a_request_that_does_not_end_is_given_up_with_the_server(
    served: Served, length: str, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST {DOUBLE} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n{length}\r\n\r\n"
    limits = replace(LIMITS, body_seconds=60.0, stop_seconds=0.05)
    with socket.socket() as connection:
        connection.settimeout(10)
        with live(served.models, limits) as port:
            connection.connect(("127.0.0.1", port))
            connection.sendall(head.encode())
            assert connection.recv(21) == b"HTTP/1.1 100 Continue"  # the body is being read
            connection.sendall(b"9\r\n")
        reply = all_from(connection)
    assert b"HTTP/1.1 503 " in reply
    assert b"the server was stopped, and gave the request 0.05 s to end" in reply
    assert not caplog.records


def test_a_request_under_way_ends_before_the_server(served: Served) -> None:
    with live(served.models, replace(LIMITS, body_seconds=5.0)) as port:
        connection = socket.create_connection(("127.0.0.1", port), 10)
        connection.sendall(post(BODY)[:-5])
        time.sleep(0.2)
        threading.Timer(0.3, connection.sendall, (BODY[-5:],)).start()
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    connection.close()
