"""What the layers said, in words; shown in the log, by ``explain`` and on the dashboard."""

from typing import assert_never

from stepwell.core.outcome import Bypass, Hit, Miss, Outcome, Stale


def say(outcome: Outcome) -> str:
    """Return one outcome in a few words."""
    match outcome:
        case Hit():
            return f"{outcome.layer}: hit in {outcome.tier}"
        case Stale():
            return f"{outcome.layer}: stale in {outcome.tier}, {outcome.reason}"
        case Miss(layer, ""):
            return f"{layer}: miss"
        case Miss(layer, detail):
            return f"{layer}: miss, {detail}"
        case Bypass():
            return f"bypass: {outcome.reason}"
        case _:
            assert_never(outcome)
