"""Every error of the ordinary routes as an OpenAI error body."""

import logging

from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp

from stepwell.core.errors import RequestError, StepwellError
from stepwell.gateway.http import ClientLeft
from stepwell.wire.errors import error_body

_log = logging.getLogger(__name__)


def answer_errors(router: Router) -> ASGIApp:
    """Return ``router`` so that whatever goes wrong in it is answered in OpenAI's form."""
    return ExceptionMiddleware(router, handlers={HTTPException: _of_routing, Exception: _of_ours})


async def _of_routing(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = error.headers if isinstance(error, HTTPException) else None
    method, path = request.method, request.url.path
    hint = "" if path.startswith("/v1/") else f" Did you mean /v1{path}? A base URL ends in /v1."
    refused = RequestError(
        f"{method} {path} is not served here.{hint}", status=status, code="not_found"
    )
    if status == 405:  # noqa: PLR2004  (HTTP's own number)
        refused = RequestError(
            f"{path} does not answer {method}.", status=status, code="method_not_allowed"
        )
    return error_response(refused, headers=dict(headers or {}))


async def _of_ours(request: Request, error: Exception) -> Response:
    if not isinstance(error, StepwellError | ClientLeft):
        _log.exception("%s %s failed.", request.method, request.url.path, exc_info=error)
    return error_response(error)


def error_response(error: Exception, headers: dict[str, str] | None = None) -> Response:
    """Return the reply that tells a caller of ``error``."""
    status, body = error_body(error)
    return Response(body, status, headers, media_type="application/json")
