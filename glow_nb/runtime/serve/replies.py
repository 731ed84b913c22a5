"""Responses over HTTP: JSON, and what was wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from glow_nb.base.errors import GlowError
from glow_nb.runtime.serve.body import WINDOW_BITS
from glow_nb.runtime.serve.refusal import status_of

BUSY_SECONDS = "1"
"""When a client may try again that was refused because too much was going on."""

_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    415: {"Accept-Encoding": ", ".join(WINDOW_BITS)},
    503: {"Retry-After": BUSY_SECONDS},
}
"""What responses of a status have besides their text."""


def json_response(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response that is *content* in JSON.

    All of it is ASCII: a name of a file may have bytes that are no text, and UTF-8 has none for
    what Python makes of them.
    """
    return Response(json.dumps(content), status, headers, media_type="application/json")


def refused(error: GlowError) -> Response:
    """Return the response about *error*."""
    return error_response(status_of(error), str(error))


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response with *status* that says *message*."""
    return json_response(
        {"error": message}, status, {**_HEADERS.get(status, {}), **(headers or {})}
    )


async def glow_error(_: Request, error: Exception) -> Response:
    """Answer an error of ours."""
    assert isinstance(error, GlowError)
    return refused(error)


async def no_such_page(request: Request, error: Exception) -> Response:
    """Answer a request for what the server does not have."""
    assert isinstance(error, HTTPException)
    place = f"{request.method} {request.url.path}"
    what = "there is no such method there" if error.status_code == 405 else "there is nothing there"
    return error_response(
        error.status_code,
        f"{place:.120}: {what}; GET /v2 says which extensions there are",
        error.headers,
    )


async def nobody_there(_: Request, __: Exception) -> Response:
    """Answer a client that has disconnected, only for the count of statuses."""
    return error_response(499, "the client has gone away")


async def internal_error(_: Request, __: Exception) -> Response:
    """Answer after a bug of the server; the details are in the log, and not in the answer."""
    return error_response(500, "the server has a bug; its log says where")
