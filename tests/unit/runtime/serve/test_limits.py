"""What the server refuses because it is too large, too slow, too much, or not allowed."""

from __future__ import annotations

import asyncio
import json

from glow_nb.runtime.serve.application import application
from glow_nb.runtime.serve.limits import Limits
from tests.unit.runtime.serve.asgi_client import Reply, call, call_async
from tests.unit.runtime.serve.conftest import Served
from tests.unit.runtime.serve.requests import DOUBLE, infer, tensor

BODY = json.dumps({"inputs": [tensor()]}).encode()


def test_a_body_that_says_it_is_too_large_is_refused_unread(served: Served) -> None:
    reply = call(served.app, "POST", DOUBLE, [b"x"] * 3, {"content-length": "5000"})
    assert (reply.status, reply.error) == (
        413,
        "the body has 5000 bytes, but may have 4096; send less at a time",
    )
    assert reply.headers["connection"] == "close"


def test_a_body_that_becomes_too_large_is_refused(served: Served) -> None:
    reply = call(served.app, "POST", DOUBLE, [bytes(3000)] * 2, sends_length=False)
    assert reply.status == 413
    assert reply.error.startswith("the body has more than 4096 bytes, but may have 4096")


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
    assert error == "4 requests are under way, of 4 at most; try again later"
    assert infer(served.app).status == 200


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
