"""Real llama.cpp servers as replicas of one model, and conversations that are held with them."""

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import aiohttp
import msgspec

from stepwell.engines.llama_process import LlamaSettings
from stepwell.engines.served_process import ServedProcess
from stepwell.engines.weights import find_weights

KEY = "sk-of-all-replicas"
"""Callers have one key, whoever answers."""

WORDS = (
    "the cow field river stone bread green seven walks under morning table light paper house small"
    " glass road night along every winter door letter because people market"
).split()


@contextmanager
def llama_servers(count: int, *, context_tokens: int = 2_048) -> Iterator[list[str]]:
    """Run servers with one slot each, and give their addresses. Each takes 0.4 GB and 2 s to start.

    Blocks for their start and their end.
    """
    settings = LlamaSettings(
        weights=str(find_weights()),
        model="m",
        api_key=KEY,
        port=0,
        threads=1,
        slots=1,
        context_tokens=context_tokens,
        answer_tokens=16,
        prompt_cache_mib=512,
    )
    with ExitStack() as stack:
        urls: list[str] = []
        for number in range(count):
            process = ServedProcess(
                f"replica {number}",
                "stepwell.engines.llama_process",
                start_timeout_seconds=120.0,
                report=lambda _: None,
            )
            stack.callback(process.stop)
            urls.append(f"http://127.0.0.1:{process.start(_line(settings))}/v1")
        yield urls


def _line(settings: LlamaSettings) -> Callable[[int], bytes]:

    return lambda port: msgspec.json.encode(replace(settings, port=port))


@dataclass(frozen=True)
class Size:
    """How long conversations are."""

    system_words: int
    """Each has a system prompt of its own."""
    user_words: int
    answer_tokens: int


@dataclass
class Talk:
    """A conversation, and what its prompts took."""

    size: Size
    drawn: Random
    messages: list[dict[str, str]] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        system = self._words(self.size.system_words)
        self.messages.append({"role": "system", "content": system})

    async def take_turn(self, way: "Way") -> None:
        """Ask something, and take the answer into the conversation."""
        self.messages.append({"role": "user", "content": self._words(self.size.user_words)})
        read = await way(
            {
                "model": "m",
                "messages": self.messages,
                "max_tokens": self.size.answer_tokens,
                "temperature": 0,
                "ignore_eos": True,
            }
        )
        self.messages.append(read["choices"][0]["message"])
        usage = read["usage"]
        self.prompt_tokens += usage["prompt_tokens"]
        self.cached_tokens += usage["prompt_tokens_details"]["cached_tokens"]

    def _words(self, count: int) -> str:
        return " ".join(self.drawn.choice(WORDS) for _ in range(count))


Way = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Asks for a whole answer."""


def talks(count: int, size: Size, seed: int) -> list[Talk]:
    """Return conversations that share nothing; with another seed, others."""
    drawn = Random(seed)
    return [Talk(size, Random(drawn.random())) for _ in range(count)]


def cached_share(held: Sequence[Talk]) -> float:
    """Return the share of all prompts' tokens that the servers say they had."""
    return sum(talk.cached_tokens for talk in held) / sum(talk.prompt_tokens for talk in held)


def way_to(http: aiohttp.ClientSession, base_url: str) -> Way:
    """Return a way to a server, or to a gateway."""

    async def ask(body: dict[str, Any]) -> dict[str, Any]:
        fields = {"authorization": f"Bearer {KEY}"}
        url = f"{base_url}/chat/completions"
        async with http.post(url, json=body, headers=fields) as reply:
            read: dict[str, Any] = json.loads(await reply.read())
            if reply.status != 200:
                raise RuntimeError(f"{reply.status}: {read}")
            return read

    return ask
