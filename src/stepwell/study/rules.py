"""What a gateway with the same settings would do with a request: its class, and who may answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.core.names import Endpoint, LayerName
from stepwell.keys.cache_key import KeyScheme
from stepwell.policy.bypass import bypass_reason
from stepwell.policy.classes import RequestClass
from stepwell.policy.classifier import classify
from stepwell.policy.routing import Route, choose_class
from stepwell.study.requests import Body, endpoint_or_chat
from stepwell.wire.controls import Controls, take_controls

AS_CONFIGURED = "as configured"
"""The name of a cache that keeps to the request classes: each at its own level, and some never
cached."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How requests are judged."""

    scheme: KeyScheme
    classes: Mapping[str, RequestClass]
    routes: Sequence[Route]


@dataclass(frozen=True, slots=True)
class Ruling:
    """A request, judged."""

    endpoint: Endpoint
    body: Mapping[str, Any]
    """Without what it says to the cache."""
    controls: Controls
    request_class: RequestClass
    bypass: str | None
    """Why no layer may answer it."""

    @property
    def layers(self) -> frozenset[LayerName]:
        """The layers that may answer it; none: it is never cached."""
        return frozenset() if self.bypass is not None else frozenset(self.request_class.layers)


def rule(body: Body, rules: Rules) -> Ruling:
    """Judge a request.

    Raises:
        RequestError: A gateway would have refused it.
    """
    endpoint = endpoint_or_chat(body)
    plain, controls = take_controls({}, dict(body))
    chosen = choose_class(controls, rules.routes, rules.classes, endpoint, plain, classify)
    bypass = bypass_reason(endpoint, plain)
    if bypass is None and not chosen.request_class.is_cached:
        bypass = f"class {chosen.request_class.name}"
    return Ruling(endpoint, plain, controls, chosen.request_class, bypass)
