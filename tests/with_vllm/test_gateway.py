"""The gateway in front of a real vLLM: what it foretells is what the server has."""

import asyncio
import json
from pathlib import Path

import pytest
from support.gateway import SECRET
from support.metrics import reaches, total
from support.time import stop_time
from support.vllm_gateway import (
    UPSTREAM,
    Front,
    chat,
    forgets,
    some_words,
    until,
    vllm_gateway,
    whole_blocks,
)
from support.vllm_server import BLOCK_TOKENS, VllmServer

from stepwell.keys.namespace import Tenant
from stepwell.prefix.placement.salt import cache_salt

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

SYSTEM_WORDS = 400

SHARED_TOKENS = whole_blocks(SYSTEM_WORDS)
"""What the server must have of a system prompt that it has read."""

ENDLESS_TOKENS = 2_000
"""Of an answer that would take a minute."""


async def test_what_is_foretold_is_there(
    vllm_server: VllmServer,
    vllm_folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """To the block, for the same system prompt and another question; metrics and trail say so."""
    system = some_words(1, SYSTEM_WORDS)
    async with vllm_gateway(tmp_path / "data", vllm_server, vllm_folder, log="stderr") as front:
        cold = await front.ask(system, "How do I open a window?")
        warm = await front.ask(system, "Where does the wind come from?")
        assert (cold.foretold_tokens, cold.cached_tokens) == (0, 0)
        assert SHARED_TOKENS <= warm.cached_tokens < warm.prompt_tokens
        assert warm.foretold_tokens == warm.cached_tokens
        for kind in ("foretold", "cached", "met"):
            counted = await total(front.gateway, "stepwell_prefix_foretold_tokens_total", kind=kind)
            assert counted == warm.cached_tokens
        replica = (await front.report())["replica"]
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    logged = [json.loads(line) for line in lines]
    trail = next(one["trail"] for one in logged if one.get("cached_tokens"))
    of_all = f"{warm.cached_tokens} of {warm.prompt_tokens} tokens"
    assert f"prefix: {of_all} foretold on {replica} (only)" in trail
    assert f"{UPSTREAM}: 200 · prefix: {of_all}" in trail


async def test_tenants_do_not_meet(
    vllm_server: VllmServer, vllm_folder: Path, tmp_path: Path
) -> None:
    """Nobody hits what another tenant asked, not even with the salt that its prefixes have."""
    system = some_words(2, SYSTEM_WORDS)
    leaked = cache_salt(SECRET, UPSTREAM, Tenant("token:sk-alice", SECRET).namespace())
    async with vllm_gateway(tmp_path / "data", vllm_server, vllm_folder) as front:
        await front.ask(system, "How do I open a window?")
        for stranger in ("sk-bob", "sk-carol"):
            body = chat(system, "How do I open a window?", cache_salt=leaked)
            asked = await front.post(body, stranger)
            assert (asked.foretold_tokens, asked.cached_tokens) == (0, 0)
            own = await front.ask(system, f"And a door, asks {stranger}?", stranger)
            assert own.cached_tokens == own.foretold_tokens >= SHARED_TOKENS
        owner = await front.ask(system, "And a door, asks Alice?")
        assert owner.cached_tokens == owner.foretold_tokens >= SHARED_TOKENS
    # It is the salt, and nothing else, that keeps them apart.
    for salt, least, most in (({}, 0, 0), ({"cache_salt": leaked}, SHARED_TOKENS, 10**6)):
        body = chat(system, f"And a gate, with {len(salt)} salts?", **salt)
        reply = await asyncio.to_thread(vllm_server.post, "/v1/chat/completions", body)
        details = reply["usage"]["prompt_tokens_details"] or {}
        assert least <= (details.get("cached_tokens") or 0) <= most


async def test_a_new_gateway_knows_what_is_held(
    vllm_server: VllmServer, vllm_folder: Path, tmp_path: Path
) -> None:
    """From the replay of events; and once the server has forgotten it, nothing is foretold."""
    system = some_words(3, SYSTEM_WORDS)
    async with vllm_gateway(tmp_path / "first", vllm_server, vllm_folder) as front:
        cold = await front.ask(system, "How do I open a window?")
    async with vllm_gateway(tmp_path / "second", vllm_server, vllm_folder) as front:

        async def is_told() -> bool:
            held: int = (await front.report())["held_tokens"]
            return held >= whole_blocks(cold.prompt_tokens)

        await until(is_told)
        warm = await front.ask(system, "Where does the wind come from?")
        assert warm.foretold_tokens == warm.cached_tokens >= SHARED_TOKENS
        await forgets(vllm_server)
        await front.holds(BLOCK_TOKENS)
        # What the server has in files instead, no event tells.
        assert (await front.ask(system, "What is a wind rose?")).foretold_tokens == 0


async def test_each_turn_of_a_chat(
    vllm_server: VllmServer, vllm_folder: Path, tmp_path: Path
) -> None:
    """The model's own words are held, too: the server says so, in its events."""
    await forgets(vllm_server)
    async with vllm_gateway(tmp_path / "data", vllm_server, vllm_folder) as front:
        held = BLOCK_TOKENS
        await front.holds(held)
        turns = [some_words(5, 30)]
        before_tokens = 0
        for number in range(3):
            asked = await front.post(chat(some_words(4, SYSTEM_WORDS), *turns, max_tokens=40))
            assert asked.foretold_tokens == asked.cached_tokens
            assert asked.cached_tokens >= whole_blocks(before_tokens)
            # The last token of an answer is computed by nobody.
            before_tokens = asked.prompt_tokens + asked.completion_tokens - 1
            held += whole_blocks(before_tokens) - asked.cached_tokens
            await front.holds(held)
            turns += [asked.text, some_words(6 + number, 30)]


async def test_warm_on_hit(
    vllm_server: VllmServer,
    vllm_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind an old answer from the cache the server reads what the next turn begins with."""
    clock = stop_time(monkeypatch)
    system, question = some_words(9, SYSTEM_WORDS), "How do I open a window?"
    async with vllm_gateway(tmp_path / "data", vllm_server, vllm_folder, warm_on_hit=True) as front:
        # To its end: what is cut off is not stored.
        asked = chat(system, question, max_tokens=100, stop=[" "])
        first = await front.post(asked)
        await front.gateway.settle()
        await forgets(vllm_server)
        await front.holds(BLOCK_TOKENS)
        clock.seconds += 120.0
        again = await front.gateway.post(asked, key="sk-alice")
        assert again.headers["x-cache"] == "HIT"
        await reaches(front.gateway, "stepwell_warmed_tokens_total", first.prompt_tokens)
        next_turn = await front.post(chat(system, question, first.text, "And a door?"))
        assert next_turn.cached_tokens == next_turn.foretold_tokens
        assert next_turn.cached_tokens >= whole_blocks(first.prompt_tokens)


async def test_a_client_that_leaves(
    vllm_server: VllmServer, vllm_folder: Path, tmp_path: Path
) -> None:
    """In the middle of a stream: the server computes no more, the gateway counts no load."""
    async with vllm_gateway(tmp_path / "data", vllm_server, vllm_folder) as front:
        before = vllm_server.metric("vllm:generation_tokens_total")
        body = chat(
            some_words(10, 200), "Count to a thousand.", max_tokens=ENDLESS_TOKENS, stream=True
        )
        async with front.gateway.http.post(
            f"{front.gateway.origin}/v1/chat/completions",
            json=body,
            headers={"authorization": "Bearer sk-alice"},
        ) as reply:
            assert reply.status == 200
            for _ in range(3):
                assert await reply.content.readuntil(b"\n\n")
            assert await is_running(front)
            reply.close()
        await until(lambda: has_nothing_to_do(front))
        assert vllm_server.metric("vllm:generation_tokens_total") < before + ENDLESS_TOKENS / 2
        # What was computed is held all the same.
        again = await front.ask(some_words(10, 200), "Count to ten.")
        assert again.cached_tokens == again.foretold_tokens >= whole_blocks(200)


async def is_running(front: Front) -> bool:
    running = await asyncio.to_thread(front.server.metric, "vllm:num_requests_running")
    return running > 0


async def has_nothing_to_do(front: Front) -> bool:
    load: float = (await front.report())["load"]
    return load == 0 and not await is_running(front)
