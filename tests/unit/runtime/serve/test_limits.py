"""What the server refuses because it is too large, too slow, too much, or not allowed."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any

import pytest

from glow_nb.runtime.serve.application import application
from glow_nb.runtime.serve.infer_request import InferRequest, parse_infer_request
from glow_nb.runtime.serve.inference import LONG_JSON_BYTES
from glow_nb.runtime.serve.limits import Limits
from tests.unit.runtime.serve.asgi_client import Reply, call, call_async
from tests.unit.runtime.serve.conftest import Served
from tests.unit.runtime.serve.requests import DOUBLE, infer, tensor

BODY = json.dumps({"inputs": [tensor()]}).encode()


def test_a_body_that_says_it_is_too_large_is_refused_unread(served: Served) -> None:
    reply = call(served.app, "POST", DOUBLE, [b"x"] * 3, {"content-length": "5000"})
    assert (reply.status, reply.error) == (
        413,
        "the body has 5000 bytes, but the limit is 4096; send smaller requests",
    )
    assert reply.headers["connection"] == "close"


def test_a_body_that_becomes_too_large_is_refused(served: Served) -> None:
    reply = call(served.app, "POST", DOUBLE, [bytes(3000)] * 2, sends_length=False)
    assert reply.status == 413
    assert reply.error.startswith("the body has more than 4096 bytes, but the limit is 4096")


def test_a_body_of_another_length_than_it_says_is_refused(served: Served) -> None:
    for length in ("3", "4000"):
        reply = call(served.app, "POST", DOUBLE, BODY, {"content-length": length})
        assert (reply.status, reply.error) == (
            400,
            f"the body has another length than Content-Length, {length}, says",
        )


def test_a_slow_body_is_refused(served: Served) -> None:
    reply = call(served.app, "POST", DOUBLE, [BODY[:9], BODY[9:]], pause=1.0)
    assert (reply.status, reply.error) == (
        408,
        "the body did not come within 0.2 s; send it faster",
    )


def test_an_unknown_compression_is_refused(served: Served) -> None:
    reply = call(served.app, "POST", DOUBLE, BODY, {"content-encoding": "br"})
    assert (reply.status, reply.error) == (
        415,
        "Content-Encoding is 'br', but must be one of gzip, deflate",
    )
    assert reply.headers["accept-encoding"] == "gzip, deflate"
    for twice in ("gzip, gzip", "gzip,deflate", "gzip; q=1"):
        assert call(served.app, "POST", DOUBLE, BODY, {"content-encoding": twice}).status == 415


@pytest.mark.parametrize("coding", ["", " ", "identity", ",", "Identity, identity"])
def test_a_body_may_be_said_to_be_not_compressed(served: Served, coding: str) -> None:
    assert call(served.app, "POST", DOUBLE, BODY, {"content-encoding": coding}).status == 200


@pytest.mark.parametrize("coding", ["GZIP", "x-gzip", "identity, gzip", "gzip,"])
def test_a_compression_has_several_spellings(served: Served, coding: str) -> None:
    body = gzip.compress(BODY)
    assert call(served.app, "POST", DOUBLE, body, {"content-encoding": coding}).status == 200


def test_too_many_requests_are_refused(served: Served) -> None:
    async def crowd() -> list[Reply]:
        slow = [
            call_async(served.app, "POST", DOUBLE, [BODY[:9], BODY[9:]], pause=0.1)
            for _ in range(6)
        ]
        return await asyncio.gather(*slow)

    replies = asyncio.run(crowd())
    assert sorted(reply.status for reply in replies) == [200] * 4 + [503] * 2
    (error,) = {reply.error for reply in replies if reply.status == 503}
    assert error == "4 requests are in flight, of 4 at most; try again later"
    assert infer(served.app).status == 200


def test_bodies_that_are_too_large_together_are_refused(served: Served) -> None:
    app = application(served.models, Limits(body_bytes=4096, bodies_bytes=3 * len(BODY)))

    async def crowd() -> list[Reply]:
        slow = [call_async(app, "POST", DOUBLE, [BODY[:9], BODY[9:]], pause=0.1) for _ in range(5)]
        return await asyncio.gather(*slow)

    replies = asyncio.run(crowd())
    assert sorted(reply.status for reply in replies) == [200] * 3 + [503] * 2
    (error,) = {reply.error for reply in replies if reply.status == 503}
    used, size = 3 * len(BODY), len(BODY)
    assert error == (
        f"bodies of {used} bytes are in flight, {size} more would exceed the {used} allowed "
        "for all requests; try again later"
    )
    assert "glow_http_body_bytes 0.0" in call(app, "GET", "/metrics").body.decode().splitlines()
    assert infer(app).status == 200


def test_a_body_whose_length_comes_late_counts_as_it_comes(served: Served) -> None:
    app = application(served.models, Limits(body_bytes=1 << 20, bodies_bytes=1000))
    for headers, body in (
        ({}, [bytes(600)] * 2),
        ({"Content-Encoding": "gzip"}, [gzip.compress(bytes(100_000))]),
    ):
        reply = call(app, "POST", DOUBLE, body, headers, sends_length=False)
        assert reply.status == 503
        assert reply.headers["retry-after"] == "1"
    chunks = [BODY[:9], BODY[9:]]
    assert call(app, "POST", DOUBLE, chunks, sends_length=False).status == 200


def test_long_json_is_read_one_after_the_other(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes many times its size meanwhile."""
    reading = most = 0

    def counted(*arguments: Any) -> InferRequest:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        time.sleep(0.02)
        reading -= 1
        return parse_infer_request(*arguments)

    monkeypatch.setattr("glow_nb.runtime.serve.inference.parse_infer_request", counted)
    app = application(served.models, Limits())
    body = json.dumps({"inputs": [tensor()], "padding": "x" * LONG_JSON_BYTES}).encode()

    async def crowd() -> list[Reply]:
        return await asyncio.gather(*(call_async(app, "POST", DOUBLE, body) for _ in range(5)))

    assert [reply.status for reply in asyncio.run(crowd())] == [200] * 5
    assert most == 1


def test_a_client_that_goes_away_is_forgotten(served: Served) -> None:
    assert call(served.app, "POST", DOUBLE, [BODY[:9]], {"content-length": "99"}, leaves=True)
    assert infer(served.app).status == 200
    assert served.app.in_flight == 0


def test_a_token_is_required_for_all_but_health(served: Served) -> None:
    app = application(served.models, Limits(), token="secret")
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}):
        for path in ("/v2", "/metrics", "/nothing"):
            reply = call(app, "GET", path, headers=given)
            assert reply.status == 401
            assert "secret" not in reply.error
            assert reply.headers["www-authenticate"] == "Bearer"
    assert call(app, "GET", "/v2/health/live").status == 200
    assert call(app, "GET", "/v2", headers={"Authorization": "Bearer secret"}).status == 200
