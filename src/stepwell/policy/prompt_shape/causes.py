"""Why two prompts part that go on alike."""

from enum import StrEnum


class Cause(StrEnum):
    """What stands at a break. The value is its name in reports."""

    TIMESTAMP = "timestamp"
    """A date, a time of day, a Unix time."""
    ID = "id"
    """A session, a request, a trace, a nonce: a name nobody meets twice."""
    COUNTER = "counter"
    """``Request 17``, ``turn 3 of 20``."""
    USAGE = "usage counter"
    """Tokens, credits or requests used or left."""
    TOOL_ORDER = "tool order"
    JSON_ORDER = "JSON key order"
    WHITESPACE = "white space"
    DOCUMENT_ORDER = "document order"
    THINKING = "think block"
    """Thoughts that one turn has in its history and the next one has not."""
    USER_NAME = "user name"
    CONTENT = "content"
    """Other words: a prompt's own business, and no fault."""

    @property
    def is_fault(self) -> bool:
        """Whether the same could have been asked with the prefix kept."""
        return self is not Cause.CONTENT
