"""From a reply that has come to its end to an entry, or to the reason why not."""

from dataclasses import dataclass

from stepwell.core.entry import Answer, Entry, SourceValue, Usage
from stepwell.core.names import Position
from stepwell.pipeline.question import Question
from stepwell.policy.freshness import expiry
from stepwell.policy.gates import Gate, refusal
from stepwell.wire.cache_groups import TooManyGroups, UnreadableGroups, read_groups
from stepwell.wire.summary import Summary


@dataclass(frozen=True, slots=True)
class Made:
    """Under which circumstances an answer was made; noted before the upstream was asked."""

    as_of: Position
    sources: tuple[SourceValue, ...]
    last_invalidation: Position
    """The latest that was known."""

    def suits(self, last_invalidation: Position, sources: tuple[SourceValue, ...]) -> bool:
        """Return whether the answer is good for who knows of this invalidation and these sources.

        Else it may be of what has been invalidated, or was made under other values, and must not
        be shared with a request that came later.
        """
        return self.as_of >= last_invalidation and self.sources == sources


@dataclass(frozen=True, slots=True)
class Came:
    """A reply that came to its end."""

    status: int
    """Of HTTP."""
    answer: Answer
    """The whole body."""
    summary: Summary
    """What it says about itself."""
    upstream_seconds: float
    """How long it took."""
    groups_field: str = ""
    """What the model server says it belongs to: ``Cache-Groups``."""


def fill(question: Question, came: Came, made: Made, now: float) -> Entry | Gate:
    """Return ``answer`` as an entry, or the write gate that refuses it.

    Args:
        question: What was asked. It has a key: a bypassed question is never filled.
        came: The reply to it.
        made: Noted before the upstream was asked.
        now: The time the answer was complete, from which its life counts.
    """
    directives, request_class = question.directives, question.request_class
    gate = refusal(directives, request_class, came.status, came.summary, len(came.answer.body))
    if gate is not None:
        return gate
    if question.key is None or question.namespace is None:
        return Gate.CLASS_NEVER
    try:
        groups = read_groups(came.groups_field)
    except TooManyGroups:
        return Gate.GROUPS
    except UnreadableGroups:
        groups = ()  # Whoever reads the head of the reply has told.
    lifetime = expiry(request_class, directives, now)
    return Entry(
        key=question.key,
        namespace=question.namespace,
        endpoint=question.endpoint,
        model=question.model,
        request_class=request_class.name,
        answer=came.answer,
        created_at=now,
        expires_at=lifetime.expires_at,
        keep_until=lifetime.keep_until,
        as_of=made.as_of,
        usage=came.summary.usage or Usage(),
        upstream_seconds=came.upstream_seconds,
        sources=made.sources,
        # Groups are tags that the model server gives.
        tags=tuple(dict.fromkeys(question.tags + groups)),
        phrasing=question.phrasing,
    )
