"""What an answer says about itself, as far as storing it goes."""

from dataclasses import dataclass

from stepwell.core.entry import Usage


@dataclass(frozen=True, slots=True)
class Summary:
    """Facts read from a whole answer, JSON or stream."""

    complete: bool
    """The answer is well-formed and came to its end (``[DONE]``, ``response.completed``, ...);
    no error event is in it."""
    empty: bool
    """No choice or output item carries text, a tool call, a refusal, reasoning or the like."""
    truncated: bool
    """At least one choice stopped at a length limit (``finish_reason: length``,
    ``incomplete_details.reason: max_output_tokens``)."""
    filtered: bool
    """A content filter cut at least one choice."""
    usage: Usage | None
    """Tokens, if the answer says."""
