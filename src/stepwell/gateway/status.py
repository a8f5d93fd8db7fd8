"""How the gateway is, for machines that ask."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stepwell.gateway.openapi import openapi_document
from stepwell.gateway.parts import Parts

_OK = 200
_UNAVAILABLE = 503


class Status:
    """Health, readiness, metrics, the API's description: open to all, nothing in them is secret."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def health(self, request: Request) -> Response:  # noqa: ARG002  (a route's signature)
        """Answer as long as the process can."""
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:  # noqa: ARG002  (a route's signature)
        """Answer 200 when requests are welcome, be it without a part that fails; else 503."""
        is_draining = self._parts.drain.is_under_way
        page = {
            "status": "draining" if is_draining else "ready",
            "degraded": self._parts.read_troubles(),
        }
        return JSONResponse(page, _UNAVAILABLE if is_draining else _OK)

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of all workers."""
        page = await self._parts.read_metrics(request.headers.get("accept", ""))
        return Response(page.body, headers={"content-type": page.content_type})

    async def openapi(self, request: Request) -> Response:  # noqa: ARG002  (a route's signature)
        """Answer with the OpenAPI document."""
        return JSONResponse(openapi_document())
