"""From a question to an answer: what is asked again, and what is not, when documents change."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from support.documents import Ignored, given
from support.word_vectors import WordVectors

import stepwell
from stepwell.core.clock import SystemClock
from stepwell.core.documents import Edition, Passage
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.errors import (
    ConfigError,
    EditionGone,
    EmbeddingError,
    RequestError,
    UpstreamError,
)
from stepwell.core.vectors import Vector
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.cached_embedder import embedder_kind
from stepwell.embedding.documents.sync import Sync
from stepwell.embedding.documents.vectors import UncachedChunks
from stepwell.rag.flow import Rag, Sources
from stepwell.rag.questions import CachedQuestions
from stepwell.rag.reply import Reply
from stepwell.rag.template import Template
from stepwell.stores.disk.documents.store import DiskLibrary
from stepwell.testing.fake_upstream import FakeUpstream, Script

MANUAL = {
    "refunds.md": "Refunds take five days. Ask for a refund in the app.",
    "shipping.md": "Shipping is free above 50 euros. Parcels come in two days.",
    "退款.md": "退款需要五天。请在应用里申请退款。",
    "hours.md": "The shop is open from nine to six.",
}
REFUND = "How long does a refund take?"


class Unheard:
    """A sink for what nobody asks about."""

    def emit(self, event: EmbeddingEvent) -> None:
        """Drop ``event``."""


@dataclass
class House:
    """Everything a flow is made of, and a way to change its documents."""

    upstream: FakeUpstream
    directory: Path
    stack: AsyncExitStack
    embedder: WordVectors = field(default_factory=WordVectors)
    documents: dict[str, str] = field(default_factory=lambda: dict(MANUAL))
    updated_at: float = 1_000.0

    async def open(self, *, tenant: str = "default", top: int = 2) -> Rag:
        """Return a flow over the directory, as a process of its own would have it."""
        cache = stepwell.Cache(
            {"classes": {"general": {"store_truncated": True}}},
            upstream=self.upstream.base_url,
            data_dir=self.directory,
            tenant=tenant,
        )
        await self.stack.enter_async_context(cache)
        vectors = EmbeddingCache(Unheard())
        self.stack.push_async_callback(vectors.aclose)
        questions = CachedQuestions(self.embedder, vectors)
        sources = Sources(await self.open_library(), "manual", questions, top)
        return Rag(sources, cache, Template("m"))

    async def open_library(self) -> DiskLibrary:
        library = await DiskLibrary.open(self.directory, clock=SystemClock(), events=Ignored())
        self.stack.push_async_callback(library.aclose)
        return library

    async def sync(self, **changes: str | None) -> None:
        """Change documents, by names without their suffix, and bring the collection in step."""
        for name, text in changes.items():
            self.documents.pop(f"{name}.md", None)
            if text is not None:
                self.documents[f"{name}.md"] = text
        self.updated_at += 1.0
        library = await self.open_library()
        chunks = UncachedChunks(self.embedder, embedder_kind(self.embedder))
        source = given(self.documents, updated_at=self.updated_at)
        await Sync(library, chunks, clock=SystemClock()).run(
            "manual", lambda: iter(source), allow_empty=True
        )


@pytest.fixture
async def house(upstream: FakeUpstream, tmp_path: Path) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        yield House(upstream, tmp_path, stack)


def outcomes(reply: Reply) -> Mapping[str, str]:
    return {stage.name: f"{stage.outcome} {stage.detail}".strip() for stage in reply.stages}


def made_by(house: House) -> str:
    """Return what the stage says of an answer of the fake model server: it echoes."""
    words = last_prompt(house.upstream)[1]
    assert words == REFUND
    return "done 8 tokens"


def last_prompt(upstream: FakeUpstream) -> tuple[str, str]:
    system, user = upstream.calls[-1].json()["messages"]
    return system["content"], user["content"]


async def test_asked_then_asked_again(house: House) -> None:
    """The model answers once, by the nearest passages; the second answer passes no stage."""
    await house.sync()
    rag = await house.open(top=1)
    first = await rag.ask(REFUND)
    system, user = last_prompt(house.upstream)
    assert MANUAL["refunds.md"] in system
    assert MANUAL["hours.md"] not in system
    assert user == REFUND
    assert outcomes(first) == {
        "memo": "miss",
        "embedding": "miss",
        "search": "done 1 passage",
        "result": "miss",
        "model": made_by(house),
    }
    assert first.documents[0] == "refunds.md"
    assert first.last_updated == 1_001.0
    again = await rag.ask(f"  {REFUND}\n")
    assert outcomes(again) == {
        "memo": "hit memory",
        "embedding": "skipped",
        "search": "skipped",
        "result": "hit memory",
        "model": "skipped",
    }
    assert (again.answer, again.passages) == (first.answer, first.passages)
    assert house.upstream.call_count == 1
    assert again.milliseconds > 0
    assert sum(stage.milliseconds for stage in again.stages) <= again.milliseconds


async def test_a_changed_document_is_another_answer(house: House) -> None:
    """No time has to pass, and nothing has to be invalidated."""
    await house.sync()
    rag = await house.open()
    before = await rag.ask(REFUND)
    await house.sync(refunds="Refunds take two days. Ask for a refund in the app.")
    after = await rag.ask(REFUND)
    assert "two days" in last_prompt(house.upstream)[0]
    assert outcomes(after)["embedding"] == "hit memory"
    assert outcomes(after)["model"] == made_by(house)
    assert house.upstream.call_count == 2
    assert (before.last_updated, after.last_updated) == (1_001.0, 1_002.0)
    await house.sync(refunds=MANUAL["refunds.md"])
    assert (await rag.ask(REFUND)).answer == before.answer
    assert house.upstream.call_count == 2


async def test_another_document_changes(house: House) -> None:
    """It is searched again, and comes to the same answer."""
    await house.sync()
    rag = await house.open(top=1)
    before = await rag.ask(REFUND)
    await house.sync(hours="The shop is closed on Sundays.")
    after = await rag.ask(REFUND)
    assert outcomes(after) == {
        "memo": "miss",
        "embedding": "hit memory",
        "search": "done 1 passage",
        "result": "hit memory",
        "model": "skipped",
    }
    assert (after.answer, house.upstream.call_count) == (before.answer, 1)
    assert outcomes(await rag.ask(REFUND))["memo"] == "hit memory"


async def test_a_document_moves(house: House) -> None:
    """The answer stays, and says where it stands now."""
    await house.sync()
    rag = await house.open()
    await rag.ask(REFUND)
    await house.sync(refunds=None, returns=MANUAL["refunds.md"])
    after = await rag.ask(REFUND)
    assert after.documents[0] == "returns.md"
    assert (outcomes(after)["result"], house.upstream.call_count) == ("hit memory", 1)


async def test_a_document_goes(house: House) -> None:
    await house.sync()
    rag = await house.open()
    await rag.ask(REFUND)
    await house.sync(refunds=None)
    after = await rag.ask(REFUND)
    assert "refunds.md" not in after.documents
    assert MANUAL["refunds.md"] not in last_prompt(house.upstream)[0]


async def test_chinese(house: House) -> None:
    await house.sync()
    rag = await house.open(top=1)
    assert (await rag.ask("退款要几天？")).documents == ["退款.md"]


async def test_another_process_and_another_tenant(house: House) -> None:
    """What is on disk is found; what is another's is not."""
    await house.sync()
    first = await (await house.open()).ask(REFUND)
    again = await (await house.open()).ask(REFUND)
    assert outcomes(again)["memo"] == "hit disk"
    assert outcomes(again)["result"] == "hit disk"
    assert again.answer == first.answer
    other = await (await house.open(tenant="other")).ask(REFUND)
    assert outcomes(other)["memo"] == "miss"
    assert outcomes(other)["result"] == "miss"
    assert house.upstream.call_count == 2


async def test_asked_at_once(house: House) -> None:
    """Eight at a time cost one answer and one vector."""
    await house.sync()
    rag = await house.open()
    house.embedder.embedded.clear()
    replies = await asyncio.gather(*[rag.ask(REFUND) for _ in range(8)])
    assert len({reply.answer for reply in replies}) == 1
    assert (house.upstream.call_count, house.embedder.embedded) == (1, [REFUND])


async def test_an_answer_that_was_invalidated(house: House) -> None:
    """The memo still leads to the request, and the model answers it anew."""
    await house.sync()
    rag = await house.open()
    await rag.ask(REFUND)
    await rag._cache.invalidate(model="m")
    after = await rag.ask(REFUND)
    assert outcomes(after) == {
        "memo": "hit memory",
        "embedding": "skipped",
        "search": "skipped",
        "result": "miss",
        "model": made_by(house),
    }


async def test_a_model_that_refuses(house: House) -> None:
    """Nothing is kept, and the next one who asks gets an answer."""
    await house.sync()
    rag = await house.open()
    house.upstream.queue.append(Script(status=400))
    with pytest.raises(UpstreamError, match="answered 400"):
        await rag.ask(REFUND)
    assert outcomes(await rag.ask(REFUND))["memo"] == "miss"


async def test_no_collection_and_an_empty_one(house: House) -> None:
    """Both say what to do."""
    rag = await house.open()
    advice = "stepwell docs sync FOLDER --collection manual"
    with pytest.raises(ConfigError, match=rf"no collection 'manual'.*{advice}"):
        await rag.ask(REFUND)
    await house.sync()
    assert (await rag.ask(REFUND)).answer
    await house.sync(**{name.removesuffix(".md"): None for name in MANUAL})
    with pytest.raises(ConfigError, match=rf"'manual' is empty.*{advice}"):
        await rag.ask(REFUND)


async def test_another_embedder(house: House) -> None:
    await house.sync()
    house.embedder = WordVectors("other words")
    with pytest.raises(
        ConfigError, match=r"was embedded by 'words'.*questions are by 'other words'"
    ):
        await (await house.open()).ask(REFUND)


@pytest.mark.parametrize("question", ["", " \n", "\ud800", "?!"])
async def test_what_is_no_question(house: House, question: str) -> None:
    await house.sync()
    with pytest.raises(RequestError, match="question"):
        await (await house.open()).ask(question)
    assert house.upstream.call_count == 0


async def test_a_question_longer_than_the_window(house: House) -> None:
    """It is embedded in parts."""
    await house.sync()
    house.embedder.window_words = 8
    reply = await (await house.open(top=1)).ask(f"{REFUND} {REFUND}")
    assert reply.documents == ["refunds.md"]


async def test_an_embedder_that_fails(house: House) -> None:
    await house.sync()
    rag = await house.open()
    house.embedder.fails = True
    with pytest.raises(EmbeddingError):
        await rag.ask(REFUND)
    house.embedder.fails = False
    assert (await rag.ask(REFUND)).answer


async def test_documents_are_replaced_meanwhile(house: House) -> None:
    """The question is asked of those that took their place."""
    await house.sync()
    rag = await house.open()
    library = rag._sources.documents

    class Replaced:
        collection = library.collection
        tries = 0

        async def nearest(self, edition: Edition, vector: Vector, k: int) -> list[Passage]:
            self.tries += 1
            if self.tries == 1:
                raise EditionGone("gone")
            return [*await library.nearest(edition, vector, k)]

    rag._sources = replace(rag._sources, documents=Replaced())  # type: ignore[arg-type]
    assert (await rag.ask(REFUND)).documents[0] == "refunds.md"


async def test_libraries_do_not_share(house: House) -> None:
    """Two libraries that are as old as each other, with one store of answers."""
    await house.sync()
    await (await house.open()).ask(REFUND)
    for file in house.directory.glob("documents*"):
        file.unlink()
    house.documents["refunds.md"] = "Refunds take nine days. Ask for a refund in the app."
    await house.sync()
    after = await (await house.open()).ask(REFUND)
    assert outcomes(after)["memo"] == "miss"
    assert "nine days" in last_prompt(house.upstream)[0]
