"""The guard before all pages: it asks for the token, and limits how many requests there are."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.refusal import Refusal
from glow_nb.runtime.serve.replies import refused

HEALTH = "/v2/health/"
"""Paths that anybody may ask, at any time: they are for what starts and stops the server."""
METRICS = "/metrics"


class Guard:
    """An application that lets through to another one what may pass.

    Attributes:
        in_flight: Requests that are read or computed now.
        responses: The number of responses, by status.
    """

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None = None) -> None:
        """Guard *app*; if there is a *token*, requests must have it as bearer token."""
        self._app, self._limits = app, limits
        self._token = None if token is None else token.encode()
        self.in_flight = 0
        self.responses: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass another message on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self.responses, self._limits.linger_seconds)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refused(refusal)(scope, exchange.receive, exchange.send)
            return
        self.in_flight += 1
        try:
            await self._app(scope, exchange.receive, exchange.send)
        finally:
            self.in_flight -= 1

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Return why the request may not pass; None if it may."""
        if scope["path"].startswith(HEALTH):
            return None
        if not self._has_token(scope):
            return Refusal(
                401,
                "the request lacks the token of this server; send it as "
                "'Authorization: Bearer TOKEN'",
            )
        if self.in_flight >= self._limits.in_flight and scope["path"] != METRICS:
            return Refusal(
                503,
                f"{self.in_flight} requests are in flight, of {self._limits.in_flight} at most; "
                "try again later",
            )
        return None

    def _has_token(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        kind, _, token = given.partition(b" ")
        return hmac.compare_digest(token.strip(), self._token) and kind.lower() == b"bearer"


@dataclass
class _Exchange:
    """A request and its response, which may come before the body has been read."""

    scope: Scope
    from_client: Receive
    to_client: Send
    responses: MutableMapping[int, int]
    linger_seconds: float
    is_read: bool = False
    status: int = 0

    def __post_init__(self) -> None:
        names = {name for name, value in self.scope["headers"] if value != b"0"}
        self.is_read = not names & {b"content-length", b"transfer-encoding"}

    async def receive(self) -> Message:
        """Return what comes next, and note the end of the body."""
        message = await self.from_client()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.is_read = True
        return message

    async def send(self, message: Message) -> None:
        """Send *message*; where the body is not read to its end, the connection ends with it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.responses[self.status] = self.responses.get(self.status, 0) + 1
            if not self.is_read:
                message["headers"] = [*message["headers"], (b"connection", b"close")]
        elif not self.is_read and not message.get("more_body", False):
            await self.to_client({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b""}
        await self.to_client(message)

    async def _drain(self) -> None:
        """Throw away what the client sends: a connection closed on it loses the response."""
        try:
            async with asyncio.timeout(self.linger_seconds):
                while not self.is_read:
                    await self.receive()
        except TimeoutError:
            pass
