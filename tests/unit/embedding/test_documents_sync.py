"""Keeping a collection in step with a source: what is embedded, and what is never lost.

The library is a real one, in a file.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from support.documents import (
    MANUAL,
    SMALL,
    FakeChunks,
    found,
    given,
    open_library,
    sync,
    texts,
)

from stepwell.core.clock import SystemClock
from stepwell.core.documents import Epoch
from stepwell.core.errors import ConfigError, EditionGone, EmbeddingError
from stepwell.embedding.documents.cutting import Bounds
from stepwell.embedding.documents.sources import Read, Unread
from stepwell.embedding.documents.sync import READ_AT_ONCE, Sync
from stepwell.embedding.documents.vectors import ChunkVectors
from stepwell.stores.disk.documents.store import DiskLibrary

LONG = " ".join(f"This is sentence number {n} of a text, which goes on and on." for n in range(200))
"""More than ten chunks by the usual bounds."""


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[DiskLibrary]:
    """Open a library of its own."""
    opened = await open_library(tmp_path)
    yield opened
    await opened.aclose()


@pytest.fixture
def embedder() -> FakeChunks:
    return FakeChunks()


class FailsAfter(FakeChunks):
    """Answers so many calls, and then none."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self._works = calls

    async def embed(self, texts: Sequence[str]) -> ChunkVectors:
        self.fails = self.calls >= self._works
        return await super().embed(texts)


async def test_what_was_put_in_is_found(library: DiskLibrary, embedder: FakeChunks) -> None:
    """A passage says which document it is of, and where it begins there."""
    summary = await sync(library, embedder, {"a.md": LONG, "b.md": "Short."}, bounds=Bounds())
    assert (summary.added, summary.failed) == (2, [])
    text = embedder.embedded[5]
    (passage,) = await found(library, text)
    assert (passage.document, passage.text) == ("a.md", text)
    assert LONG[passage.start :].startswith(text)


@pytest.mark.parametrize("count", [1, READ_AT_ONCE, 3 * READ_AT_ONCE + 1])
async def test_a_second_run_embeds_and_removes_nothing(
    library: DiskLibrary, embedder: FakeChunks, count: int
) -> None:
    """However documents fall into batches, one that is unchanged costs nothing (case 4)."""
    source = {f"{n}.md": f"Text {n}. Another." for n in range(count)} | {"long.md": LONG}
    await sync(library, embedder, source)
    embedder.take()
    summary = await sync(library, embedder, source)
    assert (embedder.calls, summary.removed, summary.wrote) == (0, 0, False)
    assert summary.unchanged == count + 1


async def test_an_empty_source_removes_nothing(library: DiskLibrary, embedder: FakeChunks) -> None:
    """It may have failed; who means it says so (case 5)."""
    await sync(library, embedder, {"a.md": "Kept."})
    with pytest.raises(ConfigError, match="--allow-empty"):
        await sync(library, embedder, {})
    assert await texts(library) == {"Kept."}
    assert (await sync(library, embedder, {}, allow_empty=True)).removed == 1
    assert await texts(library) == set()


async def test_a_source_that_fails_removes_nothing(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """What it has not come to may be there (case 5)."""
    await sync(library, embedder, {"a.md": "One.", "b.md": "Two."})

    def broken() -> Iterator[Read]:
        yield from given({"a.md": "One, changed."})
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await Sync(library, embedder, clock=SystemClock(), bounds=SMALL).run(MANUAL, broken)
    assert await texts(library) == {"One.", "Two."}


async def test_what_cannot_be_read_stays(library: DiskLibrary, embedder: FakeChunks) -> None:
    """A file, and all below a directory."""
    source = {"a.md": "One.", "sub/b.md": "Two.", "sub/c.md": "Three.", "submarine.md": "Four."}
    await sync(library, embedder, source)
    reads = [*given({"z.md": "Five."}), Unread("a.md", "denied"), Unread("sub/", "denied")]
    summary = await sync(library, embedder, reads)
    assert await texts(library) == {"One.", "Two.", "Three.", "Five."}
    assert [one.name for one in summary.failed] == ["a.md", "sub/"]


async def test_a_chunk_that_is_taken_out_is_gone(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """From what is searched, and from what the embedding cache knows (case 6)."""
    await sync(library, embedder, {"a.md": "# A\none\n# B\ntwo\n# C\nthree\n" + LONG})
    before = await texts(library)
    await sync(library, embedder, {"a.md": "# A\none\n# C\nthree\n" + LONG})
    gone = before - await texts(library)
    assert gone
    assert gone <= set(embedder.forgotten)
    assert not set(embedder.forgotten) & await texts(library)


async def test_a_document_that_fails_is_put_in_by_the_next_run(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """Others of its batch are not held up; what it was before is still served (cases 7, 9)."""
    await sync(library, embedder, {"a.md": "Old.", "b.md": "Other."})
    embedder.poison = {"New."}
    source = {"a.md": "New.", "b.md": "Other, new.", "c.md": "More."}
    summary = await sync(library, embedder, source)
    assert [one.name for one in summary.failed] == ["a.md"]
    assert await texts(library) == {"Old.", "Other, new.", "More."}
    embedder.poison = set()
    embedder.take()
    assert (await sync(library, embedder, source)).failed == []
    assert await texts(library) == {"New.", "Other, new.", "More."}
    assert embedder.take() == ["New."]


async def test_an_embedder_that_is_away_stops_the_run(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """Not at the thousandth document, but soon; nothing is lost, and a retry succeeds (case 9)."""
    await sync(library, embedder, {f"{n}.md": f"Old {n}." for n in range(50)})
    embedder.take()
    source = {f"{n}.md": f"New {n}." for n in range(50)}
    embedder.fails = True
    with pytest.raises(EmbeddingError):
        await sync(library, embedder, source)
    assert embedder.calls < 10
    assert await texts(library) == {f"Old {n}." for n in range(50)}
    embedder.fails = False
    assert (await sync(library, embedder, source)).changed == 50
    assert await texts(library) == {f"New {n}." for n in range(50)}


@pytest.mark.parametrize("works", range(4))
async def test_a_run_may_fail_at_every_step(library: DiskLibrary, works: int) -> None:
    """Each document is there once, old or new; a retry does what is left (case 9)."""
    old, new = ({f"{n}.md": f"{age} {n}." for n in range(3 * READ_AT_ONCE)} for age in ("a", "b"))
    await sync(library, FakeChunks(), old)
    if works < 3:
        with pytest.raises(EmbeddingError):
            await sync(library, FailsAfter(works), new)
    else:
        await sync(library, FailsAfter(works), new)
    kept = await texts(library)
    assert sorted(text[1:] for text in kept) == sorted(text[1:] for text in old.values())
    assert len(kept & set(new.values())) == works * READ_AT_ONCE
    retry = FakeChunks()
    assert (await sync(library, retry, new)).failed == []
    assert len(retry.embedded) == (3 - works) * READ_AT_ONCE
    assert await texts(library) == set(new.values())


@pytest.mark.parametrize("ending", [OSError, asyncio.CancelledError])
async def test_what_a_run_took_out_is_forgotten_however_it_ends(
    library: DiskLibrary, embedder: FakeChunks, ending: type[BaseException]
) -> None:
    """The next run would not know of it: it is no document's text any more."""
    old = {f"{n}.md": f"Old {n}." for n in range(2 * READ_AT_ONCE)}
    await sync(library, embedder, old)
    new = {f"{n}.md": f"New {n}." for n in range(2 * READ_AT_ONCE)}

    def broken() -> Iterator[Read]:
        yield from given(new)[:READ_AT_ONCE]
        if ending is OSError:
            raise OSError("the disk is gone")
        loop.call_soon_threadsafe(run.cancel)

    loop = asyncio.get_running_loop()
    work = Sync(library, embedder, clock=SystemClock(), bounds=SMALL)
    run = asyncio.create_task(work.run(MANUAL, broken))
    with pytest.raises(ending):
        await run
    kept = await texts(library)
    gone = set(old.values()) - kept
    assert len(gone) >= READ_AT_ONCE
    assert gone <= set(embedder.forgotten)
    assert not kept & set(embedder.forgotten)


async def test_times_count_as_nothing(library: DiskLibrary, embedder: FakeChunks) -> None:
    """Clocks go wrong, and files are touched: only the text counts (cases 8, 12)."""
    source = {"a.md": "One.", "b.md": "Two."}
    await sync(library, embedder, given(source, updated_at=2e9))
    embedder.take()
    for updated_at in (0.0, -1e9, 4e9):
        summary = await sync(library, embedder, given(source, updated_at=updated_at))
        assert (embedder.calls, summary.wrote) == (0, False)
    assert [one.updated_at for one in await found(library, "One.")] == [2e9]


async def test_metadata_alone_embeds_nothing(library: DiskLibrary, embedder: FakeChunks) -> None:
    """It is found with the passage all the same (case 12)."""
    await sync(library, embedder, {"a.md": "One."})
    embedder.take()
    summary = await sync(library, embedder, given({"a.md": "One."}, '{"page":2}'))
    assert (embedder.calls, summary.annotated, summary.changed) == (0, 1, 0)
    assert [one.metadata for one in await found(library, "One.")] == ['{"page":2}']


async def test_of_two_documents_with_one_text_one_may_go(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """The other is still found, and the text not forgotten (case 10)."""
    await sync(library, embedder, {"a.md": "Same.", "b.md": "Same.", "c.md": "Other."})
    assert embedder.take() == ["Same.", "Other."]
    await sync(library, embedder, {"b.md": "Same.", "c.md": "Other."})
    assert [one.document for one in await found(library, "Same.")] == ["b.md"]
    assert embedder.forgotten == []
    await sync(library, embedder, {"c.md": "Other."})
    assert await texts(library) == {"Other."}
    assert "Same." in embedder.forgotten


async def test_a_text_of_another_collection_is_not_forgotten(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """The cache is everybody's."""
    await sync(library, embedder, {"a.md": "Same."}, name="one")
    await sync(library, embedder, {"a.md": "Same."}, name="two")
    await sync(library, embedder, {"a.md": "New."}, name="one")
    assert embedder.forgotten == []
    await sync(library, embedder, {"a.md": "New."}, name="two")
    assert "Same." in embedder.forgotten


async def test_an_edit_embeds_the_chunk_it_is_in(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """And hardly more, however long the document is (case 11)."""
    await sync(library, embedder, {"a.md": LONG, "b.md": LONG[::-1]}, bounds=Bounds())
    embedder.take()
    edited = LONG.replace("number 40 ", "number forty ")
    await sync(library, embedder, {"a.md": edited, "b.md": LONG[::-1]}, bounds=Bounds())
    assert 1 <= len(embedder.take()) <= 2
    assert "".join(sorted(await texts(library), key=edited.find)).find("forty") > 0


async def test_blanks_embed_only_the_chunks_they_are_in(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """A text that changes in white space alone is another text, there and nowhere else."""
    await sync(library, embedder, {"a.md": LONG}, bounds=Bounds())
    embedder.take()
    await sync(
        library, embedder, {"a.md": LONG.replace("number 40 of", "number 40  of")}, bounds=Bounds()
    )
    assert len(embedder.take()) == 1


async def test_moved_documents_embed_nothing(library: DiskLibrary, embedder: FakeChunks) -> None:
    """A name is not part of a text."""
    await sync(library, embedder, {"a.md": LONG, "b.md": "Short."})
    embedder.take()
    summary = await sync(library, embedder, {"new/a.md": LONG, "b.md": "Short."})
    assert (embedder.calls, summary.added, summary.removed) == (0, 1, 1)
    assert embedder.forgotten == []
    assert {one.document for one in await found(library, "x", k=1000)} == {"new/a.md", "b.md"}


@pytest.mark.parametrize("nothing", ["", " \n\t\u3000"])
async def test_a_document_may_shrink_to_nothing(
    library: DiskLibrary, embedder: FakeChunks, nothing: str
) -> None:
    """It is known, and never found; and it may grow again."""
    await sync(library, embedder, {"a.md": "Text."})
    summary = await sync(library, embedder, {"a.md": nothing})
    assert (summary.changed, await texts(library)) == (1, set())
    assert (await sync(library, embedder, {"a.md": nothing})).unchanged == 1
    await sync(library, embedder, {"a.md": "Text again."})
    assert await texts(library) == {"Text again."}


async def test_another_chunker_makes_all_anew(library: DiskLibrary, embedder: FakeChunks) -> None:
    """The old chunks are searched until the new ones are there, and gone then (case 13)."""
    await sync(library, embedder, {"a.md": LONG}, bounds=SMALL)
    before = await texts(library)
    embedder.fails = True
    with pytest.raises(EmbeddingError):
        await sync(library, embedder, {f"{n}.md": LONG + str(n) for n in range(5)}, bounds=Bounds())
    assert await texts(library) == before
    embedder.fails = False
    await sync(library, embedder, {"a.md": LONG}, bounds=Bounds())
    after = await texts(library)
    assert len(after) < len(before)
    assert before - after <= set(embedder.forgotten)
    assert not after & set(embedder.forgotten)


async def test_another_model_makes_all_anew(library: DiskLibrary, embedder: FakeChunks) -> None:
    """Vectors of two models are never in one search; a run that was broken off is gone on with."""
    source = {f"{n}.md": f"Text {n}." for n in range(2 * READ_AT_ONCE)}
    await sync(library, embedder, source)
    other = FakeChunks("other")
    other.poison = {f"Text {n}." for n in range(READ_AT_ONCE, 2 * READ_AT_ONCE)}
    with pytest.raises(EmbeddingError):
        await sync(library, other, source)
    state = await library.collection(MANUAL)
    assert state is not None
    assert state.recipe is not None
    assert state.recipe.kind == embedder.kind
    other.poison = set()
    other.take()
    summary = await sync(library, other, source)
    assert (len(other.take()), summary.added) == (READ_AT_ONCE, READ_AT_ONCE)
    state = await library.collection(MANUAL)
    assert state is not None
    assert state.recipe is not None
    assert state.recipe.kind == other.kind
    assert embedder.forgotten == [], "they are another version's: that is retired as a whole"


async def test_a_new_edition_waits_for_what_could_not_be_read(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """Else the document that is served now would be missing."""
    await sync(library, embedder, {"a.md": "One.", "b.md": "Two."})
    other = FakeChunks("other")
    await sync(library, other, [*given({"a.md": "One."}), Unread("b.md", "denied")])
    assert await texts(library) == {"One.", "Two."}
    await sync(library, other, {"a.md": "One.", "b.md": "Two."})
    state = await library.collection(MANUAL)
    assert state is not None
    assert state.recipe is not None
    assert state.recipe.kind == other.kind


async def test_an_edit_while_embedding_is_not_lost(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """What another run has put in meanwhile is looked at again (case 19)."""
    await sync(library, embedder, {"a.md": "Old."})
    embedder.before_answering.clear()
    slow = asyncio.create_task(sync(library, embedder, {"a.md": "Slow."}))
    await asyncio.sleep(0.05)
    quick = FakeChunks()
    await sync(library, quick, {"a.md": "Quick."})
    embedder.before_answering.set()
    summary = await slow
    assert (summary.changed, summary.failed) == (1, [])
    assert await texts(library) == {"Slow."}


async def test_a_deletion_while_embedding_leaves_no_orphans(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """The document comes back whole, since its source has it (case 19)."""
    await sync(library, embedder, {"a.md": "Old. " + LONG, "b.md": "Kept."})
    embedder.before_answering.clear()
    slow = asyncio.create_task(sync(library, embedder, {"a.md": "New. " + LONG, "b.md": "Kept."}))
    await asyncio.sleep(0.05)
    await sync(library, FakeChunks(), {"b.md": "Kept."})
    embedder.before_answering.set()
    await slow
    state = await library.collection(MANUAL)
    assert state is not None
    assert state.serving is not None
    kept = {chunk.text async for chunk in library.chunks(state.serving)}
    assert kept == await texts(library)
    assert {one.document for one in await found(library, "x", k=1000)} == {"a.md", "b.md"}


async def test_two_runs_at_once(library: DiskLibrary, embedder: FakeChunks) -> None:
    """Of the same source: as one, without a word."""
    source = {f"{n}.md": f"Text {n}. {LONG[: n * 20]}" for n in range(80)}
    await sync(library, embedder, {f"{n}.md": f"Old {n}." for n in range(40)})
    summaries = await asyncio.gather(*(sync(library, FakeChunks(), source) for _ in range(3)))
    assert [summary.failed for summary in summaries] == [[], [], []]
    assert sum(summary.added + summary.changed for summary in summaries) == 80
    assert (await sync(library, embedder, source)).unchanged == 80


async def test_a_collection_may_be_renamed_meanwhile(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """The run goes on with it, whatever it is called."""
    await sync(library, embedder, {"a.md": "Old."})
    embedder.before_answering.clear()
    slow = asyncio.create_task(sync(library, embedder, {"a.md": "New."}))
    await asyncio.sleep(0.05)
    state = await library.collection(MANUAL)
    assert state is not None
    assert await library.rename(state.collection, "handbook")
    embedder.before_answering.set()
    await slow
    assert await texts(library, "handbook") == {"New."}
    assert await library.collection(MANUAL) is None


async def test_a_collection_that_is_dropped_meanwhile_stays_away(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """The run says so, and leaves nothing behind."""
    await sync(library, embedder, {"a.md": "Old."})
    embedder.before_answering.clear()
    slow = asyncio.create_task(sync(library, embedder, {"a.md": "New."}))
    await asyncio.sleep(0.05)
    state = await library.collection(MANUAL)
    assert state is not None
    await library.drop(state.collection)
    embedder.before_answering.set()
    with pytest.raises(EditionGone):
        await slow
    assert list(await library.collections()) == []


async def test_what_cannot_be_kept_is_left_out(library: DiskLibrary, embedder: FakeChunks) -> None:
    """A name that is there twice, half of a character, a name that no index takes."""
    long = "n" * 1_025
    reads = [
        *given({"a.md": "One."}),
        *given({"a.md": "Two.", "b.md": "\ud800", "\ud800": "", long: "", "": ""}),
    ]
    summary = await sync(library, embedder, reads)
    assert [one.why for one in summary.failed] == [
        "is there twice; the first one counts",
        *2 * ["there is a lone surrogate in it"],
        *2 * ["its name is longer than 1024 bytes, or empty"],
    ]
    assert await texts(library) == {"One."}


async def test_foreseen_is_what_happens(library: DiskLibrary, embedder: FakeChunks) -> None:
    """A dry run embeds and writes nothing, and counts as the run does."""
    run = Sync(library, embedder, clock=SystemClock(), bounds=SMALL)
    first = given({"a.md": LONG, "b.md": "Two.", "c.md": "Three."})
    second = [*given({"a.md": LONG + " More.", "d.md": "Two."}), *given({"c.md": "Three."}, "[]")]
    for reads in (first, second):
        foreseen = await run.foresee(MANUAL, lambda reads=reads: iter(reads))  # type: ignore[misc]
        assert embedder.take() == []
        done = await sync(library, embedder, reads)
        foreseen.seconds = done.seconds
        assert foreseen == done
        embedder.take()


async def test_epochs_tell_that_something_changed(
    library: DiskLibrary, embedder: FakeChunks
) -> None:
    """Who remembers what was found looks at the collection's epoch."""

    async def epoch() -> Epoch:
        state = await library.collection(MANUAL)
        assert state is not None
        return state.epoch

    await sync(library, embedder, {"a.md": "One."})
    first = await epoch()
    await sync(library, embedder, {"a.md": "One."})
    assert await epoch() == first
    await sync(library, embedder, {"a.md": "Two."})
    assert await epoch() > first
