"""Errors as callers see them."""

import json

import pytest

from stepwell.core.errors import (
    RequestError,
    StoreUnavailable,
    UpstreamBroken,
    UpstreamConnectTimeout,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from stepwell.wire.errors import error_body, error_event
from stepwell.wire.sse import parse_event, split_events

SECRET = "10.0.0.7:8000 refused /etc/keys sk-123"


def test_request_error() -> None:
    """A caller's error is told in full."""
    status, body = error_body(RequestError("'n' is bad.", code="invalid_type", param="n"))
    assert status == 400
    assert json.loads(body) == {
        "error": {
            "message": "'n' is bad.",
            "type": "invalid_request_error",
            "param": "n",
            "code": "invalid_type",
        }
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "authentication_error"), (413, "invalid_request_error"), (504, "not_cached_error")],
)
def test_types_of_request_errors(status: int, kind: str) -> None:
    """The type tells bad keys and unmet `only-if-cached` from bad requests."""
    found, body = error_body(RequestError("No.", status=status))
    assert (found, json.loads(body)["error"]["type"]) == (status, kind)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UpstreamTimeout(SECRET, upstream="u"), 504, "upstream_timeout"),
        (UpstreamConnectTimeout(SECRET, upstream="u"), 504, "upstream_timeout"),
        (UpstreamUnreachable(SECRET, upstream="u"), 502, "upstream_unreachable"),
        (UpstreamBroken(SECRET, upstream="u"), 502, "upstream_broken"),
        (UpstreamError(SECRET, upstream="u"), 502, "upstream_failed"),
    ],
)
def test_upstream_errors(error: UpstreamError, status: int, code: str) -> None:
    """The model server's failure is told by kind, not by its text."""
    found, body = error_body(error)
    told = json.loads(body)["error"]
    assert (found, told["type"], told["code"]) == (status, "upstream_error", code)
    assert SECRET not in body.decode()


@pytest.mark.parametrize("error", [StoreUnavailable(SECRET), KeyError(SECRET), ValueError(SECRET)])
def test_our_own_failures(error: Exception) -> None:
    """Of our own failures nothing is told but that it was one."""
    status, body = error_body(error)
    assert (status, json.loads(body)["error"]["type"]) == (500, "internal_error")
    assert SECRET not in body.decode()


def test_error_event() -> None:
    """In a stream the same object is one event, and no [DONE] follows."""
    error = UpstreamBroken(SECRET, upstream="u")
    (raw,) = split_events(error_event(error))
    assert parse_event(raw).data == error_body(error)[1]
