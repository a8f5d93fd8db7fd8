"""Repeats: requests whose answer can be told from memory without parsing, keying or judging.

What makes a request a repeat is a digest of its bytes, made by whoever reads them. Behind the
digest stands the `Question` that the long way made of the same bytes once and, while nothing but
time has passed, what is known of the reply it got.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry
from stepwell.core.events import RequestEnded, Result
from stepwell.core.names import CacheKey, Form
from stepwell.core.outcome import Hit
from stepwell.core.ports import EventSink
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.exchange import spell
from stepwell.pipeline.question import Question
from stepwell.pipeline.runner import Runner
from stepwell.pipeline.served import Served
from stepwell.policy.freshness import fresh_window

MAX_REMEMBERED = 50_000
"""Questions kept, and repeats; about 1.5 KB for both. The oldest is forgotten first and made again
when it is asked."""

_T = TypeVar("_T")


class Repeat(NamedTuple):
    """What is known of a reply that was given once. It holds no answer: that may be evicted."""

    question: Question
    key: CacheKey
    created_at: float
    """With the key, says which entry it was."""
    since: float
    until: float
    """While the entry is fresh, and nothing is to be done behind: ``since <= now < until``."""
    head: bytes
    """What stays the same of the reply's head, where it has one."""
    trail: str
    tenant: str


class Repeats:
    """Finds and counts repeats. One event loop; not thread-safe. Cost: two microseconds."""

    def __init__(
        self,
        runner: Runner,
        exact: ExactLayer,
        *,
        clock: Clock,
        events: EventSink,
        head_of: Callable[[Served], bytes],
    ) -> None:
        """Know nothing yet.

        Args:
            runner: Answers what is asked for the first time.
            exact: Holds the entries.
            clock: The time.
            events: Hears of every hit.
            head_of: Writes `Repeat.head`.
        """
        self._runner = runner
        self._exact = exact
        self._clock = clock
        self._events = events
        self._head_of = head_of
        self._questions: dict[bytes, Question] = {}
        self._repeats: dict[bytes, Repeat] = {}

    def remember(self, digest: bytes, question: Question) -> None:
        """Note what a request with this digest asks. Questions that bypass are not noted."""
        if question.key is not None:
            keep(self._questions, digest, question)

    def find(self, digest: bytes, now: float) -> tuple[Repeat, Entry] | None:
        """Return what the long way would serve now, if that is a hit in memory."""
        return self._again(digest, now) or self._first_time(digest)

    def body_of(self, repeat: Repeat, entry: Entry) -> bytes:
        """Return the reply's body."""
        return self._runner.render(entry, repeat.question.shape)

    def count(self, repeat: Repeat, entry: Entry, seconds: float) -> None:
        """Count the hit, which took so long."""
        question = repeat.question
        self._events.emit(
            RequestEnded(  # By position: this is made for every hit, and names cost as much again.
                _HIT,
                "exact",
                question.request_class.name,
                question.endpoint,
                question.model,
                question.upstream,
                200,
                question.shape.form is Form.SSE,
                seconds,
                seconds,
                entry.usage,
                entry.upstream_seconds,
                repeat.trail,
                repeat.tenant,
            )
        )

    def _again(self, digest: bytes, now: float) -> tuple[Repeat, Entry] | None:
        """Return what is known of a reply, if the long way would give the same one now.

        Of what it looks at, only the time and the entry can be otherwise than they were: replies
        that depend on a source are not kept.
        """
        repeat = self._repeats.get(digest)
        if repeat is None or not repeat.since <= now < repeat.until:
            return None
        entry = self._exact.peek(repeat.key)
        if entry is None or entry.created_at != repeat.created_at:
            return None
        return repeat, entry

    def _first_time(self, digest: bytes) -> tuple[Repeat, Entry] | None:
        """Ask the runner; keep what is known of the reply if nothing but time can change it."""
        self._repeats.pop(digest, None)
        question = self._questions.get(digest)
        served = None if question is None else self._runner.answer_now(question)
        if question is None or served is None or not isinstance(served.outcome, Hit):
            return None
        entry = served.outcome.entry
        window = fresh_window(entry, question.directives, question.request_class)
        repeat = Repeat(
            question,
            entry.key,
            entry.created_at,
            window.since,
            min(window.until, self._runner.alone_until(question, entry)),
            self._head_of(served),
            served.trail[0],
            spell(question.namespace),
        )
        if not (entry.sources or question.sources or question.request_class.sources):
            keep(self._repeats, digest, repeat)
        return repeat, entry


def keep(kept: dict[bytes, _T], digest: bytes, value: _T) -> None:
    """Put ``value`` where at most `MAX_REMEMBERED` are, the oldest first out."""
    if len(kept) >= MAX_REMEMBERED and digest not in kept:
        del kept[next(iter(kept))]
    kept[digest] = value


_HIT = Result.HIT
