"""``stepwell embeddings`` and the audit, on a live Redis, PostgreSQL and file."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.embedding_stores import open_postgres_embeddings, open_redis_embeddings
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import RedisServer, redis_servers

from stepwell.cli.main import main
from stepwell.core.embedding import Deletions, Item, VectorKind
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.value import pack
from stepwell.stores.postgres.embeddings.store import PostgresEmbeddings
from stepwell.stores.redis.embeddings import RedisEmbeddings
from stepwell.testing.fake_upstream import FakeUpstream

KIND = VectorKind("here", "small")
OTHER = VectorKind("here", "other")
COUNT = 40


def items(kind: VectorKind = KIND, count: int = COUNT) -> list[Item]:
    """Return vectors of some texts."""
    made = []
    for number in range(count):
        vector = np.random.default_rng(number).standard_normal(8, np.float32)
        text = f"text {number}"
        made.append(Item(text_digest(text), pack(vector, kind, 2), text))
    return made


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start("maxmemory 100mb", "maxmemory-policy volatile-lru")


@pytest.fixture
async def full(postgres: PostgresServer) -> AsyncIterator[PostgresEmbeddings]:
    """PostgreSQL with a version in it."""
    async with aclosing(await open_postgres_embeddings(postgres.url)) as store:
        for figures in await store.versions():
            await store.retire(figures.kind.version)
        await store.register(KIND, at_most=10)
        await store.put(KIND.version, items(), Deletions(10**9))
        yield store


@pytest.fixture
async def part(redis: RedisServer) -> AsyncIterator[RedisEmbeddings]:
    """Redis with some of it."""
    async with aclosing(await open_redis_embeddings(redis.url)) as store:
        await store.put(KIND.version, items()[:30], Deletions(0))
        yield store


async def told(*words: str, postgres: PostgresServer, redis: RedisServer) -> tuple[int, Any]:
    """Run an action of the command; return its status, and what it says in JSON."""
    output = io.StringIO()
    servers = ("--postgres", postgres.url, "--redis", redis.url, "--json")

    def run() -> int:
        with contextlib.redirect_stdout(output):
            return main(["embeddings", *words, *servers])

    status = await asyncio.to_thread(run)
    return status, json.loads(output.getvalue() or "null")


def kinds(audited: Any) -> list[str]:
    return sorted(difference["what"] for difference in audited["differences"])


async def test_tiers_that_agree(
    full: PostgresEmbeddings, part: RedisEmbeddings, postgres: PostgresServer, redis: RedisServer
) -> None:
    """Every key of Redis is held against the full store, and every vector there is read."""
    status, audited = await told("audit", postgres=postgres, redis=redis)
    assert (status, kinds(audited)) == (0, [])
    assert (audited["full_read"], audited["redis_keys"], audited["compared"]) == (COUNT, 30, 30)


async def test_what_differs_is_named_and_repaired(
    full: PostgresEmbeddings, part: RedisEmbeddings, postgres: PostgresServer, redis: RedisServer
) -> None:
    """Each way in which Redis can be more than a part of the full store."""
    lost, changed, endless, *_ = items()
    await full.delete(KIND.version, [lost.digest])
    names = {item.digest: f"emb:{KIND.version}:{item.digest.hex()}" for item in items()}
    redis.ask("SET", names[changed.digest], changed.value[:-1] + b"x", "EX", 100)
    redis.ask("PERSIST", names[endless.digest])
    redis.ask("SET", f"emb:gone-000000000000:{lost.digest.hex()}", "old", "EX", 1_000)
    redis.ask("SET", f"emb:going-000000000000:{lost.digest.hex()}", "x", "EX", 10)
    redis.ask("SET", "emb:what", "x", "EX", 1_000)
    redis.ask("LPUSH", names[items()[35].digest], "x")
    redis.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    status, audited = await told("audit", "--repair", postgres=postgres, redis=redis)
    assert status == 1
    assert kinds(audited) == [
        *("endless", "eviction", "foreign", "foreign", "missing", "retired", "unequal")
    ]
    assert audited["repaired"] == 4
    redis.ask("DEL", "emb:what")
    redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    status, audited = await told("audit", postgres=postgres, redis=redis)
    assert (status, kinds(audited)) == (0, [])


async def test_what_is_damaged_in_the_full_store(
    full: PostgresEmbeddings, part: RedisEmbeddings, postgres: PostgresServer, redis: RedisServer
) -> None:
    """A flipped bit that PostgreSQL does not see, since it may be all that it ever got."""
    broken = Item(text_digest("broken"), b"SWE" + b"x" * 50)
    await full.put(KIND.version, [broken], Deletions(10**9))
    status, audited = await told("audit", postgres=postgres, redis=redis)
    assert (status, kinds(audited)) == (1, ["damaged"])
    assert broken.digest.hex() in audited["differences"][0]["where"]


async def test_nothing_is_proved_without_servers(
    full: PostgresEmbeddings,
    postgres: PostgresServer,
    redis: RedisServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 2, and why."""
    redis.kill()
    status, audited = await told("audit", postgres=postgres, redis=redis)
    assert (status, audited) == (2, None)
    assert str(redis.port) in capsys.readouterr().err


async def test_figures_and_a_version_that_goes(
    full: PostgresEmbeddings, part: RedisEmbeddings, postgres: PostgresServer, redis: RedisServer
) -> None:
    """What is there, how much of it a new version has, and that a retired one is gone."""
    await full.register(OTHER, at_most=10)
    await full.put(OTHER.version, items(OTHER)[:10], Deletions(10**9))
    words = ("stats", "--coverage", KIND.version, OTHER.version)
    status, shown = await told(*words, postgres=postgres, redis=redis)
    assert status == 0
    assert [
        (it["version"], it["vectors"], it["with_text"], it["redis_keys"])
        for it in shown["versions"]
    ] == [(OTHER.version, 10, 10, 0), (KIND.version, COUNT, COUNT, 30)]
    assert (shown["coverage"]["texts"], shown["coverage"]["covered"]) == (COUNT, 10)
    retire = ("retire", KIND.version)
    expected = {"version": KIND.version, "vectors": COUNT, "redis_keys": 30}
    status, shown = await told(*retire, "--dry-run", postgres=postgres, redis=redis)
    assert (status, shown) == (0, {**expected, "retired": False})
    assert len((await full.get(KIND.version, [item.digest for item in items()])).values) == COUNT
    status, shown = await told(*retire, postgres=postgres, redis=redis)
    assert (status, shown) == (0, {**expected, "retired": True})
    assert [it.kind for it in await full.versions()] == [OTHER]
    keys = redis.ask("KEYS", "emb:*")
    assert len(keys) == 30
    assert {redis.ask("TTL", key) <= 90 for key in keys} == {True}
    status, audited = await told("audit", postgres=postgres, redis=redis)
    assert (status, kinds(audited)) == (0, [])


async def test_a_new_version_is_filled(
    full: PostgresEmbeddings, postgres: PostgresServer, redis: RedisServer, upstream: FakeUpstream
) -> None:
    """By a server, from the texts of the old one; a second run finds nothing to do."""
    await full.register(OTHER, at_most=10)
    words = ("fill", KIND.version, OTHER.version, "--base-url", upstream.base_url)
    status, shown = await told(*words, postgres=postgres, redis=redis)
    assert (status, shown) == (0, {"texts": COUNT, "failed": 0})
    assert await full.covered(KIND.version, OTHER.version) == COUNT
    asked = upstream.call_count
    status, shown = await told(*words, postgres=postgres, redis=redis)
    assert (status, shown) == (0, {"texts": 0, "failed": 0})
    assert upstream.call_count == asked
    status, audited = await told("audit", postgres=postgres, redis=redis)
    assert (status, kinds(audited)) == (0, [])


async def test_what_cannot_be_filled(
    full: PostgresEmbeddings,
    postgres: PostgresServer,
    redis: RedisServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a server to ask, or with parameters that it would have to be sent."""
    odd = VectorKind("here", "odd", parameters='{"task": "query"}')
    for kind, words, said in (
        (OTHER, (), "--base-url is missing"),
        (odd, ("--base-url", "http://127.0.0.1:1/v1"), "is made with parameters"),
        (OTHER, ("--per-minute", "0", "--base-url", "http://127.0.0.1:1/v1"), "--per-minute is 0"),
        (OTHER, ("--base-url", "http://127.0.0.1:1/v1"), "no answer from http://127.0.0.1:1/v1"),
    ):
        await full.register(kind, at_most=10)
        named = ("fill", KIND.version, kind.version, *words)
        status, _ = await told(*named, postgres=postgres, redis=redis)
        assert status == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("audit",), "there is no"),
        (("retire", "none-000000000000"), "there is no"),
    ],
)
def test_without_data(
    words: Sequence[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said, and no directory is made for it."""
    assert main(["embeddings", *words, "--data", str(tmp_path / "none")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_on_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it works on the file, too."""
    assert main(["embeddings", "stats", "--data", str(tmp_path)]) == 0
    assert "full store: disk" in capsys.readouterr().out
    assert main(["embeddings", "audit", "--data", str(tmp_path)]) == 0
    assert main(["embeddings", "retire", "none-000000000000", "--data", str(tmp_path)]) == 2
    assert "there is no version" in capsys.readouterr().err
    assert main(["embeddings", "fill", "a", "b", "--data", str(tmp_path)]) == 2
    assert "after its first request" in capsys.readouterr().err
