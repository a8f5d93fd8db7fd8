"""How much of each prompt an earlier one began with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from stepwell.core.names import Endpoint
from stepwell.study.analysis.recent import Recent

BLOCK_BYTES = 64
"""Some 16 tokens, the block of most engines. Only whole blocks are shared."""

MAX_BLOCKS = 1_000_000
"""Blocks remembered at least; what was not met for long is forgotten."""

_MAX_BYTES = 8 << 20
"""A prompt is looked at up to here."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A prompt, and how much of it is known."""

    prompt_bytes: int
    shared_bytes: int


class Prefixes:
    """The beginnings of prompts, by model, as chains of blocks. Not thread-safe.

    A block counts only behind the same blocks as before, so sharing ends at the first difference.
    """

    def __init__(self) -> None:
        """Know none."""
        self._seen = Recent(MAX_BLOCKS)

    def take(self, endpoint: Endpoint, body: Mapping[str, Any]) -> Shared:
        """Return how much of a prompt began an earlier one, and remember it.

        Cost: some 30 us for 10 kB.
        """
        prompt = _prompt(endpoint, body)
        # Seeded by the interpreter, so that no log can be written to collide.
        link = hash((body.get("model"), endpoint))
        shared, is_shared = 0, True
        for start in range(0, len(prompt) - BLOCK_BYTES + 1, BLOCK_BYTES):
            link = hash((link, prompt[start : start + BLOCK_BYTES]))
            is_shared = self._seen.meet(link) and is_shared
            shared += BLOCK_BYTES * is_shared
        return Shared(len(prompt), shared)


def _prompt(endpoint: Endpoint, body: Mapping[str, Any]) -> bytes:
    """Return what the model reads, in the order in which chat templates put it."""
    if endpoint is Endpoint.COMPLETIONS:
        parts = [body.get("prompt")]
    elif endpoint is Endpoint.RESPONSES:
        parts = [body.get("tools"), body.get("instructions"), body.get("input")]
    else:
        parts = [body.get("tools") or body.get("functions"), body.get("messages")]
    written = [
        orjson.dumps(part, option=orjson.OPT_SORT_KEYS) for part in parts if part is not None
    ]
    # The closing bracket of a conversation is not in the longer one.
    return b"".join(written)[:_MAX_BYTES].rstrip(b"]")
