"""Entries for tests."""

import hashlib

from stepwell.core.entry import Answer, Entry, Phrasing, SourceValue, Usage
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import CacheKey, Endpoint, Form, Namespace, PairId, Partition, Position


def make_key(name: str) -> CacheKey:
    """Return a cache key that stands for ``name``."""
    return CacheKey(hashlib.sha256(name.encode()).digest())


def make_namespace(name: str) -> Namespace:
    """Return a namespace that stands for ``name``."""
    return Namespace(hashlib.sha256(name.encode()).digest()[:16])


def make_phrasing(
    text: str, *, partition: str = "partition", temperature: float | None = 1.0
) -> Phrasing:
    """Return the words of a request in the partition that stands for ``partition``."""
    digest = hashlib.sha256(partition.encode()).digest()
    return Phrasing(Partition(digest), text, temperature)


def make_judgement(
    pair: PairId,
    key: CacheKey,
    similarity: float = 0.95,
    verdict: Verdict = Verdict.WRONG,
    judged_at: float = 1_000.0,
) -> Judgement:
    """Return a judgement."""
    return Judgement(pair, key, similarity, verdict, judged_at)


def make_entry(  # noqa: PLR0913  (one keyword per thing a test may care about)
    name: str = "question",
    *,
    namespace: str = "tenant",
    model: str = "model",
    request_class: str = "general",
    body: bytes = b'{"object":"chat.completion","choices":[]}',
    form: Form = Form.JSON,
    created_at: float = 1_000.0,
    ttl_seconds: float = 3_600.0,
    stale_seconds: float = 0.0,
    as_of: int = 0,
    sources: tuple[SourceValue, ...] = (),
    tags: tuple[str, ...] = (),
    phrasing: Phrasing | None = None,
) -> Entry:
    """Return an entry; everything not given has a plain value."""
    return Entry(
        key=make_key(name),
        namespace=make_namespace(namespace),
        endpoint=Endpoint.CHAT,
        model=model,
        request_class=request_class,
        answer=Answer(form, body),
        created_at=created_at,
        expires_at=created_at + ttl_seconds,
        keep_until=created_at + ttl_seconds + stale_seconds,
        as_of=Position(as_of),
        usage=Usage(prompt_tokens=7, completion_tokens=11),
        upstream_seconds=0.5,
        sources=sources,
        tags=tags,
        phrasing=phrasing,
    )
