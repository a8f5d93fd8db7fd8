"""The embedding cache: what is wrong, what is sent, what a hit costs, what rounding loses.

    python benchmarks/embedding_cache.py [--smoke] [--json OUT] [--peers PYTHON] [--redis PROGRAM]

*Laws*: batches with duplicates, of texts that are known or not, from several callers at a time who
may leave, to a provider that permutes, answers short or long, another width, NaN, errors, in lives
that end in a crash, on disk. Counted: vectors that are not their text's, and texts sent for each
that was missing.

*Hits*: of 1 and of 64 texts with 1,536 numbers each. ``memory`` and ``redis`` are all of
`EmbeddingCache.get_many`, answered by that tier; ``floor`` is GET or MGET over a connection that
does as little as can be done (`redis_client.py`), and `numpy.frombuffer`. Values are checked in the
first two: each against its checksum. Rounds go over all in turn; a ratio is the median of those
within the rounds. CPU is this process's.

*Rounding*: recall@5 of vectors kept as f16 or i8, against f32, on clustered vectors and, where the
bundled embedder is installed, on the sentences of our documentation.

``--peers`` is a Python in which redis, redisvl, langchain-classic, llama-index-core and litellm are
installed: they answer the same questions in the same rounds. ``--redis`` is a server's program;
by default Valkey.
"""

import asyncio
import json
import random
import statistics
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt
from redis_client import Reading
from report import parse_arguments, print_table, write
from support.redis_servers import VALKEY, RedisServer, redis_servers

from stepwell.core.clock import SystemClock
from stepwell.core.embedding import Precision, VectorKind
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.errors import EmbeddingError
from stepwell.core.events import Event
from stepwell.embedding.cache.cache import Bounds, EmbeddingCache
from stepwell.embedding.cache.canary import CANARY_TEXTS
from stepwell.embedding.cache.pace import Limits, Pace
from stepwell.embedding.cache.provider import Input, NoAnswer, Refused, Reply
from stepwell.embedding.cache.tiers import Stores
from stepwell.embedding.cache.value import pack, unpack
from stepwell.stores.disk.embeddings.store import DiskEmbeddings
from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.embeddings import RedisEmbeddings
from stepwell.stores.redis.servers import open_servers
from stepwell.stores.redis.tls import Tls

WIDTH = 1_536
KIND = VectorKind("benchmark", "model")
ROUNDED: tuple[Precision, ...] = ("f16", "i8")
POOL = 2_000
"""Different texts of the laws."""

TEXTS = [f"text {number} " * 8 for number in range(64)]

Vectors = npt.NDArray[np.float32]


class Unheard:
    """Where nobody listens."""

    def emit(self, event: EmbeddingEvent | Event) -> None:
        """Do nothing."""


def vector_of(given: Input, width: int) -> Vectors:
    """Return the one right vector of a text."""
    seed = [*str(given).encode()]
    return np.random.default_rng(seed).standard_normal(width).astype(np.float32)


@dataclass(eq=False)
class Provider:
    """Computes `vector_of`, and twists some of its replies."""

    width: int
    twisted: float = 0.0
    """Share of the replies."""
    sent: Counter[Input] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        limits = Limits(max_texts=16, max_calls=4, max_retries=1, deadline_seconds=5.0)
        self.pace = Pace(limits, pause=_soon)

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Ask once."""
        await asyncio.sleep(0.0005 * random.random())
        if set(inputs) <= set(CANARY_TEXTS):
            return Reply([vector_of(given, self.width) for given in inputs])
        self.sent.update(inputs)
        reply = Reply([vector_of(given, self.width) for given in inputs], tokens=len(inputs))
        return random.choice(TWISTS)(reply) if random.random() < self.twisted else reply


def _permuted(reply: Reply) -> Reply:
    order = random.sample(range(len(reply.rows)), len(reply.rows))
    return replace(reply, rows=[reply.rows[place] for place in order], indices=order)


def _short(reply: Reply) -> Reply:
    return replace(reply, rows=reply.rows[1:])


def _long(reply: Reply) -> Reply:
    return replace(reply, rows=[*reply.rows, reply.rows[0]])


def _repeated(reply: Reply) -> Reply:
    return replace(reply, indices=[0] * len(reply.rows))


def _not_finite(reply: Reply) -> Reply:
    return replace(
        reply, rows=[np.full(len(cast("Vectors", reply.rows[0])), np.nan), *reply.rows[1:]]
    )


def _uneven(reply: Reply) -> Reply:
    return replace(reply, rows=[np.ones(3, np.float32), *reply.rows[1:]])


def _refused(_: Reply) -> Reply:
    raise Refused("too long", status=400)


def _busy(_: Reply) -> Reply:
    raise Refused("busy", status=429, retry_after_seconds=0.001)


def _broken(_: Reply) -> Reply:
    raise NoAnswer("died half way")


TWISTS = (
    *(_permuted,) * 4,
    *(_short, _long, _repeated, _not_finite, _uneven, _refused, _busy, _broken),
)


async def _soon(_: float) -> None:
    await asyncio.sleep(0)


@dataclass
class Tally:
    """What came of batch items."""

    items: int = 0
    wrong: int = 0
    failed: int = 0
    left: int = 0
    lives: int = 0


async def live(directory: Path, tally: Tally, until: int, width: int) -> None:
    """Ask from two caches over one store, as two processes would, until some life ends."""
    provider = Provider(width, twisted=0.2)
    caches = [await open_cache(directory) for _ in range(2)]
    tally.lives += 1
    while tally.items < until:
        batches = [
            [str(random.randrange(POOL)) for _ in range(random.randint(1, 24))] for _ in range(16)
        ]
        await asyncio.gather(
            *(ask(random.choice(caches), batch, provider, tally) for batch in batches)
        )
        if random.random() < 0.2:
            await caches[0].delete(KIND, [str(random.randrange(POOL)) for _ in range(200)])
        if random.random() < 0.02:
            return  # A crash: whatever is under way is lost.
    for cache in caches:
        await cache.aclose()


async def open_cache(directory: Path) -> EmbeddingCache:
    """Return a cache over the store in ``directory``."""
    events = Unheard()
    store = await DiskEmbeddings.open(
        directory, max_bytes=1 << 30, clock=SystemClock(), events=events
    )
    bounds = Bounds(memory_bytes=random.choice([0, 1 << 16, 1 << 22]), patience_seconds=0.5)
    return EmbeddingCache(events, stores=Stores((), store, store), bounds=bounds)


async def ask(cache: EmbeddingCache, batch: list[str], provider: Provider, tally: Tally) -> None:
    """Be a caller, who may leave; compare what comes."""
    work = cache.get_many(KIND, batch, provider)
    try:
        got = await (asyncio.wait_for(work, 0.001) if random.random() < 0.05 else work)
    except TimeoutError:
        tally.left += 1
        return
    except EmbeddingError:
        tally.failed += len(batch)
        return
    tally.items += len(batch)
    for text, embedding in zip(batch, got.embeddings, strict=True):
        tally.wrong += not np.array_equal(embedding.vector, vector_of(text, provider.width))


def laws(items: int) -> dict[str, object]:
    """Return what came of so many batch items, and what is sent without any trouble."""
    tally = Tally()
    with TemporaryDirectory() as folder:
        while tally.items < items:
            asyncio.run(live(Path(folder), tally, items, width=8))
    return {
        "batch_items": tally.items,
        "wrong": tally.wrong,
        "failed_as_the_provider_did": tally.failed,
        "callers_who_left": tally.left,
        "lives": tally.lives,
        **asyncio.run(sent()),
    }


async def sent() -> dict[str, float]:
    """Return the texts sent for each that was missing."""
    cache, provider = EmbeddingCache(Unheard()), Provider(8)
    await cache.get_many(KIND, ["a", "a", "b", "a"], provider)
    duplicates = provider.sent.total() / 2
    ratios = {"duplicates_ratio": duplicates}
    for callers in (8, 64):
        cache, provider = EmbeddingCache(Unheard()), Provider(8)
        await asyncio.gather(*(cache.get_many(KIND, ["a"], provider) for _ in range(callers)))
        ratios[f"{callers}_callers_ratio"] = float(provider.sent.total())
    return ratios


Hit = Callable[[Sequence[str]], Awaitable[object]]
Timed = tuple[float, float]
"""Seconds, and CPU seconds."""


class Peers:
    """Other caches, in a process of their own."""

    QUICK = ("redis_py", "redis_py_async")
    NAMES = ("redis_py", "redis_py_async", "redisvl", "langchain", "llama_index")

    def __init__(self, python: str, port: int) -> None:
        script = Path(__file__).parent / "foreign" / "embedding_caches.py"
        self._process = subprocess.Popen(
            [python, script, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *words: object) -> Any:  # noqa: ANN401  (JSON)
        """Return the answer to a line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def peers_of(python: str | None, port: int) -> Iterator[Peers | None]:
    """Yield the peers, if there is a Python that has them."""
    if python is None:
        yield None
        return
    peers = Peers(python, port)
    try:
        yield peers
    finally:
        peers.close()


async def redis_store(server: RedisServer) -> RedisEmbeddings:
    """Return our store in ``server``, patient: the machine may have other things to do."""
    servers = await open_servers(
        parse_address(server.url),
        credentials=Credentials(),
        tls=Tls(),
        on_change=lambda _: None,
        timeout_seconds=30.0,
    )
    return RedisEmbeddings(servers, ttl_seconds=3600.0)


async def connect(server: RedisServer) -> Reading:
    """Return a connection that does as little as can be done."""
    loop = asyncio.get_running_loop()
    _, reading = await loop.create_connection(Reading, "127.0.0.1", server.port)
    return reading


async def hits(server: RedisServer, peers: Peers | None, rounds: int) -> list[dict[str, object]]:
    """Return what a hit costs in each place."""
    provider = Provider(WIDTH)
    store = await redis_store(server)
    near = EmbeddingCache(Unheard())
    far = EmbeddingCache(Unheard(), stores=Stores((store,)), bounds=Bounds(memory_bytes=0))
    for cache in (near, far):
        await cache.get_many(KIND, TEXTS, provider)
        await cache.flush()
    warm = provider.sent.total()
    floor = await connect(server)
    for text in TEXTS:
        value = vector_of(text, WIDTH).tobytes()
        await floor.ask(b"SET", b"plain:" + text.encode(), value)

    async def bare(texts: Sequence[str]) -> object:
        keys = [b"plain:" + text.encode() for text in texts]
        if len(keys) == 1:
            return np.frombuffer(cast("bytes", await floor.ask(b"GET", keys[0])), np.float32)
        values = cast("list[bytes]", await floor.ask(b"MGET", *keys))
        return [np.frombuffer(value, np.float32) for value in values]

    ours: dict[str, Hit] = {
        "memory": lambda texts: near.get_many(KIND, texts, provider),
        "redis": lambda texts: far.get_many(KIND, texts, provider),
        "floor": bare,
    }
    rows = []
    for size, calls in ((1, 400), (64, 20)):
        rows += await timed(ours, peers, size, rounds, calls)
    assert provider.sent.total() == warm, "something was no hit"
    floor.transport.close()
    await far.aclose()
    return rows


async def timed(
    ours: dict[str, Hit], peers: Peers | None, size: int, rounds: int, calls: int
) -> list[dict[str, object]]:
    """Return the figures of hits with ``size`` texts."""
    seconds: defaultdict[str, list[Timed]] = defaultdict(list)
    for _ in range(rounds):
        for name, hit in ours.items():
            began, cpu = time.perf_counter(), time.process_time()
            for _ in range(calls):
                await hit(TEXTS[:size])
            took = time.perf_counter() - began, time.process_time() - cpu
            seconds[name].append(took)
        for name in () if peers is None else Peers.NAMES:
            slow = calls if name in Peers.QUICK else max(1, calls // 20)
            took = tuple(peers.ask("time", name, size, slow)) if peers else (0.0, 0.0)
            seconds[name].append((took[0] * calls / slow, took[1] * calls / slow))
    bases = ("floor", "redis") if peers is None else ("floor", *Peers.QUICK, "redis")
    return [
        {
            "texts": size,
            "where": name,
            "us": statistics.median(took for took, _ in times) / calls * 1e6,
            "cpu_us": statistics.median(cpu for _, cpu in times) / calls * 1e6,
            **{f"us/{base}": ratio(times, seconds[base], 0) for base in bases},
            **{f"cpu/{base}": ratio(times, seconds[base], 1) for base in bases},
        }
        for name, times in seconds.items()
    ]


def ratio(mine: Sequence[Timed], theirs: Sequence[Timed], which: int) -> float:
    """Return the median of the ratios within the rounds."""
    return statistics.median(a[which] / b[which] for a, b in zip(mine, theirs, strict=True))


async def sizes(server: RedisServer) -> dict[str, int]:
    """Return the bytes of a vector in Redis, key and all."""
    store = await redis_store(server)
    floor = await connect(server)
    told = {}
    for precision in get_args(Precision):
        kind = VectorKind("benchmark", "model", precision=precision)
        cache = EmbeddingCache(Unheard(), stores=Stores((store,)))
        await cache.get_many(kind, TEXTS, Provider(WIDTH))
        await cache.flush()
        _, names = cast(
            "tuple[bytes, list[bytes]]",
            await floor.ask(
                b"SCAN", b"0", b"MATCH", b"*" + kind.version.encode() + b"*", b"COUNT", b"10000"
            ),
        )
        told[precision] = cast("int", await floor.ask(b"MEMORY", b"USAGE", names[0]))
    floor.transport.close()
    await store.aclose()
    return told


def rounding(*, smoke: bool) -> list[dict[str, object]]:
    """Return the recall@5 of rounded vectors."""
    generator = np.random.default_rng(7)
    count = 2_000 if smoke else 20_000
    centres = generator.standard_normal((count // 50, WIDTH))
    spread = generator.standard_normal((count, WIDTH))
    clustered = centres[generator.integers(len(centres), size=count)] + 0.6 * spread
    sets = {f"{count} clustered, {WIDTH} numbers": clustered.astype(np.float32)}
    if not smoke and (real := sentences()) is not None:
        sets[f"{len(real)} sentences of our pages, {real.shape[1]} numbers"] = real
    rows: list[dict[str, object]] = []
    for name, vectors in sets.items():
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        asked = unit[generator.choice(len(unit), 1_000, replace=False)]
        right = nearest(asked, unit)
        for precision in ROUNDED:
            kept = kept_as(precision, unit)
            found = nearest(asked, kept)
            recall = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(right, found, strict=True)])
            rows.append({"vectors": name, "kept as": precision, "recall@5": float(recall)})
    return rows


def nearest(asked: Vectors, vectors: Vectors) -> npt.NDArray[np.int64]:
    """Return the five nearest others of each."""
    similar = asked @ vectors.T
    return np.argsort(-similar, axis=1)[:, 1:6]


def kept_as(precision: Precision, vectors: Vectors) -> Vectors:
    """Return vectors as they come back."""
    kind = VectorKind("benchmark", "model", precision=precision)
    back = [unpack(pack(vector, kind, 0), kind) for vector in vectors]
    return np.stack([embedding.vector for embedding in back if embedding is not None])


def sentences() -> Vectors | None:
    """Return vectors of our documentation, if the bundled embedder is installed."""
    try:
        from stepwell.embedding.opening import open_encoder  # noqa: PLC0415
        from stepwell.embedding.recipes import E5  # noqa: PLC0415
    except ImportError:
        return None
    pages = sorted((Path(__file__).parents[1] / "docs").rglob("*.md"))
    texts = [
        part.strip()
        for page in pages
        for part in page.read_text(encoding="utf-8").replace("\n", " ").split(". ")
        if 40 <= len(part) <= 400
    ]
    with TemporaryDirectory() as folder:
        encoder = open_encoder(E5, Path(folder))
        rows = [encoder.encode(text) for text in dict.fromkeys(texts[:1_500])]
    return np.stack([row for row in rows if isinstance(row, np.ndarray)])


def main() -> None:
    """Measure and report."""
    options = parse_arguments(
        __doc__,
        peers="a Python that has the peers installed",
        redis="the server's program",
    )
    results: dict[str, object] = {"laws": laws(2_000 if options.smoke else 100_000)}
    print(json.dumps(results["laws"], indent=2))
    with redis_servers() as launcher:
        server = launcher.start(program=options.redis or VALKEY)
        results["bytes_in_redis"] = told = asyncio.run(sizes(server))
        print("bytes of a vector in Redis:", told)
        with peers_of(options.peers, server.port) as peers:
            rows = asyncio.run(hits(server, peers, 3 if options.smoke else 15))
            results["hits"] = rows
            print_table(rows, list(rows[0]))
            if peers is not None:
                results["peers"] = {"laws": peers.ask("laws"), "bytes": peers.ask("size")}
                print(json.dumps(results["peers"], indent=2))
    results["rounding"] = recalls = rounding(smoke=options.smoke)
    print_table(recalls, list(recalls[0]))
    write("embedding_cache", results, options.json)


if __name__ == "__main__":
    main()
