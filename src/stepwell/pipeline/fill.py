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
    """Under which circumstances an answer was made; noted before the upstream was asked.

    But for ``groups``, which come with the head of its reply.
    """

    as_of: Position
    sources: tuple[SourceValue, ...]
    last_invalidation: Position
    """The latest that was known."""
    groups: str = ""
    """What the model server says it belongs to: the field ``Cache-Groups``."""

    def suits(self, last_invalidation: Position, sources: tuple[SourceValue, ...]) -> bool:
        """Return whether the answer is good for who knows of this invalidation and these sources.

        Else it may be of what has been invalidated, or was made under other values, and must not
        be shared with a request that came later.
        """
        return self.as_of >= last_invalidation and self.sources == sources


def fill(
    question: Question,
    status: int,
    answer: Answer,
    summary: Summary,
    made: Made,
    upstream_seconds: float,
    now: float,
) -> Entry | Gate:
    """Return ``answer`` as an entry, or the write gate that refuses it.

    Args:
        question: What was asked. It has a key: a bypassed question is never filled.
        status: HTTP status of the reply.
        answer: The whole body.
        summary: What the answer says about itself.
        made: Under which circumstances it was made.
        upstream_seconds: How long the upstream took.
        now: The time the answer was complete, from which its life counts.
    """
    directives, request_class = question.directives, question.request_class
    gate = refusal(directives, request_class, status, summary, len(answer.body))
    if gate is not None:
        return gate
    if question.key is None or question.namespace is None:
        return Gate.CLASS_NEVER
    try:
        groups = read_groups(made.groups)
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
        answer=answer,
        created_at=now,
        expires_at=lifetime.expires_at,
        keep_until=lifetime.keep_until,
        as_of=made.as_of,
        usage=summary.usage or Usage(),
        upstream_seconds=upstream_seconds,
        sources=made.sources,
        # Groups are tags that the model server gives.
        tags=tuple(dict.fromkeys(question.tags + groups)),
        phrasing=question.phrasing,
    )
