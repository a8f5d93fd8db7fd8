"""From a parsed request to a question: checked, classed, routed, named."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint, Form, LayerName
from stepwell.core.ports import Call, Headers
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.question import Ask, Question
from stepwell.pipeline.targets import Target, Targets
from stepwell.policy.bypass import bypass_reason
from stepwell.policy.classes import RequestClass
from stepwell.policy.classifier import classify
from stepwell.policy.prompt_shape.reshaping import Rewrite, reshape
from stepwell.policy.routing import ChosenClass, Route, choose_class
from stepwell.wire.body import dump_body
from stepwell.wire.controls import take_controls
from stepwell.wire.request import check_request, shape_of
from stepwell.wire.shape import Shape

KEYED_HEADERS = ("openai-beta", "openai-organization", "openai-project")
"""Sent on, and part of the key: they can change the answer."""

MAX_MODEL_CHARACTERS = 1_024
"""Longer than any path of a local model."""

PASSED_HEADERS = (
    "accept-language",
    "baggage",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-request-id",
)
"""Sent on, and not part of the key: they say who asks and where, not what."""


class Intake:
    """Makes questions of requests. Pure but for its tables; safe everywhere."""

    def __init__(
        self,
        targets: Targets,
        classes: Mapping[str, RequestClass],
        routes: Sequence[Route] = (),
        *,
        extra_headers: Sequence[str] = (),
        phrased: bool = False,
        rewrites: Collection[Rewrite] = (),
    ) -> None:
        """Keep the tables.

        Args:
            targets: The model servers.
            classes: The request classes by name.
            routes: Rules that choose a class.
            extra_headers: More header fields, in lower case, that are sent on. They may change
                the answer, so they are part of the key.
            phrased: Whether there is a semantic layer, which looks for other words.
            rewrites: What is done to prompts, so that they begin like the ones before. The key is
                made of the request as it came.
        """
        self._targets = targets
        self._classes = classes
        self._routes = routes
        self._phrased = phrased
        self._rewrites = frozenset(rewrites)
        self.keyed_headers = tuple(sorted({*KEYED_HEADERS, *extra_headers}))

    def take(
        self,
        endpoint: Endpoint,
        body: dict[str, Any],
        headers: Mapping[str, str],
        tenant: Tenant | None,
        *,
        query: str = "",
    ) -> Ask:
        """Return the request as something the runner can answer.

        Args:
            endpoint: The operation.
            body: The parsed body; not changed.
            headers: Header fields by lower-case name.
            tenant: Whose request it is; ``None``: nobody's, so no cache.
            query: The query string.

        Cost: some 40 us for a 1 KB chat request, parsing not included.

        Raises:
            RequestError: The request is wrong in itself, or nobody serves its model.
        """
        body, controls = take_controls(headers, body)
        check_request(endpoint, body)
        check_model(body["model"])
        shape = shape_of(endpoint, body)
        target = self._targets.for_model(body["model"])
        chosen = choose_class(controls, self._routes, self._classes, endpoint, body, classify)
        bypass = _bypass(endpoint, body, tenant, chosen)
        keyed = tuple((name, headers[name]) for name in self.keyed_headers if name in headers)
        owner = None if tenant is None else tenant.namespace(controls.sub_namespace)
        namespace = owner if bypass is None else None
        key = phrasing = None
        if namespace is not None:
            key = target.scheme.key(namespace, endpoint, body, headers=keyed, query=query)
            if self._phrased and LayerName.SEMANTIC in chosen.request_class.layers:
                phrasing = target.scheme.phrasing(
                    namespace, endpoint, body, headers=keyed, query=query
                )
        reshaped = reshape(endpoint, body, self._rewrites)
        question = Question(
            endpoint=endpoint,
            model=body["model"],
            shape=shape,
            directives=controls.directives,
            request_class=chosen.request_class,
            class_by=f"{chosen.by}: {chosen.why}",
            upstream=target.upstream.name,
            namespace=namespace,
            key=key,
            bypass=bypass,
            sources=controls.sources,
            tags=controls.tags,
            phrasing=phrasing,
            reshaped=reshaped.what,
        )
        sent = keyed + _passed(headers, target)
        plain_call = Call(endpoint, dump_body(reshaped.body), sent, query, owner, key)
        call = _asking_for_usage(plain_call, reshaped.body, shape)
        return Ask(question, target.upstream, call, plain_call)


def check_model(name: str) -> None:
    """Refuse a name that is none: it is kept with every question, every entry and every vector.

    Raises:
        RequestError: It is too long.
    """
    if len(name) > MAX_MODEL_CHARACTERS:
        raise RequestError(
            f"'model' must have at most {MAX_MODEL_CHARACTERS} characters, not {len(name)}.",
            code="invalid_value",
            param="model",
        )


def _bypass(
    endpoint: Endpoint, body: Mapping[str, Any], tenant: Tenant | None, chosen: ChosenClass
) -> str | None:
    if tenant is None:
        return "no API key"
    if not chosen.request_class.is_cached:
        return f"class {chosen.request_class.name}"
    return bypass_reason(endpoint, body)


def _passed(headers: Mapping[str, str], target: Target) -> Headers:
    names = (*PASSED_HEADERS, "authorization") if target.takes_callers_key else PASSED_HEADERS
    return tuple((name, headers[name]) for name in names if name in headers)


def _asking_for_usage(call: Call, body: Mapping[str, Any], shape: Shape) -> Call:
    """Return ``call`` so that a stream ends with its usage, which the caller need not see."""
    if shape.form is Form.JSON or shape.include_usage:
        return call
    options = {**(body.get("stream_options") or {}), "include_usage": True}
    asking = dump_body({**body, "stream_options": options})
    return replace(call, body=asking)
