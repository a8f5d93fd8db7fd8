"""Decisions of the walk, without I/O: from what was asked and found to what is done next."""

from dataclasses import dataclass
from typing import assert_never

from stepwell.core.errors import RequestError
from stepwell.core.outcome import Bypass, Hit, Miss, Outcome, Stale
from stepwell.pipeline.question import Question
from stepwell.policy.freshness import (
    may_serve_expired,
    may_serve_on_error,
    may_serve_while_revalidating,
)
from stepwell.policy.gates import refusal_in_advance


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the layers."""


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer with what was found."""

    outcome: Hit | Stale
    refresh: bool = False
    """Fetch a new answer behind this one."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Ask the model server."""

    outcome: Outcome
    fill: bool
    """Whether the answer may be stored."""
    share: bool
    """Whether others may read the same reply, and this request another's."""
    fallback: Stale | None = None
    """What may be served if the model server fails."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error; nothing may be sent upstream."""

    error: RequestError


Step = Serve | Forward | Refuse


def first_step(question: Question) -> LookUp | Forward | Refuse:
    """Decide whether the layers are asked at all."""
    directives = question.directives
    if question.bypass is not None:
        if directives.only_if_cached:
            return _unmet("this request is never answered from the cache")
        return Forward(Bypass(question.bypass), fill=False, share=False)
    if directives.no_cache:
        if directives.only_if_cached:
            return _unmet("it says no-cache, too")
        return Forward(Bypass("no-cache"), fill=_may_fill(question), share=False)
    return LookUp()


def next_step(question: Question, found: Hit | Stale | Miss, now: float) -> Step:
    """Decide what follows from what the layers found."""
    match found:
        case Hit():
            return Serve(found)
        case Stale():
            return _after_stale(question, found, now)
        case Miss():
            return _forward(question, found)
        case _:
            assert_never(found)


def _after_stale(question: Question, stale: Stale, now: float) -> Step:
    request_class, directives = question.request_class, question.directives
    if may_serve_expired(stale, request_class, directives, now):
        return Serve(stale)
    if may_serve_while_revalidating(stale, request_class, now):
        refresh = _may_fill(question) and not directives.only_if_cached
        return Serve(stale, refresh=refresh)
    on_error = may_serve_on_error(stale, request_class, now)
    return _forward(question, stale, stale if on_error else None)


def _forward(
    question: Question, outcome: Stale | Miss, fallback: Stale | None = None
) -> Forward | Refuse:
    if question.directives.only_if_cached:
        return _unmet("no layer has a fresh one")
    # An answer that must not be stored must not be read by others while it comes, either.
    fill = _may_fill(question)
    return Forward(outcome, fill=fill, share=fill, fallback=fallback)


def _may_fill(question: Question) -> bool:
    return refusal_in_advance(question.directives, question.request_class) is None


NOT_CACHED = "only_if_cached"
"""Code of the error that answers an unmet ``only-if-cached``."""


def _unmet(why: str) -> Refuse:
    return Refuse(unmet(why))


def unmet(why: str) -> RequestError:
    """Return what tells a caller that ``only-if-cached`` cannot be met."""
    message = f"only-if-cached: the cache has no answer that may be served ({why})."
    return RequestError(message, status=504, code=NOT_CACHED)
