"""Operations that are forwarded and not cached: models, embeddings."""

import asyncio
from collections.abc import AsyncIterator

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.ports import Headers, Reply
from stepwell.gateway.errors import error_response
from stepwell.gateway.http import header_fields, read_body, sendable
from stepwell.gateway.parts import Parts
from stepwell.pipeline.intake import KEYED_HEADERS, PASSED_HEADERS
from stepwell.pipeline.targets import Target
from stepwell.wire.body import parse_body

_OK = 200
_NOT_FOUND = 404


class PassThrough:
    """Routes that hand requests on. Every one authenticates first."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def embeddings(self, request: Request) -> Response:
        """Forward ``POST /v1/embeddings`` to the upstream that serves its model."""
        fields = header_fields(request.scope)
        tenant = self._parts.auth.tenant(fields)
        raw = await read_body(request.scope, request.receive, max_bytes=self._parts.max_body_bytes)
        model = parse_body(raw).get("model")
        if not isinstance(model, str):
            raise RequestError("model must be a string.", param="model")
        target = self._parts.targets.for_model(model)
        headers = (*_passed(fields, target), ("content-type", "application/json"))
        upstream = target.upstream
        reply = await upstream.forward("POST", "embeddings", request.url.query, headers, raw)
        namespace = None if tenant is None else tenant.namespace()
        await self._parts.groups.heed(upstream.name, namespace, reply.status, reply.headers)
        return _streamed(reply)

    async def models(self, request: Request) -> Response:
        """Answer ``GET /v1/models``: what the upstreams list, in their order.

        One upstream's own reply is passed on unchanged. Of several, those that fail are left
        out, unless all do.
        """
        fields = self._authenticate(request)
        targets = tuple(self._parts.targets)
        if len(targets) == 1:
            return _streamed(await _list(targets[0], fields))
        listed = await asyncio.gather(
            *[_listed(target, fields) for target in targets], return_exceptions=True
        )
        if all(isinstance(models, UpstreamError) for models in listed):
            return error_response(next(e for e in listed if isinstance(e, UpstreamError)))
        data = [model for models in listed if isinstance(models, list) for model in models]
        return Response(
            orjson.dumps({"object": "list", "data": data}), media_type="application/json"
        )

    async def model(self, request: Request) -> Response:
        """Forward ``GET /v1/models/NAME`` to the upstream that serves it."""
        fields = self._authenticate(request)
        name = request.path_params["model"]
        if not {".", ".."}.isdisjoint(name.split("/")):
            # It would lead to another operation of the upstream, with the upstream's own key.
            raise RequestError(
                f"There is no model {name!r}.", status=_NOT_FOUND, code="model_not_found"
            )
        target = self._parts.targets.for_model(name)
        raw_path = request.scope["raw_path"].decode("latin-1").removeprefix("/v1/")
        reply = await target.upstream.forward(
            "GET", raw_path, request.url.query, _passed(fields, target), b""
        )
        return _streamed(reply)

    def _authenticate(self, request: Request) -> dict[str, str]:
        fields = header_fields(request.scope)
        self._parts.auth.tenant(fields)
        return fields


def _passed(fields: dict[str, str], target: Target) -> Headers:
    names = [*KEYED_HEADERS, *PASSED_HEADERS]
    if target.takes_callers_key:
        names.append("authorization")
    return tuple((name, fields[name]) for name in names if name in fields)


async def _list(target: Target, fields: dict[str, str]) -> Reply:
    return await target.upstream.forward("GET", "models", "", _passed(fields, target), b"")


async def _listed(target: Target, fields: dict[str, str]) -> list[object]:
    reply = await _list(target, fields)
    try:
        body = b"".join([chunk async for chunk in reply.chunks()])
    finally:
        await reply.aclose()
    try:
        listed = orjson.loads(body)["data"] if reply.status == _OK else []
    except (orjson.JSONDecodeError, KeyError, TypeError):
        listed = []
    return listed if isinstance(listed, list) else []


def _streamed(reply: Reply) -> Response:
    async def body() -> AsyncIterator[bytes]:
        try:
            async for chunk in reply.chunks():
                yield chunk
        finally:
            await reply.aclose()

    response = StreamingResponse(body(), reply.status)
    response.raw_headers = [
        (name.encode("latin-1"), value.encode("latin-1")) for name, value in sendable(reply.headers)
    ]
    return response
