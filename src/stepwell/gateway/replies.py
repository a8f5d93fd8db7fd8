"""What a reply says about the cache, in its header fields.

``Cache-Status`` is RFC 9211's, ``Age`` RFC 9111's, ``X-Cache`` the de-facto one.
"""

from collections.abc import Iterator

from stepwell.core.events import Result
from stepwell.core.names import Form
from stepwell.core.outcome import Bypass, Hit, Stale
from stepwell.core.ports import Headers
from stepwell.gateway.http import sendable
from stepwell.pipeline.served import Served
from stepwell.wire.cache_groups import GROUPS, write_groups
from stepwell.wire.cache_status import Forward, forward_status, hit_status

CONTENT_TYPES = {Form.JSON: "application/json", Form.SSE: "text/event-stream; charset=utf-8"}

_NOT_PASSED = frozenset({"age", "set-cookie", "x-cache"})

_FROM_CACHE = frozenset({Result.HIT, Result.STALE})


def header_of(served: Served) -> Headers:
    """Return the header fields of a reply, framing and date left out.

    An answer from the cache has its content type; any other has what the model server sent.
    """
    fields = sendable(served.headers) or (("content-type", CONTENT_TYPES[served.form]),)
    return (*without_ours(fields), *_cache_fields(served))


def without_ours(fields: Headers) -> Iterator[tuple[str, str]]:
    """Leave out what is ours to say, and cookies: a reply may be read by several callers."""
    return (
        field
        for field in fields
        if field[0] not in _NOT_PASSED and not field[0].startswith("x-stepwell-")
    )


def _cache_fields(served: Served) -> Iterator[tuple[str, str]]:
    yield "cache-status", cache_status(served)
    yield "x-cache", served.result.upper()
    if served.result in _FROM_CACHE:
        yield "age", str(int(served.age_seconds))
    if groups := groups_of(served):
        yield GROUPS, groups
    if isinstance(served.outcome, Bypass):
        yield "x-stepwell-bypass", served.outcome.reason
    if served.refused:
        yield "x-stepwell-not-stored", served.refused
    if isinstance(served.outcome, Hit) and served.outcome.similarity is not None:
        yield "x-stepwell-similarity", f"{served.outcome.similarity:.4f}"
        yield "x-stepwell-hit", served.hit_id
    if served.key is not None and (served.stored or served.result in _FROM_CACHE):
        # Derived from the tenant's namespace, so it says nothing about anybody else's entries.
        yield "x-stepwell-key", served.key.hex()


def groups_of(served: Served) -> str:
    """Return ``Cache-Groups`` (RFC 9875) of an answer from the cache: its tags; empty for others.

    Only its tenant sees them. What the model server says itself stands in its own reply.
    """
    if served.result not in _FROM_CACHE or not isinstance(served.outcome, Hit | Stale):
        return ""
    tags = served.outcome.entry.tags
    return write_groups(tags) if tags else ""


def cache_status(served: Served) -> str:
    """Return the ``Cache-Status`` member of this cache."""
    if served.result in _FROM_CACHE:
        layer = served.outcome.layer if isinstance(served.outcome, Hit | Stale) else None
        return hit_status(int(served.ttl_seconds // 1), detail=layer)
    reason = Forward.MISS
    detail = None
    if isinstance(served.outcome, Bypass):
        reason, detail = Forward.BYPASS, served.outcome.reason
    elif isinstance(served.outcome, Stale):
        reason, detail = Forward.STALE, served.outcome.reason
    collapsed = served.result is Result.COLLAPSED
    stored = served.stored and not collapsed
    return forward_status(reason, stored=stored, collapsed=collapsed, detail=detail)
