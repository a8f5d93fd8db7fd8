"""What in the head of a single request will probably be another one next time. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stepwell.core.names import Endpoint
from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.pieces import PieceCutter
from stepwell.policy.prompt_shape.prompt import Part, read_prompt
from stepwell.policy.prompt_shape.tokens import CountTokens, estimated_tokens
from stepwell.policy.prompt_shape.volatile import Span, volatile_spans

MAX_RISKS = 20

_HEAD = frozenset({Part.TOOLS, Part.SYSTEM})
_NOW = re.compile(r"\b(?:current|today|now|as of)\b|今天|今日|当前|现在|目前", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Risk:
    """A span that changes by itself, in front of what would be shared."""

    cause: Cause
    part: Part
    said: str
    at_token: int
    """Where it stands; all behind it is computed anew when it changes."""


@dataclass(frozen=True, slots=True)
class Risks:
    """Of one request."""

    prompt_tokens: int
    found: tuple[Risk, ...]
    """From left to right; at most `MAX_RISKS`."""

    @property
    def tokens_at_risk(self) -> int:
        """How many tokens stand behind the first of them."""
        return self.prompt_tokens - self.found[0].at_token if self.found else 0


def risks_of(
    endpoint: Endpoint, body: dict[str, Any], count_tokens: CountTokens = estimated_tokens
) -> Risks:
    """Return what will probably change in the tools and the system prompt of a request.

    A guess from one look, unlike what a log shows: a date that never changes is named only if the
    line says that it is now's. Tools or keys in another order cannot be seen here.
    """
    prompt = read_prompt(endpoint, body, PieceCutter(count_tokens))
    found: list[Risk] = []
    before = 0.0
    for segment in prompt.segments:
        if segment.part not in _HEAD:
            break
        text = "".join(piece.raw for piece in segment.pieces)
        for line_at, line, span in _in_lines(text):
            at = before + count_tokens(text[: line_at + span.start])
            said = line[span.start : span.end]
            found.append(Risk(span.cause, segment.part, said, round(at)))
            if len(found) == MAX_RISKS:
                return Risks(round(prompt.tokens), tuple(found))
        before += segment.tokens
    return Risks(round(prompt.tokens), tuple(found))


def _in_lines(text: str) -> Iterator[tuple[int, str, Span]]:
    at = 0
    for line in text.splitlines(keepends=True):
        says_now = _NOW.search(line) is not None
        for span in volatile_spans(line):
            if span.is_sure or (says_now and span.cause is Cause.TIMESTAMP):
                yield at, line, span
        at += len(line)
