"""Write gates: the reasons an answer is not stored, in one fixed order."""

from enum import StrEnum

from stepwell.policy.classes import RequestClass
from stepwell.wire.controls import Directives
from stepwell.wire.summary import Summary


class Gate(StrEnum):
    """Why an answer is not stored. Members stand in the order in which they are asked."""

    NO_STORE = "no_store"
    """The caller said so."""
    CLASS_NEVER = "class_never"
    """The class has a TTL of 0."""
    TTL = "ttl"
    """The caller's own ``ttl`` is 0 or less: it would expire at once."""
    STATUS = "status"
    """Anything but 200. An error must not be replayed as an answer."""
    INCOMPLETE = "incomplete"
    """The answer broke off, could not be read, or holds an error event."""
    EMPTY = "empty"
    """Nothing in it: most likely a fault of the model server, worth asking again."""
    FILTERED = "filtered"
    """A content filter cut it: part of an answer, and filters change."""
    TRUNCATED = "truncated"
    """It stopped at a length limit, and the class does not store such answers."""
    TOO_LARGE = "too_large"
    """Larger than the class allows."""
    GROUPS = "groups"
    """The model server names more groups than are kept: it could not be invalidated by all."""


def refusal_in_advance(directives: Directives, request_class: RequestClass) -> Gate | None:
    """Return the gate that holds whatever the answer will be, or ``None``.

    Known before the upstream is asked, so that an answer nobody may store need not be kept in
    memory while it streams by.
    """
    if directives.no_store:
        return Gate.NO_STORE
    if not request_class.is_cached:
        return Gate.CLASS_NEVER
    if directives.ttl_seconds <= 0:
        return Gate.TTL
    return None


def refusal(
    directives: Directives,
    request_class: RequestClass,
    status: int,
    summary: Summary | None,
    size_bytes: int,
) -> Gate | None:
    """Return the first gate that refuses to store an answer, or ``None`` if it may be stored.

    Args:
        directives: What the caller allows.
        request_class: The class of the request.
        status: HTTP status of the upstream's reply.
        summary: What the answer says about itself; ``None`` if it could not be read.
        size_bytes: Length of the body as it would be stored.
    """
    in_advance = refusal_in_advance(directives, request_class)
    if in_advance is not None:
        return in_advance
    if status != 200:  # noqa: PLR2004  (HTTP's own number)
        return Gate.STATUS
    if summary is None:
        return Gate.INCOMPLETE
    content = _refusal_of_content(summary, request_class)
    if content is None and size_bytes > request_class.max_answer_bytes:
        return Gate.TOO_LARGE
    return content


def _refusal_of_content(summary: Summary, request_class: RequestClass) -> Gate | None:
    if not summary.complete:
        return Gate.INCOMPLETE
    if summary.empty:
        return Gate.EMPTY
    if summary.filtered:
        return Gate.FILTERED
    if summary.truncated and not request_class.store_truncated:
        return Gate.TRUNCATED
    return None
