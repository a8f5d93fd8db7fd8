"""``stepwell rag ask`` where a server embeds, and hostile questions."""

import asyncio
import json
from pathlib import Path

import pytest

from stepwell.cli.main import main
from stepwell.testing.fake_upstream import FakeUpstream


@pytest.fixture
def settings(upstream: FakeUpstream, tmp_path: Path) -> Path:
    """Return settings by which one server embeds and answers."""
    path = tmp_path / "stepwell.toml"
    path.write_text(
        f"""
        data_dir = "data"
        [upstreams.main]
        base_url = "{upstream.base_url}"
        [semantic]
        embedder = "endpoint"
        [semantic.endpoint]
        base_url = "{upstream.base_url}"
        model = "e"
        dimensions = 8
        """
    )
    return path


@pytest.fixture
async def collection(settings: Path, tmp_path: Path) -> str:
    """Return a collection with a document."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "refunds.md").write_text("Refunds take five days.")
    command = ["docs", "sync", str(tmp_path / "documents"), "--collection", "manual"]
    assert await asyncio.to_thread(main, [*command, "--config", str(settings)]) == 0
    return "manual"


async def ask(settings: Path, question: str, collection: str) -> int:
    command = ["rag", "ask", question, "--collection", collection, "--model", "m", "--json"]
    return await asyncio.to_thread(main, [*command, "--config", str(settings)])


async def test_a_server_embeds(
    settings: Path, collection: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert await ask(settings, "How long?", collection) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["documents"] == ["refunds.md"]
    assert printed.err == ""


@pytest.mark.parametrize(
    ("question", "asked", "told"),
    [
        ("", "manual", "The question is empty."),
        ("\udcff", "manual", "no Unicode text"),
        ("words", "other", "no collection 'other'"),
        ("words", "", "no collection ''"),
        ("words", "\udcff", r"no collection '\udcff'"),
    ],
)
async def test_what_cannot_be_asked_is_told(
    settings: Path,
    collection: str,
    capsys: pytest.CaptureFixture[str],
    question: str,
    asked: str,
    told: str,
) -> None:
    """In one line."""
    del collection  # It is there.
    capsys.readouterr()
    assert await ask(settings, question, asked) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line
