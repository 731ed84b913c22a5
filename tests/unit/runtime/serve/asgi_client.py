"""A client that speaks to an application directly, without a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The text of a refusal."""
        error: str = self.json["error"]
        return error


def call(
    app: ASGIApp,
    method: str,
    path: str,
    body: bytes | Iterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    *,
    pause: float = 0.0,
    sends_length: bool = True,
    leaves: bool = False,
) -> Reply:
    """Send a request and return the reply.

    A body of several chunks has *pause* seconds before each but the first; a client that *leaves*
    is gone when it has sent the last one.
    """
    return asyncio.run(
        call_async(
            app,
            method,
            path,
            body,
            headers,
            pause=pause,
            sends_length=sends_length,
            leaves=leaves,
        )
    )


async def call_async(
    app: ASGIApp,
    method: str,
    path: str,
    body: bytes | Iterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    *,
    pause: float = 0.0,
    sends_length: bool = True,
    leaves: bool = False,
) -> Reply:
    """Do what :func:`call` does in an event loop."""
    chunks = [body] if isinstance(body, bytes) else list(body)
    given = {name.lower(): value for name, value in (headers or {}).items()}
    if sends_length and any(chunks):
        given.setdefault("content-length", str(sum(map(len, chunks))))
    elif any(chunks):
        given.setdefault("transfer-encoding", "chunked")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path.partition("?")[0]),
        "raw_path": path.encode(),
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": [(n.encode("latin-1"), v.encode("latin-1")) for n, v in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    sent: list[Message] = []
    ended = asyncio.Event()
    position = 0

    async def receive() -> Message:
        nonlocal position
        if position == len(chunks):
            if not leaves:
                await ended.wait()
            return {"type": "http.disconnect"}
        if position:
            await asyncio.sleep(pause)
        chunk = chunks[position]
        position += 1
        more = position < len(chunks)
        return {"type": "http.request", "body": chunk, "more_body": more}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    ended.set()
    if not sent:
        return Reply(0, {}, b"")
    start, *rest = sent
    fields = {name.decode(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], fields, b"".join(m.get("body", b"") for m in rest))
