"""Requests of all kinds that are wrong: each gets one clear answer, and the server goes on."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from glow_nb.runtime.serve.application import application
from glow_nb.runtime.serve.limits import Limits
from tests.unit.runtime.serve.asgi_client import Reply, call_async
from tests.unit.runtime.serve.conftest import Served
from tests.unit.runtime.serve.live_server import exchange, live
from tests.unit.runtime.serve.requests import DOUBLE, JSON_LENGTH, infer

LIMITS = Limits(
    body_bytes=4096,
    head_seconds=0.2,
    body_seconds=0.1,
    request_seconds=20.0,
    linger_seconds=0.1,
    in_flight=100,
)
AT_A_TIME = 50
PATHS = (
    *(DOUBLE, "/v2/models/scaled/versions/2/infer", "/v2/models/scaled/versions/02/infer"),
    *("/v2/models/nothing/infer", "/v2/models/..%2f..%2fetc/infer", "/v2/models/%00/infer", "/"),
    *("/v2/repository/index", "/v2/repository/models/double/load", "/v2/models//infer"),
)
SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 1.5, 1e400, 10**30, -(2**63), "", "x", "FP32", "BYTES"),
    *("\ud800", "../x", "a" * 300, [], {}, [[]], [1, 2], [1, -2], {"name": "x"}, [None]),
)
STATUSES = {200, 400, 404, 405, 408, 411, 413, 415, 499, 503, 504}


@dataclass
class Wrong:
    """A request, mostly with something wrong in it."""

    method: str = "POST"
    path: str = DOUBLE
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    pause: float = 0.0
    leaves: bool = False

    @property
    def pieces(self) -> list[bytes]:
        """The body as it is sent."""
        ends = [0, *sorted(self.cuts), len(self.body)]
        return [self.body[a:b] for a, b in pairwise(ends)]


def changed(value: Any, chance: random.Random) -> Any:
    """Return *value* with something in it replaced, dropped or put twice."""
    if chance.random() < 0.25:
        return chance.choice(SCALARS)
    if isinstance(value, dict) and value:
        key = chance.choice(list(value))
        rest = {k: v for k, v in value.items() if k != key}
        return rest if chance.random() < 0.2 else {**rest, key: changed(value[key], chance)}
    if isinstance(value, list) and value:
        place = chance.randrange(len(value))
        middle = [value[place]] * 2 if chance.random() < 0.2 else [changed(value[place], chance)]
        return [*value[:place], *middle, *value[place + 1 :]]
    return chance.choice(SCALARS)


def request_with(raw_bytes: int) -> dict[str, Any]:
    """Return a request that is right but for what lies after it."""
    tensor: dict[str, Any] = {"name": "x", "shape": [1, 2], "datatype": "FP32"}
    if raw_bytes:
        tensor["parameters"] = {"binary_data_size": raw_bytes}
    else:
        tensor["data"] = [[1.0, 2.0]]
    return {
        "id": "seven",
        "inputs": [tensor],
        "outputs": [{"name": "y", "parameters": {"binary_data": bool(raw_bytes)}}],
        "parameters": {"priority": 1, "timeout": 20_000_000},
    }


def wrong_request(chance: random.Random) -> Wrong:
    """Return a request at random."""
    size = chance.choice((0, 0, 8, 8, 4, 12, 0, 5000))
    fields = request_with(size)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        fields = changed(fields, chance)
    head = json.dumps(fields).encode()
    made = Wrong(body=head + chance.randbytes(size))
    if size:
        made.headers[JSON_LENGTH] = chance.choice(
            (*[str(len(head))] * 6, "0", "9999", "-1", "x", "1" * 30, str(len(head) // 2), "٣")
        )
    if chance.random() < 0.8:
        chance.choice(SPOILERS)(made, chance)
    return made


def _send_noise(made: Wrong, chance: random.Random) -> None:
    made.body = chance.randbytes(chance.randrange(200))


def _cut(made: Wrong, chance: random.Random) -> None:
    made.body = made.body[: chance.randrange(len(made.body) + 1)]


def _go_elsewhere(made: Wrong, chance: random.Random) -> None:
    made.path = chance.choice(PATHS)


def _use_a_method(made: Wrong, chance: random.Random) -> None:
    made.method = chance.choice(("GET", "PUT", "DELETE", "HEAD", "POST", "NONE"))


def _say_it_is_compressed(made: Wrong, chance: random.Random) -> None:
    made.headers["Content-Encoding"] = chance.choice(("gzip", "deflate", "br", "identity"))


def _lie_about_the_length(made: Wrong, chance: random.Random) -> None:
    made.headers["Content-Length"] = chance.choice(("0", "5", "4000", "99999999"))
    made.leaves = chance.random() < 0.5


def _send_in_pieces(made: Wrong, chance: random.Random) -> None:
    made.cuts = [chance.randrange(len(made.body) + 1) for _ in range(3)]
    made.pause = chance.choice((0.0, 0.0, 0.0, 0.06))
    made.leaves = chance.random() < 0.2


def _nest(made: Wrong, chance: random.Random) -> None:
    made.body = b"[" * chance.choice((100, 3000)) + made.body


SPOILERS: tuple[Callable[[Wrong, random.Random], None], ...] = (
    *(_send_noise, _cut, _go_elsewhere, _use_a_method, _say_it_is_compressed),
    *(_lie_about_the_length, _send_in_pieces, _nest),
)


def check(status: int, body: bytes, request: Wrong) -> None:
    """Check that an answer is one that a client can use."""
    assert status in STATUSES, (request, status, body)
    if status != 200 and request.method != "HEAD":
        error = json.loads(body)["error"]
        assert error, request
        assert len(error) < 1000, request
        assert "Traceback" not in error, request


async def ask(app: Any, request: Wrong) -> Reply:
    return await call_async(
        app,
        request.method,
        request.path,
        request.pieces,
        {name: value.encode().decode("latin-1") for name, value in request.headers.items()},
        pause=request.pause,
        leaves=request.leaves,
    )


COUNTS = [300, pytest.param(18_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_each_request_gets_a_clear_answer(served: Served, count: int) -> None:
    app = application(served.models, LIMITS)
    chance = random.Random(count)

    async def ask_all() -> list[tuple[Wrong, Reply]]:
        pairs: list[tuple[Wrong, Reply]] = []
        while len(pairs) < count:
            some = [wrong_request(chance) for _ in range(AT_A_TIME)]
            replies = await asyncio.gather(*(ask(app, request) for request in some))
            pairs += zip(some, replies, strict=True)
        return pairs

    statuses = set()
    for request, reply in asyncio.run(ask_all()):
        check(reply.status, reply.body, request)
        statuses.add(reply.status)
    assert statuses >= {200, 400, 404, 405, 408, 413, 415}
    assert app.in_flight == 0
    assert infer(app).json["outputs"][0]["data"] == [2.0, 4.0]


def on_the_wire(request: Wrong) -> bytes:
    """Return what a client sends for *request*."""
    headers = {"Host": "h", "Content-Length": str(len(request.body)), "Connection": "close"}
    lines = [f"{name}: {value}" for name, value in {**headers, **request.headers}.items()]
    head = "\r\n".join((f"{request.method} {request.path} HTTP/1.1", *lines))
    return head.encode() + b"\r\n\r\n" + request.body


def converse(port: int, seed: int) -> None:
    """Send a request at random over a connection of its own, whole or in part."""
    chance = random.Random(seed)
    request = wrong_request(chance)
    sent = on_the_wire(request)
    if is_cut := chance.random() < 0.3:
        sent = sent[: chance.randrange(len(sent))]
    if is_garbled := chance.random() < 0.1:
        sent = chance.randbytes(20) + sent
    # who ends its side has gone away, and gets no answer
    ends = is_cut and chance.random() < 0.7
    head, _, body = exchange(port, sent, ends=ends).partition(b"\r\n\r\n")
    if head:
        check(int(head.split()[1]), body, request)
    else:
        assert is_cut or is_garbled or "Content-Length" in request.headers, request


@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.slow)])
def test_each_connection_gets_a_clear_answer_or_ends(served: Served, count: int) -> None:
    with live(served.models, LIMITS) as port, ThreadPoolExecutor(16) as clients:
        for done in [clients.submit(converse, port, seed) for seed in range(count)]:
            done.result()
        good = on_the_wire(Wrong(body=json.dumps(request_with(0)).encode()))
        assert exchange(port, good).startswith(b"HTTP/1.1 200 ")
