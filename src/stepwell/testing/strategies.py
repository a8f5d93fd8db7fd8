"""Hypothesis strategies for the nouns of the core.

What they choose from can be narrowed, so that two of them meet in the same keys and names.
"""

from hypothesis import strategies as st

from stepwell.core.entry import Answer, Entry, Phrasing, Selector, SourceValue, Usage
from stepwell.core.names import CacheKey, Endpoint, Form, Namespace, Partition, Position

KEYS = st.binary(min_size=32, max_size=32).map(CacheKey)
"""Any cache key."""

NAMESPACES = st.binary(min_size=16, max_size=16).map(Namespace)
"""Any namespace."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Any Unicode but lone surrogates, which no JSON parser of ours lets in."""

PHRASINGS = st.builds(
    Phrasing,
    st.binary(min_size=32, max_size=32).map(Partition),
    TEXTS,
    st.none() | st.floats(min_value=0.0, max_value=2.0),
)
"""Any phrasing."""

_COUNTS = st.integers(min_value=0, max_value=2**40)
_USAGES = st.builds(Usage, _COUNTS, _COUNTS) | st.builds(
    lambda prompt, completion, uncached: Usage(prompt + uncached, completion, prompt),
    *(_COUNTS, _COUNTS, _COUNTS),
)
_SECONDS = st.floats(min_value=0.0, max_value=3_600.0)


def entries(
    *,
    keys: st.SearchStrategy[CacheKey] = KEYS,
    namespaces: st.SearchStrategy[Namespace] = NAMESPACES,
    texts: st.SearchStrategy[str] = TEXTS,
    earliest: float = 0.0,
) -> st.SearchStrategy[Entry]:
    """Return any entry.

    Args:
        keys: Its keys.
        namespaces: Its namespaces.
        texts: Its models, request classes, tags, and names and values of sources.
        earliest: None of its times is before; seconds since the Unix epoch.
    """
    moments = st.floats(min_value=earliest, max_value=earliest + 1e10)

    @st.composite
    def build(draw: st.DrawFn) -> Entry:
        created_at, expires_at, keep_until = sorted(draw(st.tuples(moments, moments, moments)))
        return Entry(
            key=draw(keys),
            namespace=draw(namespaces),
            endpoint=draw(st.sampled_from(Endpoint)),
            model=draw(texts),
            request_class=draw(texts),
            answer=Answer(draw(st.sampled_from(Form)), draw(st.binary(max_size=200))),
            created_at=created_at,
            expires_at=expires_at,
            keep_until=keep_until,
            as_of=Position(draw(_COUNTS)),
            usage=draw(_USAGES),
            upstream_seconds=draw(_SECONDS),
            sources=tuple(draw(st.lists(st.builds(SourceValue, texts, texts), max_size=3))),
            tags=tuple(draw(st.lists(texts, max_size=3))),
            phrasing=draw(st.none() | PHRASINGS),
        )

    return build()


def selectors(
    *,
    keys: st.SearchStrategy[CacheKey] = KEYS,
    namespaces: st.SearchStrategy[Namespace] = NAMESPACES,
    texts: st.SearchStrategy[str] = TEXTS,
) -> st.SearchStrategy[Selector]:
    """Return any selector; the arguments are as for `entries`."""
    return st.builds(
        Selector,
        namespace=st.none() | namespaces,
        key=st.none() | keys,
        model=st.none() | texts,
        request_class=st.none() | texts,
        tag=st.none() | texts,
    )
