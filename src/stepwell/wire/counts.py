"""What an answer says it cost, under the names that servers have for it. Pure; nothing here raises.

How many of the prompt's tokens came out of the server's own prefix cache is told in five ways:

* OpenAI, vLLM, SGLang, llama.cpp: ``usage.prompt_tokens_details.cached_tokens``, in responses
  ``usage.input_tokens_details.cached_tokens``;
* DeepSeek: ``usage.prompt_cache_hit_tokens``;
* Anthropic: ``usage.cache_read_input_tokens``. Its ``input_tokens`` leave out what was read from
  the cache, or written into it;
* llama.cpp: ``timings.cache_n``, also where nobody asked for the usage.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from stepwell.core.entry import Usage
from stepwell.wire.chunks import JsonObject

NO_COUNT = "what it says of cached tokens is no count"
TOO_MANY = "it says more tokens were cached than the prompt has"


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens, as far as they are told."""

    usage: Usage | None
    """``None`` where nothing is told that is a count."""
    fault: str = ""
    """What cannot be true of what is told: `NO_COUNT` (then the cached tokens are not known),
    `TOO_MANY` (then the whole prompt is taken for cached)."""


MOST_TOKENS = 10**9
"""Of an answer; more is no count."""

_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_CACHED = ("prompt_cache_hit_tokens", "cache_read_input_tokens")
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


def read_counts(body: JsonObject) -> Counts:
    """Return what ``body``, a whole answer, says it cost."""
    usage, timings = _object(body.get("usage")), _object(body.get("timings"))
    prompt, completion = _prompt(usage), _count(usage, "completion_tokens", "output_tokens")
    if prompt is None and completion is None:
        prompt, completion = _timed_prompt(timings), _count(timings, "predicted_n")
    if prompt is None and completion is None:
        return Counts(None)
    told = next(_told(usage, timings), None)
    cached, fault = _within(told, prompt or 0)
    return Counts(Usage(prompt or 0, completion or 0, cached), fault)


def _prompt(usage: JsonObject) -> int | None:
    prompt = _count(usage, "prompt_tokens")
    if prompt is not None:
        return prompt
    prompt = _count(usage, "input_tokens")
    if prompt is None or "input_tokens_details" in usage:
        return prompt
    return prompt + sum(_count(usage, name) or 0 for name in _BESIDE)


def _timed_prompt(timings: JsonObject) -> int | None:
    computed = _count(timings, "prompt_n")
    return None if computed is None else computed + (_count(timings, "cache_n") or 0)


def _told(usage: JsonObject, timings: JsonObject) -> Iterator[object]:
    """Yield whatever is said of cached tokens, what says it best first."""
    said = [_object(usage.get(name)).get("cached_tokens") for name in _DETAILS]
    said += [usage.get(name) for name in _CACHED]
    said.append(timings.get("cache_n"))
    return (value for value in said if value is not None)


def _within(told: object, prompt: int) -> tuple[int | None, str]:
    if told is None:
        return None, ""
    if not _is_count(told):
        return None, NO_COUNT
    return (told, "") if told <= prompt else (prompt, TOO_MANY)


def _count(said: JsonObject, *names: str) -> int | None:
    """Return the first member that is there, if it is a count."""
    value = next((said[name] for name in names if name in said), None)
    return value if _is_count(value) else None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
