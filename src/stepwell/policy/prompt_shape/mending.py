"""What mends a break: one of our rewrites, or who builds the prompt."""

from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.prompt import Part
from stepwell.policy.prompt_shape.reshaping import Rewrite

_IN_TOOLS = {Cause.TOOL_ORDER: Rewrite.TOOLS, Cause.JSON_ORDER: Rewrite.JSON}
_IN_SYSTEM_PROMPT = {
    Cause.TIMESTAMP: Rewrite.TIMESTAMPS,
    Cause.ID: Rewrite.IDS,
    Cause.COUNTER: Rewrite.COUNTERS,
    Cause.USAGE: Rewrite.COUNTERS,
    Cause.WHITESPACE: Rewrite.WHITESPACE,
}
_BY_HAND = {
    Cause.TOOL_ORDER: "give tools in a fixed order",
    Cause.JSON_ORDER: "write JSON with its keys in a fixed order",
    Cause.WHITESPACE: "write blanks and line ends the same way each time",
    Cause.DOCUMENT_ORDER: "give documents in a fixed order, such as by their ids",
    Cause.THINKING: "keep thoughts in the history always, or never",
    Cause.CONTENT: "put what differs behind what is common, if that says the same",
}
_AT_THE_END = "say it at the end of the prompt"


def rewrite_for(cause: Cause, part: Part) -> Rewrite | None:
    """Return the rewrite for a cause; ``None``: only who builds the prompt can mend it.

    Of what changes by itself a rewrite takes whole sentences that say nothing else; see
    `stepwell.policy.prompt_shape.movable`.
    """
    if part is Part.TOOLS:
        return _IN_TOOLS.get(cause)
    return _IN_SYSTEM_PROMPT.get(cause) if part is Part.SYSTEM else None


def advice_for(cause: Cause) -> str:
    """Return what who builds the prompt can do about a cause."""
    return _BY_HAND.get(cause, _AT_THE_END)
