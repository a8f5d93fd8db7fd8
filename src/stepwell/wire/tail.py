"""Reads what a reply says it cost while it passes, whatever else becomes of it."""

import json

from stepwell.core.entry import Usage
from stepwell.wire.counts import read_counts

TAIL_BYTES = 8_192
"""Usage comes last, in streams and in most other answers."""

_MEMBERS = ("usage", "timings")

_DECODER = json.JSONDecoder()


class Tail:
    """The last bytes of a body. Costs 0.2 us a chunk."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = b""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._bytes = (self._bytes + chunk)[-TAIL_BYTES:]

    def usage(self) -> Usage | None:
        """Return what the body says it cost; ``None`` if it does not say, or says it elsewhere.

        The members are looked for as text: an answer that speaks of usage as JSON, inside a
        string, has its quotes escaped.
        """
        text = self._bytes.decode(errors="replace")
        return read_counts({name: _last_object(text, name) for name in _MEMBERS}).usage


def _last_object(text: str, name: str) -> object:
    """Return the last object that is a member of that name."""
    spelled = f'"{name}"'
    at = text.rfind(spelled)
    while at >= 0:
        start = text.find("{", at)
        if text[at + len(spelled) : start].strip() == ":":
            try:
                return _DECODER.raw_decode(text, start)[0]
            except ValueError:
                pass
        at = text.rfind(spelled, 0, at)
    return None
