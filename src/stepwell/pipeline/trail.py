"""What the layers said, in words; shown in the log, by ``explain`` and on the dashboard."""

from typing import assert_never

from stepwell.core.entry import Usage
from stepwell.core.outcome import Bypass, Hit, Miss, Outcome, Stale


def trail_of(outcome: Outcome) -> tuple[str, ...]:
    """Return what every layer said, in order."""
    before = outcome.before if isinstance(outcome, Hit | Miss) else ()
    return (*before, say(outcome))


def say(outcome: Outcome) -> str:
    """Return what the last layer said, in a few words."""
    match outcome:
        case Hit(similarity=float(similarity)):
            return f"{outcome.layer}: hit in {outcome.tier}, {similarity:.3f} alike"
        case Hit():
            return f"{outcome.layer}: hit in {outcome.tier}"
        case Stale():
            return f"{outcome.layer}: stale in {outcome.tier}, {outcome.reason}"
        case Miss():
            return _say_miss(outcome)
        case Bypass():
            return f"bypass: {outcome.reason}"
        case _:
            assert_never(outcome)


def say_prefix(usage: Usage) -> str:
    """Return how much of a prompt the model server had cached; empty where it does not say."""
    if usage.cached_tokens is None:
        return ""
    return f"prefix: {usage.cached_tokens} of {usage.prompt_tokens} tokens"


def _say_miss(miss: Miss) -> str:
    match miss:
        case Miss(layer, withheld=Hit(similarity=float(similarity))):
            return f"{layer}: would hit, {similarity:.3f} alike (shadow)"
        case Miss(layer, ""):
            return f"{layer}: miss"
        case Miss(layer, detail):
            return f"{layer}: miss, {detail}"
