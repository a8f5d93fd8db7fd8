"""What a question came to: kept, so that it need not be embedded and searched again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stepwell.client.memo import Memo
from stepwell.core.documents import CollectionState
from stepwell.core.names import Tier
from stepwell.rag.reply import Quoted
from stepwell.rag.template import Template


class Remembered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request a question came to, and the passages in it. Not the answer: that is kept under
    the request, and expires by its own rules.
    """

    request: dict[str, Any]
    passages: tuple[Quoted, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Requests by question, and by all that they depend on.

    A collection's epoch is in the key: after any change in it the question is searched anew, and
    comes to the same request if its passages are the same.
    """

    memo: Memo
    template: Template
    top: int

    async def find(self, question: str, state: CollectionState) -> tuple[Remembered, Tier] | None:
        """Return what ``question`` came to while the collection was as it is."""
        found = await self.memo.find(self._parts(question, state))
        if found is None:
            return None
        value, tier = found
        try:
            return msgspec.json.decode(value, type=Remembered), tier
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None  # Another version wrote it.

    async def keep(self, question: str, state: CollectionState, came_to: Remembered) -> None:
        """Keep what ``question`` came to."""
        await self.memo.put(self._parts(question, state), msgspec.json.encode(came_to))

    def _parts(self, question: str, state: CollectionState) -> Sequence[str]:
        numbers = (state.collection, state.epoch, state.serving, self.top)
        return (question, self.template.fingerprint, *map(str, numbers))
