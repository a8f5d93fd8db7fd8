"""Two real model servers behind the gateway: conversations stay where their prefixes are."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp
import pytest
from support.embedded import needs_the_engine
from support.gateway import running_gateway
from support.llama_replicas import Size, Talk, Way, cached_share, llama_servers, talks, way_to
from support.metrics import total

pytestmark = [pytest.mark.embedded, needs_the_engine]

SIZE = Size(system_words=10, user_words=6, answer_tokens=1)
"""A token of a prompt takes 10 ms."""

TALKS, TURNS = 2, 3


@pytest.fixture
def servers() -> Iterator[list[str]]:
    with llama_servers(2) as urls:
        yield urls


async def hold(seed: int, ways: Sequence[Way]) -> list[Talk]:
    """Hold conversations that nobody has had before; each turn goes another way than the last."""
    held = talks(TALKS, SIZE, seed)
    for turn in range(TURNS):
        ways_now = [ways[(turn + number) % len(ways)] for number in range(TALKS)]
        turns = zip(held, ways_now, strict=True)
        await asyncio.gather(*[talk.take_turn(way) for talk, way in turns])
    return held


async def test_as_much_is_cached_as_by_one_server(servers: list[str], tmp_path: Path) -> None:
    """Within a tenth, though both have a part of the work; and all of it was foretold."""
    prefix = {"token_timeout_seconds": 10, "block_tokens": 4}
    upstream = {"replicas": servers, "engine": "llamacpp", "prefix": prefix}
    settings = {"upstreams": {"llm": upstream}}
    async with (
        running_gateway(tmp_path / "data", "", settings) as gateway,
        aiohttp.ClientSession() as http,
    ):
        one, other = [way_to(http, url) for url in servers]
        alone = cached_share(await hold(1, [one]))
        in_turn = cached_share(await hold(2, [one, other]))
        routed = await hold(3, [way_to(http, f"{gateway.origin}/v1")])
        assert cached_share(routed) >= 0.9 * alone
        assert in_turn < 0.8 * alone
        cached_tokens = sum(talk.cached_tokens for talk in routed)
        foretold = "stepwell_prefix_foretold_tokens_total"
        assert await total(gateway, foretold, kind="cached") == cached_tokens
        assert await total(gateway, foretold, kind="met") >= 0.8 * cached_tokens
        replicas = json.loads((await gateway.get("/admin/replicas")).body)["replicas"]
        assert sum(one["agreed"]["requests"] for one in replicas) == TURNS * len(servers)
