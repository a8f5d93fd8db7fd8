"""What an operator may do over HTTP: look at the ledger and at replicas, make answers go, and more.

Off beyond loopback unless a token is configured. Without one, only a caller that addresses the
gateway by a loopback name is let in, so that no web page can reach it through a browser.
"""

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stepwell.core.entry import SourceValue
from stepwell.core.errors import RequestError, StoreError
from stepwell.core.judgement import Verdict, read_verdict
from stepwell.core.names import EVERYONE, Namespace
from stepwell.gateway.auth import is_token
from stepwell.gateway.http import header_fields, read_body
from stepwell.gateway.loopback import is_loopback
from stepwell.gateway.parts import Parts
from stepwell.gateway.replicas import ReplicaDesk, ReplicaMove
from stepwell.gateway.selection import Invalidation, from_hex, selectors_of
from stepwell.gateway.warm import SystemPrompt, WarmDesk
from stepwell.pipeline.hit_id import read_hit_id
from stepwell.wire.body import parse_body
from stepwell.wire.cache_groups import INVALIDATION
from stepwell.wire.markers import CONTROL_CHARACTER, MAX_NAME_CHARACTERS, MAX_VALUE_CHARACTERS

MAX_BODY_BYTES = 64 << 10

_T = TypeVar("_T")


def _text(max_length: int) -> msgspec.Meta:
    """What the ``X-Stepwell-Sources`` field allows, so that requests can name the same."""
    # Not "$": it also matches before a line's last end.
    pattern = rf"^(?![\s\S]*{CONTROL_CHARACTER})"
    return msgspec.Meta(min_length=1, max_length=max_length, pattern=pattern)


class SourceMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /admin/sources``."""

    name: Annotated[str, _text(MAX_NAME_CHARACTERS)]
    value: Annotated[str, _text(MAX_VALUE_CHARACTERS)]
    namespace: str | None = None
    """Whose source it is; everybody's by default."""


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /admin/feedback``."""

    hit: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{70}$")]
    """As in ``X-Stepwell-Hit``."""
    verdict: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(Verdict)})]
    delete: bool = False
    """Remove the entry too."""


class EmbeddingsDeletion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /admin/embeddings/delete``."""

    texts: Annotated[list[str], msgspec.Meta(min_length=1)]
    """As they were embedded, character by character."""
    namespace: str | None = None
    """Whose, as in the log's ``tenant``; everybody's by default (``embedding.share``)."""
    model: Annotated[str, msgspec.Meta(min_length=1)] = "*"
    """Pattern of the models' names."""


class Admin:
    """The ``/admin`` routes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._replicas = ReplicaDesk(parts.targets, parts.exact)
        self._warming = WarmDesk(
            parts.targets,
            parts.exact,
            parts.make_prompt,
            clock=parts.clock,
            events=parts.events,
        )

    async def stats(self, request: Request) -> Response:
        """Answer with the savings ledger."""
        self._admit(request)
        try:
            statement = await self._parts.read_statement()
        except StoreError as error:
            return _unavailable(error)
        return Response(statement, media_type="application/json")

    async def invalidate(self, request: Request) -> Response:
        """Count, or remove, the entries that the body and ``Cache-Group-Invalidation`` mean."""
        asked = await self._read(request, Invalidation)
        fields = header_fields(request.scope)
        selectors = selectors_of(asked, fields.get(INVALIDATION))
        exact = self._parts.exact
        try:
            if asked.dry_run:
                matched = sum([await exact.count(selector) for selector in selectors])
            elif _wants_no_count(fields):
                for selector in selectors:
                    await exact.revoke(selector)
                return JSONResponse({"obeyed": True}, _ACCEPTED, _PREFERENCE_APPLIED)
            else:
                matched = sum([await exact.invalidate(selector) for selector in selectors])
        except StoreError as error:
            return _unavailable(error)
        return JSONResponse({"matched": matched, "removed": 0 if asked.dry_run else matched})

    async def move_source(self, request: Request) -> Response:
        """Set the current value of a named source: entries made under another are stale."""
        asked = await self._read(request, SourceMove)
        namespace = EVERYONE
        if asked.namespace is not None:
            namespace = Namespace(from_hex("namespace", asked.namespace, len(EVERYONE)))
        try:
            moved = await self._parts.exact.move_source(
                namespace, SourceValue(asked.name, asked.value)
            )
        except StoreError as error:
            return _unavailable(error)
        return JSONResponse({"moved": moved})

    async def replicas(self, request: Request) -> Response:
        """Answer with how the replicas of all upstreams are, as this worker sees them."""
        self._admit(request)
        reports = await self._replicas.look()
        return Response(msgspec.json.encode(reports), media_type="application/json")

    async def move_replica(self, request: Request) -> Response:
        """Take a replica out of service, or back into it, in all workers and gateways."""
        asked = await self._read(request, ReplicaMove)
        try:
            moved = await self._replicas.move(asked)
        except StoreError as error:
            return _unavailable(error)
        return JSONResponse({"moved": moved})

    async def warm(self, request: Request) -> Response:
        """Have the replicas of an upstream read a system prompt now; it may be a long one."""
        body = parse_body(await self._body(request, max_bytes=self._parts.max_body_bytes))
        warmed = await self._warming.warm(_converted(body, SystemPrompt))
        return Response(msgspec.json.encode(warmed), media_type="application/json")

    async def delete_embeddings(self, request: Request) -> Response:
        """Delete the vectors of some texts, of all models or some, in all tiers."""
        asked = await self._read(request, EmbeddingsDeletion, max_bytes=self._parts.max_body_bytes)
        if self._parts.embeddings is None:
            raise RequestError("No vectors are kept.", status=404, code="embedding_off")
        owner = None
        if asked.namespace is not None:
            owner = Namespace(from_hex("namespace", asked.namespace, len(EVERYONE)))
        eraser = self._parts.embeddings.eraser
        try:
            erased = await eraser.erase(asked.texts, owner, model=asked.model)
        except StoreError as error:
            return _unavailable(error)
        return JSONResponse({"deleted": erased.vectors, "versions": erased.versions})

    async def feedback(self, request: Request) -> Response:
        """Take what somebody says of an answer that was given to other words."""
        asked = await self._read(request, Judged)
        if self._parts.feedback is None:
            raise RequestError("There is no semantic layer.", status=404, code="semantic_off")
        try:
            hit = read_hit_id(asked.hit)
        except ValueError as error:
            raise RequestError(f"'hit' is {error}.", param="hit") from error
        verdict = read_verdict(asked.verdict)
        try:
            found = await self._parts.feedback.give(hit, verdict, delete=asked.delete)
        except StoreError as error:
            return _unavailable(error)
        return JSONResponse({"key": hit.key.hex(), "verdict": verdict, "found": found})

    async def _read(
        self, request: Request, kind: type[_T], *, max_bytes: int = MAX_BODY_BYTES
    ) -> _T:
        body = await self._body(request, max_bytes=max_bytes)
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unexpected(error) from error

    async def _body(self, request: Request, *, max_bytes: int) -> bytes:
        self._admit(request)
        if not request.headers.get("content-type", "").startswith("application/json"):
            # A form from another site can be sent without asking; JSON cannot.
            raise RequestError("Content-Type must be application/json.", status=415)
        return await read_body(request.scope, request.receive, max_bytes=max_bytes)

    def _admit(self, request: Request) -> None:
        """Let an operator in, and nobody else.

        Raises:
            RequestError: 401 or 403.
        """
        fields = header_fields(request.scope)
        token = self._parts.admin_token
        if token is not None:
            if not is_token(fields, token):
                raise RequestError("The admin token is wrong.", status=401, code="invalid_api_key")
            return
        peer = (request.scope.get("client") or ("", 0))[0]
        name = request.url.hostname or ""
        if not (is_loopback(peer) and is_loopback(name)) or _is_forwarded(fields):
            message = "The admin routes are for loopback only; set server.admin_token_env."
            raise RequestError(message, status=403, code="admin_off")


def _converted(body: object, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise _unexpected(error) from error


def _unexpected(error: Exception) -> RequestError:
    return RequestError(f"The body is not as expected: {error}.")


_ACCEPTED = 202
_RESPOND_ASYNC = "respond-async"
_PREFERENCE_APPLIED = {"preference-applied": _RESPOND_ASYNC}


def _wants_no_count(fields: Mapping[str, str]) -> bool:
    """Return whether the caller prefers an answer before all is removed (RFC 7240, 4.1)."""
    preferences = fields.get("prefer", "").split(",")
    return _RESPOND_ASYNC in {
        preference.partition(";")[0].strip().lower() for preference in preferences
    }


_FORWARDED = frozenset({"forwarded", "via", "x-real-ip"})


def _is_forwarded(fields: Mapping[str, str]) -> bool:
    """Return whether a proxy says that it passed a request on."""
    return any(name in _FORWARDED or name.startswith("x-forwarded-") for name in fields)


def _unavailable(error: StoreError) -> Response:
    body = {
        "message": f"It was not done, or not wholly: {error}",
        "type": "store_error",
        "param": None,
    }
    return JSONResponse({"error": {**body, "code": "store_unavailable"}}, 503)
