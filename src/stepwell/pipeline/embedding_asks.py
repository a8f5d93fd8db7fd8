"""From a ``/v1/embeddings`` request to what the embedding cache is asked."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from stepwell.core.embedding import VectorKind
from stepwell.core.names import Namespace
from stepwell.core.ports import Headers
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.embedding_provider import Company, UpstreamProvider
from stepwell.pipeline.embedding_rules import EmbeddingRules, ModelRule, Paces
from stepwell.pipeline.intake import PASSED_HEADERS, check_model
from stepwell.pipeline.targets import Target, Targets
from stepwell.wire.body import dump_body, parse_body
from stepwell.wire.controls import Directives, take_controls
from stepwell.wire.embeddings import EmbeddingsRequest, ForeignRequest, read_embeddings_request

MAX_KINDS = 1_024
"""Kinds that are remembered; the first to come is forgotten first."""

_KEY = "authorization"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request's body, read."""

    request: EmbeddingsRequest | ForeignRequest
    directives: Directives
    sub_namespace: str
    body: bytes
    """Without what was meant for us; else as it came."""


def parse(raw: bytes, headers: Mapping[str, str], *, max_inputs: int) -> Parsed:
    """Read a body. Pure: a long one may be read in a thread.

    Args:
        raw: The body.
        headers: Header fields by lower-case name.
        max_inputs: Longest list of inputs.

    Raises:
        RequestError: The request is wrong in itself.
    """
    body = parse_body(raw)
    rest, controls = take_controls(headers, body)
    request = read_embeddings_request(rest, max_inputs=max_inputs)
    check_model(request.model)
    sent = raw if rest is body else dump_body(rest)
    return Parsed(request, controls.directives, controls.sub_namespace, sent)


@dataclass(slots=True)
class KnownKind:
    """A kind that was asked for, and what has been learned of it."""

    kind: VectorKind
    rule: ModelRule
    served_as: str
    """What the model server calls the model."""
    foreign_until: float = float("-inf")
    """The server answers in a form of its own; until then it is not asked for vectors. A clock's
    monotonic time."""


@dataclass(frozen=True, slots=True)
class Sending:
    """How a request is sent on."""

    target: Target
    body: bytes
    account: Headers
    """Fields that say on whose account it is, and what may change the vectors."""
    passed: Headers
    query: str
    namespace: Namespace | None
    """Whose it is; ``None``: nobody's."""


@dataclass(frozen=True, slots=True)
class ForeignAsk:
    """A request that the cache is kept out of."""

    model: str
    sending: Sending
    directives: Directives
    reason: str


@dataclass(frozen=True, slots=True)
class EmbeddingAsk:
    """A request whose vectors may be known."""

    request: EmbeddingsRequest
    sending: Sending
    directives: Directives
    known: KnownKind
    namespace: Namespace
    owner: Namespace | None
    """Whose vectors these are; ``None``: everybody's."""

    @property
    def model(self) -> str:
        """As it is asked for."""
        return self.request.model


class EmbeddingIntake:
    """Makes asks of requests. For one event loop."""

    def __init__(
        self,
        targets: Targets,
        rules: EmbeddingRules,
        company: Company,
        *,
        keyed_headers: Sequence[str] = (),
        extra_headers: Sequence[str] = (),
    ) -> None:
        """Keep the tables.

        Args:
            targets: The model servers.
            rules: What is known of their models.
            company: For providers.
            keyed_headers: Header fields, in lower case, that are sent on with the account.
            extra_headers: Those of them that may change a vector.
        """
        self.max_inputs = rules.max_inputs
        self._targets = targets
        self._rules = rules
        self._company = company
        self._keyed_headers = tuple(sorted({*keyed_headers, *extra_headers}))
        self._extra_headers = tuple(sorted(extra_headers))
        self._kinds: OrderedDict[tuple[object, ...], KnownKind] = OrderedDict()
        self._paces = Paces()

    def take(
        self, parsed: Parsed, headers: Mapping[str, str], tenant: Tenant | None, *, query: str = ""
    ) -> EmbeddingAsk | ForeignAsk:
        """Return what a request asks for. Costs some 10 us.

        Args:
            parsed: Its body.
            headers: Header fields by lower-case name.
            tenant: Whose request it is; ``None``: nobody's, so no cache.
            query: The query string.

        Raises:
            RequestError: Nobody serves its model.
        """
        request, directives = parsed.request, parsed.directives
        target = self._targets.for_model(request.model)
        names = (*self._keyed_headers, _KEY) if target.takes_callers_key else self._keyed_headers
        namespace = None if tenant is None else tenant.namespace(parsed.sub_namespace)
        sending = Sending(
            target,
            parsed.body,
            _chosen(headers, names),
            _chosen(headers, PASSED_HEADERS),
            query,
            namespace,
        )
        if isinstance(request, ForeignRequest):
            return ForeignAsk(request.model, sending, directives, request.reason)
        if namespace is None:
            return ForeignAsk(request.model, sending, directives, "no API key")
        is_everybodys = self._rules.is_shared and not parsed.sub_namespace
        known = self._known(sending, request, _chosen(headers, self._extra_headers))
        owner = None if is_everybodys else namespace
        return EmbeddingAsk(request, sending, directives, known, namespace, owner)

    def provider(self, ask: EmbeddingAsk) -> UpstreamProvider:
        """Return what computes vectors for ``ask``, on the caller's account."""
        sending = ask.sending
        upstream = sending.target.upstream
        account = dict(sending.account).get(_KEY, "")
        return UpstreamProvider(
            identity=upstream.identity,
            template=orjson.dumps(ask.request.rest),
            account=sending.account,
            query=sending.query,
            namespace=ask.namespace,
            upstream=upstream,
            request=ask.request,
            headers=sending.passed,
            pace=self._paces.of(upstream.name, ask.known.rule, account),
            company=self._company,
        )

    def _known(self, sending: Sending, request: EmbeddingsRequest, extra: Headers) -> KnownKind:
        upstream = sending.target.upstream
        has_tokens = not isinstance(request.inputs[0], str)
        key = (
            *(upstream.name, request.model, request.dimensions, request.parameters),
            *(has_tokens, extra, sending.query),
        )
        known = self._kinds.get(key)
        if known is not None:
            return known
        rule = self._rules.of(upstream.name, request.model)
        kind = VectorKind(
            provider=upstream.identity,
            model=request.model,
            revision=rule.revision,
            dimensions=request.dimensions,
            normalization=rule.normalization,
            prefix="" if has_tokens else rule.prefix,
            parameters=_parameters(request.parameters, extra, sending.query),
            precision=self._rules.precision,
        )
        known = self._kinds[key] = KnownKind(kind, rule, request.model)
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)
        return known


def _chosen(headers: Mapping[str, str], names: Sequence[str]) -> Headers:
    return tuple([(name, headers[name]) for name in names if name in headers])


def _parameters(of_body: str, extra: Headers, query: str) -> str:
    """Return all that may change a vector and has no field of its own, as canonical JSON."""
    if not extra and not query:
        return of_body
    told = {"body": of_body, "headers": dict(extra), "query": query}
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()
