"""Inference over HTTP: the body becomes arrays, a host runs them, and its answer becomes a body."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from glow_nb.base.errors import DeadlineError, OptionError, RefusedError
from glow_nb.base.types import Array
from glow_nb.runtime.serve.body import read_body
from glow_nb.runtime.serve.body_memory import BodyMemory, Share
from glow_nb.runtime.serve.infer_request import InferRequest, parse_infer_request
from glow_nb.runtime.serve.infer_response import infer_response
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.model_server import ModelServer, ServedModel
from glow_nb.runtime.serve.refusal import bad_request
from glow_nb.runtime.serve.rows import run_in_pieces
from glow_nb.runtime.serve.tensors import Bytes

JSON_LENGTH = "Inference-Header-Content-Length"
LONG_JSON_BYTES = 1 << 16
"""JSON that is longer is read and written on another thread, so that other requests go on.

Reading takes up to 30 times its size, as for ``[{},{},...]``, and keeps other threads of Python
waiting, so that one after the other is as fast as all at a time."""


class Inference:
    """Runs requests for inference on the models of a server."""

    def __init__(self, models: ModelServer, limits: Limits, bodies: BodyMemory) -> None:
        """Run on *models* what is within *limits*, with *bodies* as memory for what is sent."""
        self._models, self._limits, self._bodies = models, limits, bodies
        self._reading = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        """Answer *request*; its path names the model, and may name the version."""
        with self._bodies.share() as share:
            return await self._answer_within(request, share)

    async def _answer_within(self, request: Request, share: Share) -> Response:
        name, version = request.path_params["name"], request.path_params.get("version")
        self._models.find(name, version)  # before a body is read for nothing
        json_bytes = _json_bytes(request)
        body = await read_body(request, self._limits, share, json_bytes)
        while True:
            model = self._models.find(name, version)
            call = await self._parsed(model, body, json_bytes)
            try:
                future = self._submitted(model, call)
            except (OptionError, RefusedError):
                if self._models.find(name, version) is model:
                    raise
                continue  # it was loaded anew meanwhile
            break
        outputs = await self._answer(request, future, call)
        return await _response(model, call, outputs)

    async def _parsed(
        self, model: ServedModel, body: Bytes, json_bytes: int | None
    ) -> InferRequest:
        """Return what *body* asks of *model*; long JSON is read alone, since it takes memory."""
        parse = partial(parse_infer_request, body, json_bytes, model.inputs, model.outputs)
        if (len(body) if json_bytes is None else json_bytes) <= LONG_JSON_BYTES:
            return parse()
        async with self._reading:
            return await asyncio.to_thread(parse)

    def _submitted(
        self, model: ServedModel, call: InferRequest
    ) -> asyncio.Future[dict[str, Array]]:
        """Let the host run *call*, in pieces if it has more rows than run together."""
        if model.max_rows and _rows_of(model, call) > model.rows_of_a_run:
            submit = partial(self._submit, model, call)
            return run_in_pieces(submit, call.inputs, model.rows_of_a_run)
        return self._submit(model, call, call.inputs)

    def _submit(
        self, model: ServedModel, call: InferRequest, inputs: Mapping[str, Array]
    ) -> asyncio.Future[dict[str, Array]]:
        return asyncio.wrap_future(
            self._models.host.submit(
                model.network,
                inputs,
                priority=call.priority,
                deadline=self._limits.request_seconds,
            )
        )

    async def _answer(
        self, request: Request, future: asyncio.Future[dict[str, Array]], call: InferRequest
    ) -> dict[str, Array]:
        """Return the outputs, unless the client does not wait for them so long.

        Raises:
            DeadlineError: The client's time is over.
            ClientDisconnect: The client has gone away.
            GlowError: The answer of the host is an error.
        """
        # A client's impatience is no deadline of the host, which kills devices that miss it.
        gone = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait(
                (future, gone), timeout=call.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if future.done():
                return future.result()
            if gone.done():
                raise ClientDisconnect
            raise DeadlineError(f"the request has no answer after its timeout of {call.seconds} s")
        finally:
            gone.cancel()
            future.cancel()


def _rows_of(model: ServedModel, call: InferRequest) -> int:
    """Return how many rows *call* has; raise Refusal if *model* does not take so many."""
    counts = {name: len(array) for name, array in call.inputs.items()}
    if counts.keys() != model.inputs.keys():  # the host says which are missing
        return 1
    least, most = min(counts.values()), max(counts.values())
    if least != most:
        raise bad_request(
            f"the inputs have different numbers of rows: {counts}; give the same number for each"
        )
    if not 1 <= most <= model.max_rows:
        raise bad_request(
            f"the inputs have {most} rows, but the model takes 1 to {model.max_rows} in a request; "
            "send them in several requests"
        )
    return most


async def _response(model: ServedModel, call: InferRequest, outputs: dict[str, Array]) -> Response:
    is_long = any(
        outputs[name].nbytes > LONG_JSON_BYTES
        for name, as_bytes in call.outputs.items()
        if not as_bytes
    )
    make = partial(
        infer_response, model.file.name, model.file.version, call.id, outputs, call.outputs
    )
    body, json_bytes = await asyncio.to_thread(make) if is_long else make()
    if json_bytes is None:
        return Response(body, media_type="application/json")
    headers = {JSON_LENGTH: str(json_bytes)}
    return Response(body, headers=headers, media_type="application/octet-stream")


def _json_bytes(request: Request) -> int | None:
    """Return how long the JSON in the body is; None if the request does not say."""
    given = request.headers.getlist(JSON_LENGTH)
    if not given:
        return None
    text = ",".join(given)
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise bad_request(f"{JSON_LENGTH} is {text!r:.40}, but must be a number of bytes")
    return int(text)
