"""From a logged request to a question that caches can be asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from stepwell.core.entry import Usage
from stepwell.core.names import Endpoint, LayerName
from stepwell.keys.namespace import namespace_of
from stepwell.study.analysis.shapes import LoggedRequest
from stepwell.study.arm import Question
from stepwell.study.rules import Rules, rule

_BYTES_A_TOKEN = 4
"""Of UTF-8: near enough for English and for Chinese."""

_SECRET = bytes(16)
"""Namespaces are not secret here: they never leave the process."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A request of the log."""

    question: Question
    endpoint: Endpoint
    body: Mapping[str, Any]
    model: str
    request_class: str
    bypass: str | None
    """Why no layer may answer it."""
    usage: Usage
    is_estimated: bool
    """The log does not say its tokens."""


def take(logged: LoggedRequest, rules: Rules, number: int, at: float) -> Taken:
    """Return a logged request as a question.

    Args:
        logged: What the log says.
        rules: The settings'.
        number: Its place among the requests.
        at: When it was made; never before the one before.

    Raises:
        RequestError: A gateway would have refused it.
    """
    ruling = rule(logged.body, rules)
    endpoint, body, request_class = ruling.endpoint, ruling.body, ruling.request_class
    namespace = namespace_of(_SECRET, logged.tenant, ruling.controls.sub_namespace)
    phrasing = None
    if LayerName.SEMANTIC in ruling.layers:
        phrasing = rules.scheme.phrasing(namespace, endpoint, body)
    # What failed was not stored, and what is bypassed neither.
    is_stored = ruling.bypass is None and not logged.failed
    question = Question(
        number=number,
        key=rules.scheme.key(namespace, endpoint, body),
        phrasing=phrasing,
        level=request_class.level,
        at=at,
        ttl_seconds=request_class.ttl_seconds if is_stored else 0.0,
    )
    model = body.get("model")
    return Taken(
        question=question,
        endpoint=endpoint,
        body=body,
        model=model if isinstance(model, str) else "",
        request_class=request_class.name,
        bypass=ruling.bypass,
        usage=logged.usage or _estimate(body, logged.answer_bytes),
        is_estimated=logged.usage is None,
    )


def _estimate(body: Mapping[str, Any], answer_bytes: int) -> Usage:
    asked = [body.get(name) for name in ("tools", "instructions", "messages", "input", "prompt")]
    prompt_bytes = sum(len(orjson.dumps(part)) for part in asked if part is not None)
    return Usage(prompt_bytes // _BYTES_A_TOKEN, answer_bytes // _BYTES_A_TOKEN)
