"""The server's pages: the Open Inference Protocol v2 with extensions, and metrics."""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from glow_nb.base.errors import GlowError
from glow_nb.runtime.serve import descriptions, replies
from glow_nb.runtime.serve.apart import apart
from glow_nb.runtime.serve.body import read_body
from glow_nb.runtime.serve.body_memory import BodyMemory
from glow_nb.runtime.serve.guard import METRICS, Guard
from glow_nb.runtime.serve.inference import Inference
from glow_nb.runtime.serve.json_fields import Object, flag_field, object_field, parse_object
from glow_nb.runtime.serve.limits import Limits
from glow_nb.runtime.serve.metrics import Metrics
from glow_nb.runtime.serve.model_server import ModelServer, ServedModel
from glow_nb.runtime.serve.refusal import Refusal, bad_request
from glow_nb.runtime.serve.replies import json_response
from glow_nb.runtime.serve.repository import ALL_MODELS

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
UNLOAD_PARAMETER = "unload_dependents"
"""What clients say when they unload; models here depend on none."""


def application(models: ModelServer, limits: Limits, token: str | None = None) -> Guard:
    """Return the ASGI application that serves *models* within *limits*.

    With a *token*, each request but those for health must have it as bearer token.
    """
    bodies = BodyMemory(limits.bodies_bytes)
    pages = _Pages(models, limits, bodies)
    app = Starlette(
        routes=pages.routes(),
        exception_handlers={
            GlowError: replies.glow_error,
            HTTPException: replies.no_such_page,
            ClientDisconnect: replies.nobody_there,
            500: replies.internal_error,
        },
    )
    app.router.redirect_slashes = False
    guard = Guard(app, limits, token)
    pages.metrics = Metrics(models, guard, bodies)
    return guard


class _Pages:
    """The pages for each path but that of inference."""

    metrics: Metrics

    def __init__(self, models: ModelServer, limits: Limits, bodies: BodyMemory) -> None:
        self._models, self._limits, self._bodies = models, limits, bodies
        # What waits for another change waits here, and keeps no thread from those that only look.
        self._changing = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return which path leads where."""
        model, repository = "/v2/models/{name}", "/v2/repository/models/{name}"
        inference = Inference(self._models, self._limits, self._bodies)
        routes = [
            Route("/v2", self.server),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.ready),
            Route(f"/v2/models/{ALL_MODELS}", self.all_statistics),
            Route("/v2/repository/index", self.index, methods=["POST"]),
            Route(f"{repository}/load", self.load, methods=["POST"]),
            Route(f"{repository}/unload", self.unload, methods=["POST"]),
            Route(METRICS, self.show_metrics),
        ]
        for place in (model, f"{model}/versions/{{version}}"):
            routes += [
                Route(place, self.model),
                Route(f"{place}/ready", self.model_ready),
                Route(f"{place}/config", self.configuration),
                Route(f"{place}/stats", self.statistics),
                Route(f"{place}/infer", inference.answer, methods=["POST"]),
            ]
        return routes

    def _model(self, request: Request) -> ServedModel:
        return self._models.find(request.path_params["name"], request.path_params.get("version"))

    async def server(self, _: Request) -> Response:
        return json_response(descriptions.server_metadata())

    async def live(self, _: Request) -> Response:
        return json_response({"live": True})

    async def ready(self, _: Request) -> Response:
        if await asyncio.to_thread(self._models.is_ready):
            return json_response({"ready": True})
        raise Refusal(503, "a model that is loaded has no device that is up; see /metrics")

    async def model(self, request: Request) -> Response:
        model = self._model(request)
        versions = list(self._models.served.get(model.file.name, ()))
        return json_response(descriptions.model_metadata(model, versions))

    async def model_ready(self, request: Request) -> Response:
        model = self._model(request)
        if await asyncio.to_thread(self._models.is_ready, model):
            return json_response({"ready": True, "name": model.file.name})
        raise Refusal(503, f"model {model.file.name!r}: it has no device that is up")

    async def configuration(self, request: Request) -> Response:
        return json_response(descriptions.model_configuration(self._model(request)))

    async def statistics(self, request: Request) -> Response:
        return await self._statistics([self._model(request)])

    async def all_statistics(self, _: Request) -> Response:
        served = self._models.served.values()
        return await self._statistics([each for versions in served for each in versions.values()])

    async def _statistics(self, models: list[ServedModel]) -> Response:
        networks = (await asyncio.to_thread(self._models.host.statistics)).networks
        listed = [
            descriptions.model_statistics(model, networks[model.network])
            for model in models
            if model.network in networks
        ]
        return json_response({"model_stats": listed})

    async def index(self, request: Request) -> Response:
        fields = await self._object(request)
        wants_ready = flag_field("the request", fields, "ready", default=False)
        entries = await asyncio.to_thread(self._models.index)
        return json_response([e for e in entries if not wants_ready or e["state"] == "READY"])

    async def load(self, request: Request) -> Response:
        await self._refuse_parameters(request)
        async with self._changing:
            await apart(partial(self._models.load, request.path_params["name"]))
        return json_response({})

    async def unload(self, request: Request) -> Response:
        await self._refuse_parameters(request)
        async with self._changing:
            await apart(partial(self._models.unload, request.path_params["name"]))
        return json_response({})

    async def _refuse_parameters(self, request: Request) -> None:
        parameters = object_field("the request", await self._object(request), "parameters")
        for name in parameters:
            if name != UNLOAD_PARAMETER:
                raise bad_request(
                    f"parameter {name!r:.80}: models are loaded as they are in the repository; "
                    "leave it out"
                )

    async def _object(self, request: Request) -> Object:
        """Return the JSON object in the body; an empty body is an empty one."""
        with self._bodies.share() as share:
            body = await read_body(request, self._limits, share)
            return parse_object("the request", body.data) if len(body) else {}

    async def show_metrics(self, _: Request) -> Response:
        return Response(await asyncio.to_thread(self.metrics.text), media_type=PROMETHEUS)
