"""`stepwell.EmbeddingCache`: on disk, on real servers, in several processes."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from aiohttp import web
from support.embedding_provider import model
from support.redis_servers import RedisServer, redis_servers

from stepwell import ConfigError, EmbeddingCache, EmbeddingError
from stepwell.core.embedding_events import Source

_WORKER = """
import asyncio, json, sys, stepwell

base_url, options, batches = json.loads(sys.stdin.readline())

async def main():
    async with stepwell.EmbeddingCache(base_url=base_url, model="m", **options) as cache:
        print("ready", flush=True)
        sys.stdin.readline()
        got = await asyncio.gather(*map(cache.embed, batches))
        await cache.flush()
        print(json.dumps([vectors.tolist() for vectors in got]), flush=True)

asyncio.run(main())
"""


class Embed:
    """A function that embeds, and counts."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()

    async def __call__(self, texts: list[str]) -> list[list[float]]:
        self.sent.update(texts)
        await asyncio.sleep(0)
        return [vector.tolist() for vector in right(texts)]


def right(texts: list[str]) -> npt.NDArray[np.float32]:
    return np.stack([model(text) for text in texts])


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start()


async def test_in_memory() -> None:
    embed = Embed()
    async with EmbeddingCache(embed, model="m") as cache:
        for _ in range(2):
            assert np.array_equal(await cache.embed(["a", "b", "a"]), right(["a", "b", "a"]))
        assert (await cache.get(["a"])).sources == (Source.MEMORY,)
        assert (await cache.get(["a"], fresh=True)).sources == (Source.ORIGIN,)
        assert (await cache.embed([])).shape == (0, 0)
    assert embed.sent == {"a": 2, "b": 1}


async def test_on_disk_for_the_next_program(tmp_path: Path) -> None:
    embed = Embed()
    for source in (Source.ORIGIN, Source.DISK):
        async with EmbeddingCache(embed, model="m", data_dir=tmp_path) as cache:
            batch = await cache.get(["a", "天气"])
            assert batch.sources == (source, source)
            assert np.array_equal(batch.vectors(), right(["a", "天气"]))
    async with EmbeddingCache(embed, model="m", data_dir=tmp_path) as cache:
        assert await cache.delete(["a"]) == 1
        assert (await cache.get(["a"])).sources == (Source.ORIGIN,)


async def test_models_share_nothing(tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [{"model": "m"}, {"model": "n"}, {"model": "m", "revision": "2"}]
    for options in kinds:
        embed = Embed()
        async with EmbeddingCache(embed, data_dir=tmp_path, **options) as cache:
            await cache.embed(["a"])
        assert embed.sent["a"] == 1


async def test_in_redis_before_the_disk(tmp_path: Path, redis: RedisServer) -> None:
    embed = Embed()
    for expected in (Source.ORIGIN, Source.REDIS):
        async with EmbeddingCache(embed, model="m", redis=redis.url, data_dir=tmp_path) as cache:
            batch = await cache.get(["a", "b"])
            assert set(batch.sources) == {expected}
            assert np.array_equal(batch.vectors(), right(["a", "b"]))


def test_for_a_synchronous_program(tmp_path: Path) -> None:
    embed = Embed()
    with EmbeddingCache(embed, model="m", data_dir=tmp_path).blocking() as cache:
        assert np.array_equal(cache.embed(["a", "b"]), right(["a", "b"]))
        assert cache.flush() == 0
        assert cache.delete(["a"]) == 1
        assert cache.get(["b"]).sources == (Source.MEMORY,)


def test_what_fails_in_a_function_is_raised() -> None:
    async def fail(texts: list[str]) -> list[list[float]]:
        raise LookupError(texts[0])

    cache = EmbeddingCache(fail, model="m")
    with cache.blocking() as blocking, pytest.raises(LookupError, match="a"):
        blocking.embed(["a"])


def test_function_that_answers_short_is_found_out() -> None:
    async def short(texts: list[str]) -> list[list[float]]:
        return [[1.0]] * (len(texts) - 1)

    with EmbeddingCache(short, model="m").blocking() as cache:
        with pytest.raises(EmbeddingError, match="1 vectors to 2 texts"):
            cache.embed(["a", "b"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "m"}, "who embeds"),
        ({"model": "m", "provider": Embed(), "base_url": "http://x/v1"}, "one of the two"),
        ({"model": "", "provider": Embed()}, "model"),
        ({"model": "m", "provider": Embed(), "precision": "f64"}, "precision"),
    ],
)
def test_what_cannot_be_used_is_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EmbeddingCache(**options)


async def test_use_outside_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await EmbeddingCache(Embed(), model="m").embed(["a"])


class FakeServer:
    """A server of embeddings that counts what it is sent."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        texts = (await request.json())["input"]
        self.sent.update(texts)
        await asyncio.sleep(0.05)
        data = [
            {"index": place, "embedding": vector.tolist()}
            for place, vector in enumerate(right(texts))
        ]
        return web.json_response({"data": data, "usage": {"prompt_tokens": len(texts)}})


@pytest.mark.parametrize("where", ["disk", "redis"])
async def test_two_processes_send_each_text_once(
    where: str, tmp_path: Path, redis: RedisServer
) -> None:
    """32 callers in each ask for overlapping texts at the same time."""
    options = {"data_dir": str(tmp_path), "revision": where}
    if where == "redis":
        options["redis"] = redis.url
    batches = [[f"{number % 11}", "all", f"{number % 7}"] for number in range(32)]
    fake = FakeServer()
    application = web.Application()
    application.router.add_post("/v1/embeddings", fake.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    told = json.dumps([base_url, options, batches]) + "\n"
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=1 << 24,
        )
        for _ in range(2)
    ]
    for worker in workers:
        worker.stdin.write(told.encode())  # type: ignore[union-attr]
    for worker in workers:
        assert await worker.stdout.readline() == b"ready\n"  # type: ignore[union-attr]
    ended = await asyncio.gather(*(worker.communicate(b"\n") for worker in workers))
    await runner.cleanup()
    for stdout, _ in ended:
        for texts, vectors in zip(batches, json.loads(stdout), strict=True):
            assert np.array_equal(np.array(vectors, np.float32), right(texts))
    canaries = {text for text in fake.sent if len(text) > 3}
    assert {text: n for text, n in fake.sent.items() if text not in canaries} == dict.fromkeys(
        {text for batch in batches for text in batch}, 1
    )
