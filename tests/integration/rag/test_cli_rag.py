"""``stepwell rag ask`` on documents that ``stepwell docs sync`` put in, with the real embedder."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from meta.repository import ROOT
from support.embedded import needs_the_engine
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import REDIS, VALKEY, redis_servers

from stepwell.cli.main import main
from stepwell.testing.fake_upstream import FakeUpstream, Script

pytestmark = pytest.mark.embedder

DOCUMENTS = ROOT / "examples" / "rag" / "documents"
QUESTION = "How many days does a refund take?"

Ask = Callable[..., Awaitable[Mapping[str, Any]]]


@pytest.fixture(scope="module", autouse=True)
def _models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Convert the embedder's weights once, and not in the home of whoever runs the tests."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Return a copy of the example's documents."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for document in DOCUMENTS.iterdir():
        (folder / document.name).write_text(document.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def change(document: Path, old: str, new: str) -> None:
    text = document.read_text(encoding="utf-8")
    assert old in text
    document.write_text(text.replace(old, new), encoding="utf-8")


class Program:
    """Runs commands, each as a process of its own would see it."""

    def __init__(self, upstream: FakeUpstream, *places: str) -> None:
        self._upstream = upstream
        self._places = places

    async def sync(self, documents: Path) -> None:
        command = ["docs", "sync", str(documents), "--collection", "lanterns", *self._places]
        assert await asyncio.to_thread(main, command) == 0

    async def ask(self, question: str, *options: str) -> int:
        model = ("--upstream", self._upstream.base_url, "--model", "m", "--top", "2")
        command = ["rag", "ask", question, "--collection", "lanterns", *model, *self._places]
        return await asyncio.to_thread(main, [*command, *options])


def outcomes(told: Mapping[str, Any]) -> Mapping[str, str]:
    return {stage["stage"]: f"{stage['outcome']} {stage['detail']}" for stage in told["stages"]}


async def test_in_a_directory(
    upstream: FakeUpstream, tmp_path: Path, documents: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON and as text; English and Chinese."""
    program = Program(upstream, "--data", str(tmp_path / "data"))
    await program.sync(documents)
    capsys.readouterr()

    assert await program.ask(QUESTION, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["documents"][0] == "refunds.md"
    assert QUESTION in told["answer"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["last_updated"])
    assert [stage["stage"] for stage in told["stages"]] == [
        *("memo", "embedding", "search", "result", "model")
    ]
    assert outcomes(told)["model"].startswith("done ")
    assert sum(stage["milliseconds"] for stage in told["stages"]) <= told["milliseconds"]

    assert await program.ask(QUESTION) == 0
    out = capsys.readouterr().out
    assert re.search(r"^memo +hit, disk +[\d.]+$", out, re.MULTILINE)
    assert re.search(r"^model +skipped +0\.0$", out, re.MULTILINE)
    assert f"From (last updated {told['last_updated']}):\n  refunds.md\n" in out
    assert upstream.call_count == 1

    assert await program.ask("退款要几天？", "--json") == 0
    assert json.loads(capsys.readouterr().out)["documents"][0] == "退款.md"


async def test_what_to_do(
    upstream: FakeUpstream, tmp_path: Path, documents: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks too early, or wrongly, is told."""
    data = tmp_path / "data"
    program = Program(upstream, "--data", str(data))

    async def refused(*options: str, question: str = QUESTION) -> str:
        assert await program.ask(question, *options) == 2
        return capsys.readouterr().err

    assert "has `stepwell docs sync` run with it?" in await refused()
    data.mkdir()
    assert "stepwell docs sync FOLDER --collection lanterns" in await refused()
    await program.sync(documents)
    assert "question is empty" in await refused(question=" ")
    assert "--top is 0; allowed: 1 to 100" in await refused("--top", "0")
    upstream.queue.append(Script(status=503))
    assert "answered 503" in await refused()
    half = partial(_refused, capsys, "--data", str(data))
    assert "--model is not given" in await half("--upstream", upstream.base_url)
    assert "name one by --upstream" in await half("--model", "Qwen/Qwen3-8B")


async def _refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    command = ["rag", "ask", QUESTION, "--collection", "lanterns", *options]
    assert await asyncio.to_thread(main, command) == 2
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


async def test_on_servers(
    upstream: FakeUpstream,
    tmp_path: Path,
    documents: Path,
    capsys: pytest.CaptureFixture[str],
    postgres: PostgresServer,
) -> None:
    """Documents in PostgreSQL, answers in Redis, vectors in both; and then without Redis."""
    with redis_servers() as launcher:
        redis = launcher.start(program=REDIS or VALKEY)
        places = ("--redis", redis.url, "--postgres", postgres.url)
        program = Program(upstream, *places, "--data", str(tmp_path / "data"))

        async def ask() -> Mapping[str, str]:
            capsys.readouterr()
            assert await program.ask(QUESTION, "--json") == 0
            told = json.loads(capsys.readouterr().out)
            assert told["documents"][0] == "refunds.md"
            return outcomes(told)

        await program.sync(documents)
        assert (await ask())["embedding"] == "miss "
        assert await ask() == {
            "memo": "hit redis",
            "embedding": "skipped ",
            "search": "skipped ",
            "result": "hit redis",
            "model": "skipped ",
        }
        change(documents / "warranty.md", "three years", "four years")
        await program.sync(documents)
        again = await ask()
        assert (again["memo"], again["embedding"]) == ("miss ", "hit redis")
        assert (again["result"], upstream.call_count) == ("hit redis", 1)
        change(documents / "refunds.md", "five days", "nine days")
        await program.sync(documents)
        assert (await ask())["model"].startswith("done ")
        assert "nine days" in upstream.calls[-1].json()["messages"][0]["content"]
        redis.kill()
        without = await ask()
        assert (without["memo"], without["embedding"]) == ("miss ", "hit postgres")
        assert without["model"].startswith("done ")


@pytest.mark.slow
@pytest.mark.embedded
@needs_the_engine
def test_the_tour(tmp_path: Path) -> None:
    """The example does what it says, on the embedded model, embedder and stores alone."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", ROOT / "examples" / "rag" / "tour.sh"],
        text=True,
        capture_output=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    tables = [_stages(part) for part in done.stdout.split("\n## ")[2:]]
    assert [table["model"] for table in tables] == ["done", "skipped", "skipped", "done"]
    assert [table["memo"] for table in tables] == ["miss", "hit", "miss", "miss"]
    assert [table["embedding"] for table in tables] == ["miss", "skipped", "hit", "hit"]
    assert [table["result"] for table in tables] == ["miss", "hit", "hit", "miss"]
    assert [*tmp_path.iterdir()] == []


def _stages(part: str) -> Mapping[str, str]:
    names: Sequence[str] = ("memo", "embedding", "search", "result", "model")
    lines = [line.replace(",", " ").split() for line in part.splitlines()]
    return {words[0]: words[1] for words in lines if words and words[0] in names}
