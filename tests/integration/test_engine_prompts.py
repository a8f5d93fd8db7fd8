"""What the embedded engine keeps of prompts: conversations in turn, restarts, damage, replicas."""

import asyncio
import json
import resource
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.embedded import SMALL, needs_the_engine, running_engine, running_replicas

from stepwell.core.entry import Answer
from stepwell.core.names import Endpoint, Form
from stepwell.core.ports import Call, Upstream
from stepwell.engines.embedded import EngineBounds
from stepwell.engines.slotted import SlottedUpstream
from stepwell.wire.summary import summarise

pytestmark = [pytest.mark.embedded, needs_the_engine]

SYSTEM = "You are patient, and you know all about cows. " * 6
Messages = list[dict[str, str]]


def said(text: str) -> Messages:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text * 3}]


async def computed(upstream: Upstream, messages: Messages) -> int:
    """Ask, let the conversation go on, and return how many tokens of the prompt were computed."""
    body = {"model": "m", "messages": messages, "max_tokens": 2, "temperature": 0}
    reply = await upstream.send(Call(Endpoint.CHAT, json.dumps(body).encode(), ()))
    try:
        read = b"".join([chunk async for chunk in reply.chunks()])
    finally:
        await reply.aclose()
    assert reply.status == 200
    messages.append(json.loads(read)["choices"][0]["message"])
    usage = summarise(Endpoint.CHAT, Answer(Form.JSON, read)).usage
    assert usage is not None
    assert usage.cached_tokens is not None
    return usage.prompt_tokens - usage.cached_tokens


def ask_on(messages: Messages, text: str = "And then?") -> Messages:
    messages.append({"role": "user", "content": text})
    return messages


def with_engine(
    place: Path,
    bounds: EngineBounds,
    use: Callable[[Upstream], Coroutine[Any, Any, None]],
    limit: int | None = None,
) -> list[str]:
    """Run an engine while it is used, and return what it reported."""
    with running_engine(place, bounds, saved_in=place / "kv") as running:
        if limit is not None:
            assert running.engine.pid is not None
            resource.prlimit(running.engine.pid, resource.RLIMIT_FSIZE, (limit, limit))

        async def used() -> None:
            upstream = SlottedUpstream(running.upstream(), running.address.slots)
            await use(upstream)
            await upstream.aclose()

        asyncio.run(used())
    return running.reports


def test_conversations_in_turn_keep_what_is_theirs(tmp_path: Path) -> None:
    """More of them than slots, all with one system prompt: each goes on where it was."""
    talks = [said(f"Tell me of {what}. ") for what in ("milk", "grass", "bells")]

    async def use(upstream: Upstream) -> None:
        firsts = [await computed(upstream, talk) for talk in talks]
        # Only what is new of each: the system prompt is computed once.
        assert firsts[0] > firsts[1] + 50
        assert firsts[0] > firsts[2] + 50
        for _ in range(2):
            for talk in talks:
                assert await computed(upstream, ask_on(talk)) < 30

    with_engine(tmp_path, EngineBounds(slots=2, context_tokens=1_024), use)


def test_a_restart_goes_on_warm(tmp_path: Path) -> None:
    """What two slots held at the end, whichever slot is asked; nobody else may read the files."""
    talks = [said("Tell me of milk. "), said("Tell me of grass. ")]
    bounds = EngineBounds(slots=2, context_tokens=1_024)

    async def at_once(upstream: Upstream) -> None:
        for new in await asyncio.gather(*(computed(upstream, talk) for talk in talks)):
            assert new > 30

    async def again(upstream: Upstream) -> None:
        for talk in reversed(talks):
            assert await computed(upstream, ask_on(talk)) < 30

    with_engine(tmp_path, bounds, at_once)
    files = [path for path in (tmp_path / "kv").rglob("*") if path.is_file()]
    assert len(files) == 4
    assert {path.stat().st_mode & 0o077 for path in files} == {0}
    reports = with_engine(tmp_path, bounds, again)
    assert any("it still holds" in line for line in reports)


def test_a_damaged_file_is_computed_anew(tmp_path: Path) -> None:
    """And the operator is told."""
    talk = said("Tell me of milk. ")

    async def first(upstream: Upstream) -> None:
        await computed(upstream, talk)

    async def again(upstream: Upstream) -> None:
        assert await computed(upstream, ask_on(talk)) > 60

    with_engine(tmp_path, SMALL, first)
    (file,) = (tmp_path / "kv").rglob("*.kv")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    reports = with_engine(tmp_path, SMALL, again)
    assert any("1 saved prompts are of no use" in line for line in reports)


def test_a_full_disk_is_harmless(tmp_path: Path) -> None:
    """The engine writes as far as it can, nothing of that is kept, and it ends as it should."""

    async def first(upstream: Upstream) -> None:
        await computed(upstream, said("Tell me of milk. "))

    with_engine(tmp_path, SMALL, first, limit=1 << 20)
    assert [path for path in (tmp_path / "kv").rglob("*") if path.is_file()] == []


def test_two_at_once(tmp_path: Path) -> None:
    """Replicas: each has a key, a port and a cache of its own."""
    with running_replicas(tmp_path, 2) as (one, other):
        assert one.address.base_url != other.address.base_url
        assert one.address.api_key != other.address.api_key

        async def use() -> None:
            mine, others = one.upstream(), other.upstream()
            await computed(mine, said("Tell me of milk. "))
            assert await computed(mine, said("Tell me of milk. ")) < 30
            assert await computed(others, said("Tell me of milk. ")) > 60
            await mine.aclose()
            await others.aclose()

        asyncio.run(use())
