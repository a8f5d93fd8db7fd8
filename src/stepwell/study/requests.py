"""Requests made of the texts of a file."""

from collections.abc import Mapping
from typing import Any

from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint
from stepwell.wire.endpoint import endpoint_of

MODEL = "study"
"""Where a file names no model, all its texts are for the same one."""

Body = Mapping[str, Any]


def body_of(asked: object, *, model: str = MODEL, system: str = "") -> Body:
    """Return a request body that asks what a file says.

    Args:
        asked: A text, a list of messages, or a body.
        model: Of a body that has none.
        system: A system prompt in front of a text; empty: none.

    Raises:
        RequestError: It is none of these.
    """
    match asked:
        case str():
            before = [{"role": "system", "content": system}] if system else []
            return {"model": model, "messages": [*before, {"role": "user", "content": asked}]}
        case list() if asked and all(isinstance(message, dict) for message in asked):
            return {"model": model, "messages": asked}
        case dict():
            return {"model": model, **asked}
        case _:
            raise RequestError("a text, a list of messages, or a request body is needed")


def endpoint_or_chat(body: Body) -> Endpoint:
    """Return the operation a body is for; one without any marks is taken for a chat."""
    try:
        return endpoint_of(body)
    except RequestError:
        return Endpoint.CHAT
