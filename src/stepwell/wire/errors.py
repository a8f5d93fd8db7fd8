"""Errors as OpenAI's clients expect them."""

import orjson

from stepwell.core.errors import (
    CallForked,
    RequestError,
    UpstreamBroken,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from stepwell.wire.sse import format_event

_FORKED = (
    "The gateway that made the call was lost, and a second call is answered otherwise; ask again."
)

_REQUEST_ERROR_TYPES = {
    401: "authentication_error",
    429: "rate_limit_error",
    504: "not_cached_error",
}
_INTERNAL = {
    "message": "The gateway failed. The request may be tried again.",
    "type": "internal_error",
    "param": None,
    "code": None,
}


def error_body(error: Exception) -> tuple[int, bytes]:
    """Return the HTTP status and the JSON body that tell a caller of ``error``.

    Only the text of a `RequestError` is shown: it is written for the caller. All others may hold
    addresses, file names or another caller's data; they belong in the log.
    """
    return _status(error), orjson.dumps({"error": _error_object(error)})


def error_event(error: Exception) -> bytes:
    """Return the event that tells of ``error`` in a stream that has begun.

    No ``[DONE]`` must follow it, so that nobody takes the answer for complete.
    """
    return format_event(orjson.dumps({"error": _error_object(error)}))


def _status(error: Exception) -> int:
    if isinstance(error, (RequestError, UpstreamError)):
        return error.status
    return 500


def _error_object(error: Exception) -> dict[str, str | None]:
    if isinstance(error, RequestError):
        return {
            "message": str(error),
            "type": _REQUEST_ERROR_TYPES.get(error.status, "invalid_request_error"),
            "param": error.param,
            "code": error.code,
        }
    if isinstance(error, UpstreamError):
        message, code = _upstream_failure(error)
        return {"message": message, "type": "upstream_error", "param": None, "code": code}
    return _INTERNAL


def _upstream_failure(error: UpstreamError) -> tuple[str, str]:
    match error:
        case UpstreamTimeout():
            return "The model server did not answer in time.", "upstream_timeout"
        case UpstreamUnreachable():
            return "The model server cannot be reached.", "upstream_unreachable"
        case CallForked():
            return _FORKED, "upstream_broken"
        case UpstreamBroken():
            return "The model server's answer broke off, or was none.", "upstream_broken"
        case _:
            return "The model server did not give a complete answer.", "upstream_failed"
