"""Answers to other words in a program, with the real embedder."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import stepwell
from stepwell.testing.fake_upstream import FakeUpstream

pytestmark = pytest.mark.embedder

STORED = "How do I return shoes that I bought online?"
ASKED = "What is the way to return shoes I bought online?"
SETTINGS: dict[str, Any] = {"semantic": {"embedder": "multilingual", "timeout_seconds": 10.0}}


def question(text: str) -> dict[str, Any]:
    return {"model": "fake", "messages": [{"role": "user", "content": text}]}


async def soon(cache: stepwell.Cache, text: str) -> stepwell.CachedAnswer:
    """Return the cached answer, once the embedder is loaded and the words are learned."""
    async with asyncio.timeout(60):
        while (answer := await cache.lookup(question(text))) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return answer


@pytest.mark.parametrize("kept", [True, False])
async def test_other_words(upstream: FakeUpstream, tmp_path: Path, *, kept: bool) -> None:
    """Found by meaning, judged, and never given again; with and without a data directory."""
    data_dir = tmp_path / "data" if kept else None
    async with stepwell.Cache(SETTINGS, upstream=upstream.base_url, data_dir=data_dir) as cache:
        first = await cache.complete(question(STORED))
        hit = await soon(cache, ASKED)
        assert hit.body == first.body
        assert hit.trail[-1].startswith("semantic: hit")
        with pytest.raises(stepwell.RequestError, match="Nothing to judge"):
            await cache.feedback(first, "wrong")
        with pytest.raises(stepwell.RequestError, match="'verdict' is 'maybe'"):
            await cache.feedback(hit, "maybe")  # type: ignore[arg-type]
        await cache.feedback(hit, "wrong")
        assert await cache.lookup(question(ASKED)) is None
        await cache.feedback(hit.hit_id, "right")
        assert await cache.lookup(question(ASKED)) is not None
        await cache.feedback(hit, "wrong", delete=True)
        assert await cache.lookup(question(STORED)) is None
    assert upstream.call_count == 1


async def test_off_unless_asked_for(upstream: FakeUpstream) -> None:
    """A library starts no process by itself; a hit that is none cannot be judged."""
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        await cache.complete(question(STORED))
        assert await cache.lookup(question(ASKED)) is None
        with pytest.raises(stepwell.RequestError, match="no semantic layer"):
            await cache.feedback("A" * 70, "wrong")


async def test_settings_that_cannot_be_used(upstream: FakeUpstream) -> None:
    """Named before anything starts."""
    for semantic in ({"embedder": "none"}, {"embedder": "endpoint"}, {"levels": {"strict": 1.5}}):
        with pytest.raises(stepwell.ConfigError, match="semantic"):
            stepwell.Cache({"semantic": semantic}, upstream=upstream.base_url)
    levels = {"semantic": {"embedder": "multilingual", "levels": {"general": 0.99}}}
    with pytest.raises(stepwell.ConfigError, match="strict >= general >= faq"):
        async with stepwell.Cache(levels, upstream=upstream.base_url):
            pass
