"""LangChain: answers of language models, kept.

::

    from langchain_core.globals import set_llm_cache

    set_llm_cache(StepwellCache(data_dir=Path("answers")))
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from langchain_core.caches import BaseCache
from langchain_core.messages import message_to_dict, messages_from_dict
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    Generation,
    GenerationChunk,
)

from stepwell.assembly.settings import Settings
from stepwell.client.given import settings_of
from stepwell.client.memo import OwnMemo
from stepwell.client.portal import Portal

TTL_SECONDS = 3_600.0

_PURPOSE = "langchain"

_KINDS: Mapping[str, type[Generation]] = {
    kind.__name__: kind
    for kind in (Generation, GenerationChunk, ChatGeneration, ChatGenerationChunk)
}
"""What is made again of stored bytes, with messages of LangChain's own kinds. Nothing else is,
whoever could write into the store."""


class StepwellCache(BaseCache):
    """Implements LangChain's cache of answers over Stepwell's exact layer.

    An answer is found again by the same prompt and the same model with the same parameters. It
    expires, its tiers are bounded, and processes with the same data directory or Redis share it.
    A store that fails costs time, never an answer. Safe in threads and on any event loop: the
    stores are on a loop of their own.
    """

    def __init__(
        self,
        settings: Settings | Mapping[str, Any] | Path | str | None = None,
        *,
        data_dir: Path | str | None = None,
        tenant: str = "default",
        ttl_seconds: float = TTL_SECONDS,
    ) -> None:
        """Open the cache.

        Args:
            settings: As the settings file has them: parsed, as plain tables, or the file. Of
                them, ``stores`` counts here.
            data_dir: Where answers are kept, shared with other processes. Without it they stay
                in memory.
            tenant: Whose answers these are. Tenants share none.
            ttl_seconds: How long an answer is kept.

        Raises:
            ConfigError: A setting is wrong.
            StoreUnavailable: The data directory cannot be used.
        """
        directory = None if data_dir is None else Path(data_dir)
        opening = OwnMemo.open(
            settings_of(settings), directory, tenant, purpose=_PURPOSE, ttl_seconds=ttl_seconds
        )
        self._portal = Portal()
        try:
            self._own = self._portal.call(opening)
        except BaseException:
            self._portal.close()
            raise

    def lookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """Return the answer to ``prompt``, or ``None``."""
        return _read(self._portal.call(self._own.memo.get((prompt, llm_string))))

    async def alookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """Return the answer to ``prompt``, or ``None``."""
        getting = self._portal.start(self._own.memo.get((prompt, llm_string)))
        return _read(await asyncio.wrap_future(getting))

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        """Keep an answer; what cannot be written as JSON and read again is not kept."""
        if (value := _written(return_val)) is not None:
            self._portal.call(self._own.memo.put((prompt, llm_string), value))

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        """Keep an answer, as `update`."""
        if (value := _written(return_val)) is not None:
            putting = self._portal.start(self._own.memo.put((prompt, llm_string), value))
            await asyncio.wrap_future(putting)

    def clear(self, **_options: object) -> None:
        """Remove this tenant's answers, for all who share the stores.

        Raises:
            StoreError: It could not be done everywhere.
        """
        self._portal.call(self._own.memo.clear())

    async def aclear(self, **_options: object) -> None:
        """Remove this tenant's answers, as `clear`."""
        await asyncio.wrap_future(self._portal.start(self._own.memo.clear()))

    def close(self) -> None:
        """Write what is pending and close the stores. May be called twice."""
        if not self._portal.closed:
            self._portal.call(self._own.aclose())
            self._portal.close()


def _written(answer: Sequence[Generation]) -> bytes | None:
    """Return an answer as JSON, if it is the same when it is read again."""
    try:
        value = orjson.dumps([_told(one) for one in answer])
    except (TypeError, ValueError):  # Pydantic's errors are `ValueError`, orjson's `TypeError`.
        return None
    return value if _read(value) == list(answer) else None


def _told(one: Generation) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": type(one).__name__, "generation_info": one.generation_info}
    if isinstance(one, ChatGeneration):
        return {**told, "message": message_to_dict(one.message)}
    return {**told, "text": one.text}


def _read(value: bytes | None) -> list[Generation] | None:
    """Return an answer that was written; ``None`` if there is none, or another version wrote it."""
    if value is None:
        return None
    try:
        answer = [_made(told) for told in orjson.loads(value)]
    except (TypeError, ValueError, LookupError, AttributeError):
        return None
    return answer or None  # Who asks takes the first of them.


def _made(told: dict[str, Any]) -> Generation:
    kind = _KINDS[told.pop("kind")]
    if (message := told.pop("message", None)) is not None:
        [told["message"]] = messages_from_dict([message])
    return kind(**told)
