"""What a vLLM server says of itself on its metrics page: its run, and its memory for prefixes."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

from stepwell.engines.own_page import metrics_page
from stepwell.engines.token_sources import Forwards

EVERY_SECONDS = 15.0
"""A page takes the server milliseconds; a restart is heard of by other signs, too."""

_STARTED = re.compile(r"^process_start_time_seconds (\S+)$", re.MULTILINE)
_CONFIG = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)
_LABEL = re.compile(r'(?:^|,)(\w{1,64})="([^"]{0,256})"')

_MAX_CONFIG = 16_384
"""Characters of the line that tells of the cache; vLLM's has some 1,200."""

_MAX_DIGITS = 12


@dataclass(frozen=True, slots=True)
class VllmFacts:
    """What is said; nothing of it need be."""

    started: str | None = None
    """When the process started, as it is written: another one has nothing of what was before."""
    block_tokens: int | None = None
    room_tokens: int | None = None
    """How many tokens' KV there is room for."""
    caches_prefixes: bool = True
    """``False`` only where the server says so."""


def read_facts(page: str) -> VllmFacts:
    """Return what a metrics page says (vLLM 0.32; earlier ones say less). Costs 0.2 ms."""
    started = _STARTED.search(page)
    config = _CONFIG.search(page)
    labels = dict(_LABEL.findall(config.group(1)[:_MAX_CONFIG])) if config else {}
    return VllmFacts(
        started=started.group(1) if started else None,
        block_tokens=_count(labels.get("block_size")),
        room_tokens=_count(labels.get("kv_cache_size_tokens")),
        caches_prefixes=labels.get("enable_prefix_caching") != "False",
    )


def _count(said: str | None) -> int | None:
    if said is None or not said.isdecimal() or len(said) > _MAX_DIGITS:
        return None
    return int(said) or None


class VllmWatch:
    """Looks at one server's page again and again. One event loop."""

    def __init__(self, server: Forwards, take: Callable[[VllmFacts], None]) -> None:
        """Begin to look, in the background.

        Args:
            server: Its root.
            take: Called with what the page says, each time. Must not raise.
        """
        self._server = server
        self._task = asyncio.create_task(self._watch(take))

    async def aclose(self) -> None:
        """Stop. May be called twice."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, take: Callable[[VllmFacts], None]) -> None:
        while True:
            page = await metrics_page(self._server, timeout_seconds=EVERY_SECONDS)
            if page is not None:
                take(read_facts(page))
            await asyncio.sleep(EVERY_SECONDS)
