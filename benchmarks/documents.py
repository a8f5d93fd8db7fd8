"""Documents: what an edit costs to embed, what a search costs and finds, how fast sync is.

    python benchmarks/documents.py [--smoke] [--json OUT] [--directory DIR] [--peers PYTHON]

*Edits*: of each document one sentence is put in at 5 % of its length, one word changed anywhere,
one paragraph deleted. Counted are chunks that were not there before: what must be embedded.
``fixed`` cuts every 1,000 characters. ``--directory`` has the documents, ``*.md``, ``*.rst`` and
``*.txt``; by default they are our own pages and what installed distributions say of themselves, as
far as they are long. ``--peers`` is a Python in which langchain-text-splitters and llama-index-core
are installed: they cut the same texts.

*Search*: the five passages nearest to a question, of 20,000 clustered vectors of 1,536 numbers.
``hnsw`` is the library on PostgreSQL; ``exact`` the same query without its index; ``file`` the
library in a file, which is exact. Recall is against float32 in numpy. Each has its turn alone, with
all questions: the tests' server has 64 MB of buffers, and a search of everything takes them all.

*Sync*: documents put in and looked at again, by an embedder that costs nothing. ``floor`` reads and
hashes them.
"""

import asyncio
import hashlib
import json
import random
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import numpy as np
from report import parse_arguments, print_table, write
from support.documents import FakeChunks, open_library, open_postgres_library
from support.postgres_server import PostgresServer, postgres_server

from stepwell.core.clock import SystemClock
from stepwell.core.documents import Edition, Epoch, Library
from stepwell.core.vectors import Vector, Vectors
from stepwell.embedding.documents.cutting import Bounds, cut
from stepwell.embedding.documents.sources import Given, read_directory
from stepwell.embedding.documents.sync import Sync
from stepwell.stores.postgres.documents.asking import nearest_query
from stepwell.stores.postgres.documents.schema import SESSION, DocumentSchema
from stepwell.testing.documents_contract import digest_of, make_document, make_recipe

ROOT = Path(__file__).parents[1]
LEAST_CHARACTERS = 12_000
MOST_CHARACTERS = 100_000
TOP = 5
INDEX_SECONDS = 3_600.0
WORDS = "cache vector model prompt store chunk answer token page index".split()

Pair = tuple[str, str]


def texts_of(directory: str | None) -> list[str]:
    """Return the documents that are edited."""
    if directory is not None:
        found = read_directory(Path(directory))
        return [one.text for one in found if isinstance(one, Given) and one.text]
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("design/*.md"), *ROOT.glob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in sorted(pages)]
    texts += sorted(found.read_text("METADATA") or "" for found in distributions())
    return [text for text in texts if LEAST_CHARACTERS <= len(text) <= MOST_CHARACTERS]


def put_in(text: str, chance: random.Random) -> str:
    """Return ``text`` with a sentence more, near its beginning."""
    at = text.find(" ", len(text) // 20) + 1
    sentence = " ".join(chance.choice(WORDS) for _ in range(12)).capitalize()
    return f"{text[:at]}{sentence}. {text[at:]}"


def change(text: str, chance: random.Random) -> str:
    """Return ``text`` with another word somewhere."""
    start = text.find(" ", chance.randrange(len(text) * 9 // 10)) + 1
    end = text.find(" ", start)
    return text[:start] + chance.choice(WORDS) + text[end:]


def delete(text: str, chance: random.Random) -> str:
    """Return ``text`` without one of its paragraphs."""
    paragraphs = text.split("\n\n")
    del paragraphs[chance.randrange(len(paragraphs))]
    return "\n\n".join(paragraphs)


EDITS = {"sentence put in": put_in, "word changed": change, "paragraph deleted": delete}


def ours(text: str) -> list[str]:
    """Return our chunks."""
    return [piece.text for piece in cut(text, Bounds())]


def fixed(text: str) -> list[str]:
    """Return chunks of 1,000 characters."""
    return [text[start : start + 1_000] for start in range(0, len(text), 1_000)]


def measure_edits(texts: Sequence[str], rounds: int, peers: str | None) -> dict[str, object]:
    """Return how many chunks an edit makes new, on average, by splitter and edit."""
    pairs: dict[str, list[Pair]] = {}
    for name, edit in EDITS.items():
        chance = random.Random(1)
        pairs[name] = [(text, edit(text, chance)) for _ in range(rounds) for text in texts]
    rows = []
    for splitter, split in {"stepwell": ours, "fixed 1000": fixed}.items():
        row: dict[str, object] = {"splitter": splitter}
        for name, some in pairs.items():
            row[name] = statistics.mean(
                len({*split(after)} - {*split(before)}) for before, after in some
            )
        rows.append(row)
    if peers is not None:
        rows += _peers(peers, pairs)
    for row in rows:
        row["mean"] = statistics.mean(float(str(row[name])) for name in EDITS)
    sizes = [len(chunk.encode()) for text in texts for chunk in ours(text)]
    print(f"{len(texts)} documents, {sum(map(len, texts))} characters, {rounds} rounds")
    print_table(rows, ["splitter", *EDITS, "mean"])
    return {
        "documents": len(texts),
        "characters": sum(map(len, texts)),
        "mean_chunk_bytes": statistics.mean(sizes),
        "chunks_per_edit": rows,
    }


def _peers(python: str, pairs: dict[str, list[Pair]]) -> list[dict[str, object]]:
    rows: dict[str, dict[str, object]] = {}
    program = Path(__file__).parent / "foreign" / "document_splitters.py"
    for name, some in pairs.items():
        done = subprocess.run(
            [python, program], input=json.dumps(some), text=True, stdout=subprocess.PIPE, check=True
        )
        for splitter, counts in json.loads(done.stdout).items():
            rows.setdefault(splitter, {"splitter": splitter})[name] = statistics.mean(counts)
    return [*rows.values()]


def clustered(count: int, dimensions: int, seed: int) -> Vectors:
    """Return unit vectors around some hundred centres, as texts of some hundred subjects lie."""
    drawn = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((200, dimensions)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    noise = drawn.standard_normal((count, dimensions)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    vectors = 0.6 * centres[drawn.integers(0, len(centres), count)] + 0.8 * noise
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


async def fill(library: Library, vectors: Vectors) -> Edition:
    """Put all vectors in, 200 a document, and have them searched."""
    state, edition = await library.edition("benchmark", make_recipe("r", vectors.shape[1]))
    for start in range(0, len(vectors), 200):
        some = vectors[start : start + 200]
        names = [f"passage {start + number}" for number in range(len(some))]
        made = dict(zip(map(digest_of, names), some, strict=True))
        await library.replace(edition, make_document(f"{start}", names), made, Epoch(0))
    await library.serve(state.collection, edition)
    return edition


Search = Callable[[Vector], Awaitable[set[int]]]


def _through(library: Library, edition: Edition) -> Search:
    async def search(query: Vector) -> set[int]:
        found = await library.nearest(edition, query, TOP)
        return {int(passage.text.split()[1]) for passage in found}

    return search


@asynccontextmanager
async def _exact(server: PostgresServer, edition: Edition, width: int) -> AsyncIterator[Search]:
    """Search by the library's query, but without its index."""
    connection = await asyncpg.connect(server.url, server_settings=dict(SESSION))
    await connection.execute("SET enable_indexscan = off")
    query = nearest_query(DocumentSchema("stepwell"), edition, width)

    async def search(vector: Vector) -> set[int]:
        rows = await connection.fetch(query, vector.tolist(), 2 * TOP, TOP)
        return {int(row[2].split()[1]) for row in rows}

    try:
        yield search
    finally:
        await connection.close()


async def measure_search(
    server: PostgresServer, directory: Path, count: int, width: int, rounds: int
) -> dict[str, object]:
    """Return seconds and recall of a search."""
    vectors, queries = clustered(count, width, 1), clustered(rounds, width, 2)
    postgres = await open_postgres_library(server.url, timeout_seconds=INDEX_SECONDS)
    file = await open_library(directory)
    started = time.perf_counter()
    edition = await fill(postgres, vectors)
    filled_seconds = time.perf_counter() - started
    seconds: dict[str, list[float]] = {}
    hits: dict[str, int] = {}
    async with _exact(server, edition, width) as exact:
        ways = {
            "hnsw": _through(postgres, edition),
            "exact": exact,
            "file": _through(file, await fill(file, vectors)),
        }
        for name, search in ways.items():
            await search(vectors[0])
            for query in queries:
                started = time.perf_counter()
                found = await search(query)
                seconds.setdefault(name, []).append(time.perf_counter() - started)
                true = {int(at) for at in np.argsort(-(vectors @ query))[:TOP]}
                hits[name] = hits.get(name, 0) + len(found & true)
    await postgres.aclose()
    await file.aclose()
    rows = [
        {
            "search": name,
            "milliseconds": 1_000 * statistics.median(seconds[name]),
            "exact / this": statistics.median(seconds["exact"]) / statistics.median(seconds[name]),
            "recall@5": hits[name] / TOP / rounds,
        }
        for name in ways
    ]
    print(f"{count} passages of {width} dimensions, put into PostgreSQL in {filled_seconds:.0f} s")
    print_table(rows, ["search", "milliseconds", "exact / this", "recall@5"])
    return {"passages": count, "dimensions": width, "searches": rows}


async def measure_sync(
    server: PostgresServer, directory: Path, documents: int
) -> list[dict[str, object]]:
    """Return how many documents a second are put in, and looked at again."""
    source = directory / "source"
    source.mkdir()
    for number in range(documents):
        (source / f"{number}.md").write_text(f"Sentence number {number} of many. " * 60)
    rows = []
    libraries: dict[str, Library] = {
        "file": await open_library(directory),
        "postgres": await open_postgres_library(server.url, "sync"),
    }
    for name, library in libraries.items():
        run = Sync(library, FakeChunks(), clock=SystemClock())
        put = await run.run("sync", partial(read_directory, source))
        again = await run.run("sync", partial(read_directory, source))
        started = time.perf_counter()
        for read in read_directory(source):
            assert isinstance(read, Given)
            hashlib.sha256(read.text.encode()).digest()
        floor_seconds = time.perf_counter() - started
        rows.append(
            {
                "library": name,
                "documents put in a second": documents / put.seconds,
                "chunks put in a second": put.chunks / put.seconds,
                "documents unchanged a second": documents / again.seconds,
                "unchanged / floor": again.seconds / floor_seconds,
            }
        )
        await library.aclose()
    print_table(rows, [*rows[0]])
    return rows


async def measure(server: PostgresServer, *, smoke: bool) -> dict[str, object]:
    """Return what needs servers."""
    with TemporaryDirectory() as name:
        count, width, rounds = (500, 32, 10) if smoke else (20_000, 1_536, 100)
        search = await measure_search(server, Path(name), count, width, rounds)
        return {
            "search": search,
            "sync": await measure_sync(server, Path(name), 50 if smoke else 1_000),
        }


def main() -> None:
    """Measure."""
    arguments = parse_arguments(
        __doc__, directory="documents to edit", peers="a Python with other splitters"
    )
    rounds = 1 if arguments.smoke else 10
    edits = measure_edits(texts_of(arguments.directory), rounds, arguments.peers)
    with postgres_server() as server:
        served = asyncio.run(measure(server, smoke=arguments.smoke))
    write("documents", {"edits": edits, **served}, arguments.json)


if __name__ == "__main__":
    main()
