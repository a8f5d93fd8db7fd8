"""A prefix cache for the fake upstream: it computes nothing, but reports like one."""

import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.testing.fake_answers import last_text

MAX_PROMPTS = 1_000


class FakePrefixCache:
    """Remembers prompts, word by word, apart for each salt. A word is a token."""

    def __init__(self) -> None:
        self._prompts: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def read(self, body: Mapping[str, Any]) -> tuple[int, int]:
        """Return how many tokens a prompt has, and how many of them are cached; remember it."""
        salt = str(body.get("cache_salt", ""))
        prompt = (salt, str(body.get("model")), *words_of(body))
        ahead = 2
        cached = max((_shared(prompt, known) for known in self._prompts), default=0) - ahead
        self._prompts[prompt] = None
        if len(self._prompts) > MAX_PROMPTS:
            self._prompts.popitem(last=False)
        tokens = len(prompt) - ahead
        return tokens, min(max(0, cached), tokens - 1)  # the last one is always computed

    def clear(self) -> None:
        """Forget all, as a restart does."""
        self._prompts.clear()


def words_of(body: Mapping[str, Any]) -> list[str]:
    """Return what the template makes of a request."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return str(body.get("prompt", "")).split()
    words: list[str] = []
    for message in messages:
        turn = message if isinstance(message, dict) else {"content": message}
        words += [f"<{turn.get('role')}>", *last_text(turn.get("content")).split()]
    return [*words, "<assistant>"]


def ids_of(words: Sequence[str]) -> list[int]:
    """Return the tokens' ids."""
    return [zlib.crc32(word.encode()) & 0x7FFF_FFFF for word in words]


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
