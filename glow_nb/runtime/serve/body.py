"""Bodies of requests, read as they come: not to the end if they are too large or too slow."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator

import numpy as np
from starlette.requests import Request
from typing_extensions import Buffer

from glow_nb.runtime.serve.body_memory import Share
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.refusal import Refusal, bad_request
from glow_nb.runtime.serve.tensors import Bytes

ALIGNMENT = 64
WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""The option of zlib that decodes each content coding."""
STEP_BYTES = 1 << 20
"""So much of a compressed body is expanded before it is looked whether there is memory for more."""


async def read_body(
    request: Request, limits: Limits, share: Share, header_bytes: int | None = None
) -> Bytes:
    """Return the body of *request*, with its compression undone; its memory comes from *share*.

    What is after its first *header_bytes* is aligned, so that arrays can lie in it.

    Raises:
        Refusal: It is larger than it says, or larger, slower or otherwise compressed than allowed,
            or all bodies together are too large.
        ClientDisconnect: The client goes away.
    """
    coding = _coding(request)
    declared = _declared_bytes(request, limits)
    try:
        async with asyncio.timeout(limits.body_seconds):
            raw = await _read(request, declared, limits, share, header_bytes)
    except TimeoutError as error:
        raise Refusal(
            408, f"the body did not come within {limits.body_seconds:g} s; send it faster"
        ) from error
    if coding is None:
        return raw
    # not here, where all other requests would wait for it
    return await asyncio.to_thread(_expanded, raw, coding, limits, share, header_bytes)


def _coding(request: Request) -> str | None:
    """Return how the body is compressed; None if it is not."""
    text = ",".join(request.headers.getlist("content-encoding"))
    named = [name.strip().lower().removeprefix("x-") for name in text.split(",")]
    codings = [name for name in named if name not in ("", "identity")]
    if not codings:
        return None
    if len(codings) > 1 or codings[0] not in WINDOW_BITS:
        raise Refusal(
            415, f"Content-Encoding is {text!r:.40}, but must be one of {', '.join(WINDOW_BITS)}"
        )
    return codings[0]


def _declared_bytes(request: Request, limits: Limits) -> int | None:
    text = request.headers.get("content-length")
    if text is None:
        return None
    declared = int(text)  # the server has parsed it
    if declared > limits.body_bytes:
        raise _too_large(str(declared), limits)
    return declared


async def _read(
    request: Request, declared: int | None, limits: Limits, share: Share, header_bytes: int | None
) -> Bytes:
    """Return the bytes that come, written where they will stay if their number is known."""
    if declared is None:
        chunks = bytearray()
        async for chunk in request.stream():
            if len(chunks) + len(chunk) > limits.body_bytes:
                raise _too_large(f"more than {limits.body_bytes}", limits)
            share.take(len(chunk))
            chunks += chunk
        return _placed(chunks, header_bytes)
    share.take(declared)
    memory = _place(declared, header_bytes)
    used = 0
    async for chunk in request.stream():
        if used + len(chunk) > declared:
            break
        memory[used : used + len(chunk)] = np.frombuffer(chunk, np.uint8)
        used += len(chunk)
    if used != declared:
        raise bad_request(f"the body has another length than Content-Length, {declared}, says")
    return memory


def _expanded(
    raw: Bytes, coding: str, limits: Limits, share: Share, header_bytes: int | None
) -> Bytes:
    """Return what *raw* is compressed from; never more than a body may have."""
    data = bytearray()
    try:
        for piece in _pieces(raw, coding):
            if len(data) + len(piece) > limits.body_bytes:
                raise _too_large(
                    f"more than {limits.body_bytes}", limits, " without its compression"
                )
            share.take(len(piece))
            data += piece
    except zlib.error as error:
        raise bad_request(f"the body is no {coding}: {error!s:.100}") from error
    return _placed(data, header_bytes)


def _pieces(raw: Bytes, coding: str) -> Iterator[bytes]:
    """Yield what *raw* is compressed from; raise Refusal at the end unless it is one whole."""
    undo, behind = zlib.decompressobj(WINDOW_BITS[coding]), 0
    for end in range(STEP_BYTES, len(raw) + STEP_BYTES, STEP_BYTES):
        rest: Buffer = raw[end - STEP_BYTES : end].data
        while not undo.eof and (piece := undo.decompress(rest, STEP_BYTES)):
            yield piece
            rest = undo.unconsumed_tail
        if undo.eof:
            behind = len(undo.unused_data) + max(0, len(raw) - end)
            break
    if not undo.eof:
        raise bad_request(f"the body is no whole {coding}: its end is missing")
    if behind:
        raise bad_request(
            f"the body has {behind} bytes after the end of its {coding}; send one piece"
        )


def _placed(data: bytearray, header_bytes: int | None) -> Bytes:
    memory = _place(len(data), header_bytes)
    memory[:] = np.frombuffer(data, np.uint8)
    return memory


def _place(size_bytes: int, header_bytes: int | None) -> Bytes:
    """Return memory for a body; what is after its header is aligned."""
    memory = np.empty(size_bytes + ALIGNMENT, np.uint8)
    begin = -(memory.ctypes.data + (header_bytes or 0)) % ALIGNMENT
    return memory[begin : begin + size_bytes]


def _too_large(size: str, limits: Limits, how: str = "") -> Refusal:
    return Refusal(
        413,
        f"the body has {size} bytes{how}, but the limit is {limits.body_bytes}; send "
        "smaller requests",
    )
