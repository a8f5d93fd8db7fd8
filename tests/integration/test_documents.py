"""Documents as people keep them: by the command, in a program, and killed in the middle."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.documents import FakeChunks, open_library, sync, texts
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import redis_servers

import stepwell
from stepwell.assembly.documents import make_document_embedder
from stepwell.assembly.settings import Settings
from stepwell.cli.main import main
from stepwell.client import document_desk
from stepwell.core.vectors import Embeddings, Unfit
from stepwell.stores.redis.embeddings import TOMBSTONE

DIMENSIONS = 64
MANUAL = {
    "refunds.md": "# Refunds\n\nA refund takes five days. Ask for it in the app.\n",
    "shipping.md": "# Shipping\n\nParcels arrive within two days. Shipping is free.\n",
    "zh/hours.md": "# 时间\n\n商店从九点开到六点。\n",
}


class Words:
    """An embedder that knows texts by their words, and counts those it has embedded."""

    model_id = "words"
    dimensions = DIMENSIONS
    embedded: list[str] = []  # noqa: RUF012  (of all of them together)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return vectors to which every word adds a direction of its own."""
        Words.embedded += texts
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().replace("?", " ").replace(".", " ").split():
                seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4])
                np.add(row, np.random.default_rng(seed).standard_normal(DIMENSIONS), out=row)
            np.divide(row, np.linalg.norm(row) or 1.0, out=row)
        unfit = (None if text.split() else Unfit.EMPTY for text in texts)
        return Embeddings(vectors, tuple(unfit))

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("embedder") is None:
        monkeypatch.setattr(document_desk, "make_document_embedder", lambda _: Words())
    Words.embedded.clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a directory with documents."""
    directory = tmp_path / "source"
    for name, text in MANUAL.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    return directory


class Command:
    """``stepwell docs``, with a data directory."""

    def __init__(self, *where: str, output: pytest.CaptureFixture[str]) -> None:
        self._where = where
        self._output = output

    def __call__(self, *words: object, status: int = 0) -> str:
        """Run it; return what it printed."""
        done = main(["docs", *map(str, words), *self._where])
        self.told = self._output.readouterr()
        assert done == status, self.told.err
        return self.told.out

    def json(self, *words: object, status: int = 0) -> Any:
        """Run it; return what it printed as JSON."""
        return json.loads(self(*words, "--json", status=status))


@pytest.fixture
def docs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command("--data", str(tmp_path / "data"), output=capsys)


def test_from_a_directory_to_a_search(docs: Command, source: Path) -> None:
    """What a newcomer does; and again after an edit."""
    done = docs.json("sync", source, "--collection", "manual")
    assert (done["added"], done["embedded"], done["failed"]) == (3, 3, [])
    (first, *_) = docs.json("search", "How long does a refund take?", "--collection", "manual")
    assert first["document"] == "refunds.md"
    assert first["text"] == MANUAL["refunds.md"]
    (source / "refunds.md").write_text("# Refunds\n\nA refund takes one day.\n")
    told = docs("sync", source, "--collection", "manual")
    assert told.splitlines()[:2] == ["manual: 1 changed, 2 unchanged", "  1 chunks: 1 embedded"]
    assert "one day" in docs("search", "How long does a refund take?", "--collection", "manual")


def test_a_dry_run_changes_nothing(docs: Command, source: Path) -> None:
    """Not even an empty collection is left."""
    foreseen = docs.json("sync", source, "--collection", "manual", "--dry-run")
    assert (foreseen["added"], foreseen["embedded"]) == (3, 3)
    assert Words.embedded == []
    assert docs("list") == "There are no collections.\n"


def test_what_was_computed_is_in_the_cache(docs: Command, source: Path) -> None:
    """Another collection of the same texts costs nothing; dropped, both leave nothing."""
    docs("sync", source, "--collection", "one")
    Words.embedded.clear()
    done = docs.json("sync", source, "--collection", "two")
    assert (done["embedded"], done["from_cache"], Words.embedded) == (0, 3, [])
    docs("drop", "one", "--yes")
    assert docs.json("sync", source, "--collection", "three")["embedded"] == 0
    docs("drop", "two", "--yes")
    docs("drop", "three", "--yes")
    assert docs.json("sync", source, "--collection", "four")["embedded"] == 3


def test_collections_are_listed_renamed_and_dropped(docs: Command, source: Path) -> None:
    """Dropping says what would go, unless it is meant."""
    docs("sync", source, "--collection", "manual")
    docs("rename", "manual", "handbook")
    (row,) = docs.json("list")
    assert (row["name"], row["documents"], row["model"]) == ("handbook", 3, "words")
    assert docs("drop", "handbook") == "handbook: 3 documents would go; --yes does it\n"
    assert docs("drop", "handbook", "--yes") == "handbook: 3 documents are gone\n"
    assert docs.json("list") == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sync", "nowhere", "--collection", "manual"), "nowhere is not there"),
        (("sync", ".", "--collection", "a\nb"), "allowed: up to 200 characters"),
        (("sync", ".", "--collection", ""), "allowed: up to 200 characters"),
        (("search", "words", "--collection", "none"), "there are: manual, second."),
        (("search", " ", "--collection", "manual"), "no words in the question"),
        (("search", "words", "--collection", "manual", "--top", "0"), "top is 0"),
        (("search", "words", "--collection", "manual", "--top", str(2**64)), "allowed: 1 to 1000"),
        (("search", "words", "--collection", "\udcff"), r"no collection '\udcff'"),
        (("rename", "none", "other"), "no collection 'none'"),
        (("rename", "manual", "second"), "'second' already"),
        (("drop", "none", "--yes"), "no collection 'none'"),
    ],
)
def test_what_cannot_be_done_is_told(
    docs: Command, source: Path, words: tuple[str, ...], told: str
) -> None:
    """In one line, with what to do; and nothing is changed."""
    docs("sync", source, "--collection", "manual")
    docs("sync", source, "--collection", "second")
    before = docs.json("list")
    docs(*words, status=2)
    assert told in docs.told.err
    assert docs.json("list") == before


def test_a_source_that_is_empty_is_told(docs: Command, source: Path, tmp_path: Path) -> None:
    """It may not be mounted."""
    docs("sync", source, "--collection", "manual")
    (tmp_path / "empty").mkdir()
    docs("sync", tmp_path / "empty", "--collection", "manual", status=2)
    assert "--allow-empty" in docs.told.err
    done = docs.json("sync", tmp_path / "empty", "--collection", "manual", "--allow-empty")
    assert done["removed"] == 3


def test_what_cannot_be_read_is_told(docs: Command, source: Path) -> None:
    """By name; all the rest is done."""
    (source / "bad.md").write_bytes(b"\xff\xfe")
    done = docs.json("sync", source, "--collection", "manual", status=1)
    assert done["added"] == 3
    assert done["failed"] == [{"name": "bad.md", "why": "is not UTF-8"}]
    assert docs.told.err == "stepwell: bad.md: is not UTF-8\n"


def test_a_name_cannot_speak_to_the_terminal(docs: Command, source: Path) -> None:
    """Nor look like a line of ours; one that is no Unicode is JSON all the same."""
    (source / "\x1b[2J\nstepwell: all is well.md").write_bytes(b"\xff")
    Path(os.fsdecode(bytes(source) + b"/no\xffunicode.md")).write_text("Text.")
    done = docs.json("sync", source, "--collection", "manual", status=1)
    assert [one["name"] for one in done["failed"]] == [
        "\x1b[2J\nstepwell: all is well.md",
        r"no\udcffunicode.md",
    ]
    assert docs.told.err == (
        r"stepwell: \x1b[2J\nstepwell: all is well.md: is not UTF-8"
        "\n"
        r"stepwell: no\udcffunicode.md: is not UTF-8"
        "\n"
    )


def test_where_nothing_was_put_in_there_is_nothing(docs: Command) -> None:
    """A directory is not made for a question."""
    docs("list", status=2)
    assert "has `stepwell docs sync` run with it?" in docs.told.err


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def test_on_postgres(
    postgres: PostgresServer, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Documents and vectors are there, and nothing is in the data directory."""
    data = tmp_path / "data"
    docs = Command("--postgres", postgres.url, "--data", str(data), output=capsys)
    assert docs.json("sync", source, "--collection", "manual")["embedded"] == 3
    again = docs.json("sync", source, "--collection", "again")
    assert again["from_cache"] == 3, docs.told.err
    (first, *_) = docs.json("search", "Is shipping free?", "--collection", "manual")
    assert first["document"] == "shipping.md"
    docs("drop", "manual", "--yes")
    docs("drop", "again", "--yes")
    count = "SELECT count(*) FROM pg_tables WHERE tablename ~ 'stepwell_(documents|passages)_'"
    assert postgres.query(count) == "0"
    texts = postgres.query(
        "SELECT convert_from(text, 'UTF8') FROM stepwell_embeddings"
    ).splitlines()
    assert texts == ["Is shipping free?"], "what documents had is forgotten"
    assert not data.exists()


def test_what_is_taken_out_is_gone_from_all_tiers(
    postgres: PostgresServer, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One document of three: from the index, PostgreSQL and Redis, which agree (cases 6, 7)."""
    with redis_servers() as launcher:
        redis = launcher.start("maxmemory 50mb", "maxmemory-policy volatile-lru")
        settings = tmp_path / "stepwell.toml"
        settings.write_text(
            f'[stores.postgres]\nurl = "{postgres.url}"\nprefix = "tiers"\n'
            f'[stores.redis]\nurl = "{redis.url}"\n'
        )
        where = ("--config", str(settings), "--data", str(tmp_path))
        docs = Command(*where, output=capsys)
        docs("sync", source, "--collection", "tiers")
        digest = hashlib.sha256(MANUAL["refunds.md"].encode()).hexdigest()
        vectors = f"SELECT count(*) FROM tiers_embeddings WHERE digest = '\\x{digest}'"
        assert postgres.query(vectors) == "1"
        (key,) = redis.ask("KEYS", f"emb:*:{digest}")
        assert redis.ask("STRLEN", key) > DIMENSIONS
        (source / "refunds.md").unlink()
        assert docs.json("sync", source, "--collection", "tiers")["removed"] == 1
        assert postgres.query(vectors) == "0"
        assert redis.ask("GET", key) == TOMBSTONE
        assert redis.ask("TTL", key) <= 60
        found = docs.json("search", "How long does a refund take?", "--collection", "tiers")
        assert {one["document"] for one in found} == {"shipping.md", "zh/hours.md"}
        assert main(["embeddings", "audit", *where]) == 0, capsys.readouterr()
        capsys.readouterr()
        redis.kill()
        docs("search", "What does shipping cost?", "--collection", "tiers")
        told = docs.told.err.splitlines()
        assert len(told) == len(set(told)) > 0, "what fails is said once"


def test_a_postgres_that_is_away_is_told(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once."""
    url = "postgresql://nobody@127.0.0.1:9/none"
    docs = Command("--postgres", url, "--data", str(tmp_path), output=capsys)
    docs("sync", source, "--collection", "manual", status=2)
    assert "127.0.0.1:9" in docs.told.err


async def test_in_a_program(tmp_path: Path) -> None:
    """Its own objects are a source as well; progress is told."""
    rows = [{"id": name, "text": text, "metadata": {"n": 1}} for name, text in MANUAL.items()]
    seen: list[int] = []
    async with stepwell.Documents(data_dir=tmp_path) as documents:
        summary = await documents.sync(
            "manual", rows, on_progress=lambda summary: seen.append(summary.documents)
        )
        assert (summary.added, seen[-1]) == (3, 3)
        (passage,) = await documents.search("manual", "does it arrive within two days?", top=1)
        assert (passage.document, passage.metadata) == ("shipping.md", '{"n":1}')
        assert passage.updated_at == 0.0
    with pytest.raises(RuntimeError):
        await documents.collections()
    with pytest.raises(stepwell.ConfigError, match="data directory"):
        async with stepwell.Documents():
            pass


_CHILD = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, "tests")
from support.documents import FakeChunks, open_library, sync

class Slow(FakeChunks):
    async def embed(self, texts):
        await asyncio.sleep(0.01)
        return await super().embed(texts)

async def run():
    library = await open_library(Path(sys.argv[1]))
    print("begun", flush=True)
    await sync(library, Slow(), {f"{n}.md": sys.argv[2] + f" {n}. " * 100 for n in range(300)})

asyncio.run(run())
"""


async def test_killed_in_the_middle_nothing_is_lost(tmp_path: Path) -> None:
    """Every document is whole, old or new; the next run does what is left, and not more."""
    library = await open_library(tmp_path)
    await sync(library, FakeChunks(), {f"{n}.md": f"Old {n}." for n in range(300)})
    for wait_seconds in (0.05, 0.2):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _CHILD, str(tmp_path), "New", stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert await child.stdout.readline() == b"begun\n"
        await asyncio.sleep(wait_seconds)
        child.kill()
        await child.communicate()
        state = await library.collection("manual")
        assert state is not None
        assert state.serving is not None
        kept = {chunk.text async for chunk in library.chunks(state.serving)}
        assert kept == await texts(library)
        assert (await library.figures(state.serving)).documents == 300
    embedder = FakeChunks()
    source = {f"{n}.md": "New" + f" {n}. " * 100 for n in range(300)}
    summary = await sync(library, embedder, source)
    assert summary.changed + summary.unchanged == 300
    assert summary.unchanged > 0, "it was killed before it had done anything"
    assert (await sync(library, FakeChunks(), source)).unchanged == 300
    await library.aclose()


@pytest.mark.embedder
async def test_the_bundled_embedder_finds_across_languages(tmp_path: Path) -> None:
    """What a newcomer has without settings: English and Chinese, and passages of 1600 bytes."""
    embedder = make_document_embedder(Settings())
    long = "The parcel was sent on a Tuesday and came two days later in the rain. " * 22
    unfit = (await embedder.embed([long])).unfit
    await embedder.aclose()
    assert unfit == (None,)
    async with stepwell.Documents(data_dir=tmp_path) as documents:
        rows = [{"id": name, "text": text} for name, text in MANUAL.items()]
        await documents.sync("manual", rows)
        for question, name in (
            ("When can I get my money back?", "refunds.md"),
            ("商店几点关门？", "zh/hours.md"),
            ("When does the shop open?", "zh/hours.md"),
        ):
            (passage,) = await documents.search("manual", question, top=1)
            assert passage.document == name
