"""What is added to a request so that a model server's prefix cache does its work, and only that.

Nothing here changes what is asked. The cache key of the request is made before, from what the
caller sent.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import orjson

from stepwell.core.names import Endpoint, Namespace
from stepwell.core.ports import Call
from stepwell.core.steering import Hold

SALT = "cache_salt"
"""vLLM's and SGLang's name of it."""

PROMPT_CACHE_KEY = "prompt_cache_key"
"""OpenAI's name of what a request is sent by to the machine that has its prefix."""

BREAKPOINT = "cache_control"
"""Anthropic's name of the mark behind which a prefix ends that is to be kept."""

MAX_BREAKPOINTS = 4

MIN_MARKED_BYTES = 4_096
"""Some 1,024 tokens: a shorter prefix is not kept by any model of Anthropic's, marked or not."""

_KEY_BYTES = 16

Body = Mapping[str, Any]

Shape = Callable[[Call, Body], Body]
"""Returns a changed body, or the same one."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """Shapes to be applied in order."""

    shapes: tuple[Shape, ...]

    def apply(self, call: Call, body: Body) -> Call:
        """Return ``call``, whose body is parsed as ``body``, as it is to be sent.

        Costs 5 us for 1 KB, unless nothing is changed.
        """
        shaped = self.shape(call, body)
        return call if shaped is body else replace(call, body=orjson.dumps(shaped))

    def shape(self, call: Call, body: Body) -> Body:
        """Return the body of ``call`` as it is to be sent; the same one if nothing is changed."""
        if not body:
            return body  # No object, or an empty one: the server will say what it thinks of it.
        for shape in self.shapes:
            body = shape(call, body)
        return body


def hold_body(body: Body, hold: Hold) -> bytes:
    """Return what our own engine's ``/hold`` takes: the prompt of a call, and for how long."""
    kept = {name: body[name] for name in ("model", "messages", SALT) if name in body}
    return orjson.dumps({**kept, "ttl_seconds": hold.ttl_seconds})


@dataclass(frozen=True, slots=True)
class Salted:
    """Keeps tenants' prefixes apart in the server. A salt the caller gave is replaced."""

    salt_of: Callable[[Namespace | None], str]

    def __call__(self, call: Call, body: Body) -> Body:
        """Return the body with its owner's salt."""
        return {**body, SALT: self.salt_of(call.namespace)}


def with_prompt_cache_key(call: Call, body: Body) -> Body:
    """Return the body with a key for its owner and the beginning of its prompt.

    One that the caller gave stays.
    """
    if PROMPT_CACHE_KEY in body:
        return body
    hashed = blake2b(call.namespace or b"", digest_size=_KEY_BYTES, person=b"stepwell pck")
    hashed.update(orjson.dumps([body.get("model"), body.get("tools"), _beginning(body)]))
    key = urlsafe_b64encode(hashed.digest()).decode().rstrip("=")
    return {**body, PROMPT_CACHE_KEY: key}


def _beginning(body: Mapping[str, Any]) -> object:
    """Return what conversations of one kind have in common: the system prompt."""
    messages = body.get("messages")
    if isinstance(messages, list) and messages and _is_system(messages[0]):
        return messages[0]
    return body.get("instructions")


def with_breakpoints(call: Call, body: Body) -> Body:
    """Return the body with marks where its prompt will part from that of the next request.

    Behind the tools, behind the system prompt, and behind the last two turns of the user: the next
    turn finds the first of these two again. A request that has marks of its own stays as it is, and
    so does a short one.
    """
    messages = body.get("messages")
    if call.endpoint is not Endpoint.CHAT or not isinstance(messages, list):
        return body
    if len(call.body) < MIN_MARKED_BYTES or b'"cache_control"' in call.body:
        return body
    tools = body.get("tools")
    marked_tools = [*tools[:-1], _marked(tools[-1])] if isinstance(tools, list) and tools else None
    room = MAX_BREAKPOINTS - (marked_tools is not None)
    at = {number for number in _breaks(messages)[:room] if _can_be_marked(messages[number])}
    marked = [
        _with_marked_content(message) if number in at else message
        for number, message in enumerate(messages)
    ]
    shaped = {**body, "messages": marked}
    return shaped if marked_tools is None else {**shaped, "tools": marked_tools}


def _breaks(messages: list[Any]) -> list[int]:
    """Return the numbers of the messages behind which a mark is worth most, best first."""
    ahead = 0
    while ahead < len(messages) and _is_system(messages[ahead]):
        ahead += 1
    users = [number for number, message in enumerate(messages) if _role(message) == "user"]
    return ([ahead - 1] if ahead else []) + users[:-3:-1]


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, dict) else None


def _is_system(message: object) -> bool:
    return _role(message) in {"system", "developer"}


def _can_be_marked(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if isinstance(content, str):
        return bool(content)
    return isinstance(content, list) and bool(content) and isinstance(content[-1], dict)


def _with_marked_content(message: Mapping[str, Any]) -> Body:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*parts[:-1], _marked(parts[-1])]}


def _marked(part: object) -> object:
    return {**part, BREAKPOINT: {"type": "ephemeral"}} if isinstance(part, dict) else part
