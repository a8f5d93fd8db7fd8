"""What steering calls to model servers needs from the world, and what it tells."""

from typing import Protocol, runtime_checkable

from stepwell.core.kv import Tokens
from stepwell.core.ports import Call


class TokensUnavailable(Exception):
    """The tokens of a prompt cannot be had, now or at all. Nobody's request fails by that."""


class TokenSource(Protocol):
    """Knows how a model server reads a prompt. Safe for many tasks on one event loop."""

    async def tokens(self, call: Call) -> Tokens:
        """Return the ids of the prompt's tokens, template and special ones included.

        Raises:
            TokensUnavailable: Not within the time there is, or there is no single prompt.
        """
        ...


@runtime_checkable
class SupportsNotes(Protocol):
    """A reply about whose call there is something to say."""

    @property
    def noted(self) -> tuple[str, ...]:
        """What, for the trail."""
        ...
