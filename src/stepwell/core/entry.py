"""What is stored: an answer, when it was made, and what it depends on."""

from dataclasses import dataclass

from stepwell.core.names import CacheKey, Endpoint, Form, Namespace, Partition, Position


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens an answer cost when it was made."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    """How many of the prompt's the model server had in its own prefix cache, as it says; ``None``
    where it does not say. At most ``prompt_tokens``."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete, successful (200) reply of a model server, byte for byte as it came.

    A stream is kept with its usage chunk, if the server sent one; `stepwell.wire`
    renders either form, with or without usage, from what is kept.
    """

    form: Form
    body: bytes


@dataclass(frozen=True, slots=True)
class SourceValue:
    """The value a named source of truth had when an answer was made (``faq:returns`` = ``v7``)."""

    name: str
    value: str


UNKNOWN_VALUE = "\0"
"""Stands for a source's value that is not known just now. Nobody can give a source this one, so no
answer is made under it."""


@dataclass(frozen=True, slots=True)
class Phrasing:
    """The words of a request that others may put otherwise, and what must be equal around them."""

    partition: Partition
    """All the rest of the request: who asks, whom, and everything but these words."""
    text: str
    """The user's last words, normalised as for the cache key."""
    temperature: float | None = None
    """Not in the partition: it may differ a little. ``None`` where the server decides."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer in a store.

    Times are seconds since the Unix epoch. ``created_at <= expires_at <= keep_until``.
    """

    key: CacheKey
    namespace: Namespace
    endpoint: Endpoint
    model: str
    """Model name as the caller gave it."""
    request_class: str
    """Name of the request class the entry was filled under."""
    answer: Answer
    created_at: float
    expires_at: float
    """Fresh before this moment."""
    keep_until: float
    """May be served stale (while revalidating, or when the upstream fails) before this moment;
    equal to ``expires_at`` where the class allows neither."""
    as_of: Position
    """Position of the change feed when the upstream was asked. An invalidation at a later
    position also removes an answer that was still on its way."""
    usage: Usage = Usage()
    upstream_seconds: float = 0.0
    """How long the model server took for the whole answer; what a hit saves."""
    sources: tuple[SourceValue, ...] = ()
    tags: tuple[str, ...] = ()
    phrasing: Phrasing | None = None
    """What the semantic layer may find it by; ``None``: it is found by its key only."""

    @property
    def size_bytes(self) -> int:
        """Bytes charged against a tier's byte bound: body, words, tags, a flat sum for the rest."""
        # Two bytes a character are what the interpreter takes for Chinese.
        words = 0 if self.phrasing is None else 2 * len(self.phrasing.text)
        tags = 2 * sum(map(len, self.tags)) + TAG_OVERHEAD_BYTES * len(self.tags)
        return len(self.answer.body) + words + tags + ENTRY_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Arrived:
    """That an entry came to a store."""

    key: CacheKey
    expires_at: float
    """With the key, tells the entry from one it replaced."""


ENTRY_OVERHEAD_BYTES = 1_000
"""Charged per entry for key, times, names and index slots; `benchmarks/memory_per_entry.py`
compares it with what the interpreter really takes."""

TAG_OVERHEAD_BYTES = 300
"""Charged for each tag: a string, and its place in an index, which is dearest for a tag that no
other entry carries."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which entries an invalidation means. Every field given must match; none given means all."""

    namespace: Namespace | None = None
    key: CacheKey | None = None
    model: str | None = None
    request_class: str | None = None
    tag: str | None = None

    def matches(self, entry: Entry) -> bool:
        """Return whether ``entry`` is meant. Costs five comparisons."""
        return (
            (self.namespace is None or self.namespace == entry.namespace)
            and (self.key is None or self.key == entry.key)
            and (self.model is None or self.model == entry.model)
            and (self.request_class is None or self.request_class == entry.request_class)
            and (self.tag is None or self.tag in entry.tags)
        )
