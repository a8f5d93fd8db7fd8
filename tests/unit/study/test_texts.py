"""Texts by partition, compared in blocks."""

import random
from collections.abc import Sequence

import numpy as np
from support.study import AngleEmbedder

from stepwell.core.vectors import Embeddings, Unfit, Vector
from stepwell.study.remembering import RememberingEmbedder
from stepwell.study.texts import NEAREST, Block, Texts
from stepwell.testing.entries import make_phrasing


def near(block: Block, text: str, partition: str = "partition") -> list[tuple[str, float]]:
    vector = block.embedded[text]
    assert isinstance(vector, np.ndarray)
    found = block.neighbours(make_phrasing(text, partition=partition).partition, vector)
    assert found is not None
    return [
        (found.texts[row], round(float(s), 3))
        for row, s in zip(found.rows, found.similarities, strict=True)
    ]


async def test_neighbours_by_falling_similarity() -> None:
    texts = Texts(RememberingEmbedder(AngleEmbedder()))
    block = await texts.prepare([make_phrasing(t) for t in ("a@0", "b@60", "c@10", "d@120")])
    assert near(block, "a@0") == [("a@0", 1.0), ("c@10", 0.985), ("b@60", 0.5), ("d@120", 0.0)]


async def test_partitions_never_meet_and_a_lone_text_is_not_embedded() -> None:
    embedder = AngleEmbedder()
    texts = Texts(RememberingEmbedder(embedder))
    one, other = make_phrasing("a@0", partition="1"), make_phrasing("b@0", partition="2")
    block = await texts.prepare([one, other])
    assert (block.compared, embedder.texts) == (frozenset(), [])


async def test_a_text_that_was_alone_is_embedded_when_another_comes() -> None:
    texts = Texts(RememberingEmbedder(AngleEmbedder()))
    first = make_phrasing("a@0")
    await texts.prepare([first])
    texts.hold((first.partition, first.text))
    texts.settle()
    block = await texts.prepare([make_phrasing("b@20")])
    assert [text for text, _ in near(block, "b@20")] == ["b@20", "a@0"]


async def test_what_has_no_vector_is_near_to_nothing() -> None:
    texts = Texts(RememberingEmbedder(AngleEmbedder()))
    block = await texts.prepare([make_phrasing(t) for t in ("a@0", "unknown", "broken", "b@90")])
    assert [text for text, _ in near(block, "a@0")] == ["a@0", "b@90"]
    assert (await block.embed(["unknown"])).unfit == (Unfit.UNKNOWN_TOKENS,)


async def test_what_no_cache_holds_is_forgotten() -> None:
    texts = Texts(RememberingEmbedder(AngleEmbedder()))
    places = [(make_phrasing(t).partition, t) for t in ("a@0", "b@1", "c@2")]
    await texts.prepare([make_phrasing(t) for _, t in places])
    texts.hold(places[1])
    texts.settle()
    assert len(texts) == 1
    texts.release(places[1])
    texts.settle()
    assert len(texts) == 0


class RandomEmbedder(AngleEmbedder):
    """Vectors of 16 dimensions that do not lie near each other."""

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        rows = [vector_of(text) for text in texts]
        return Embeddings(np.stack(rows), (None,) * len(texts))


def vector_of(text: str) -> Vector:
    drawn = np.random.default_rng(int(text)).normal(size=16).astype(np.float32)
    unit: Vector = drawn / np.linalg.norm(drawn)
    return unit


async def test_the_nearest_are_those_that_comparing_with_all_would_find() -> None:
    """Whatever comes and goes: rows move, and no vector gets lost."""
    chance, held = random.Random(7), set[str]()
    texts = Texts(RememberingEmbedder(RandomEmbedder(dimensions=16)))
    partition = make_phrasing("").partition
    for round_number in range(20):
        asked = [str(chance.randrange(2_000)) for _ in range(60)]
        block = await texts.prepare([make_phrasing(text) for text in asked])
        everything = sorted(held | set(asked))
        for text in asked[:5]:
            expected = sorted(
                ((float(vector_of(text) @ vector_of(other)), other) for other in everything),
                reverse=True,
            )[: NEAREST // 2]
            assert [t for t, _ in near(block, text)][: NEAREST // 2] == [t for _, t in expected]
        for text in dict.fromkeys(asked):
            if text not in held and chance.random() < 0.5:
                texts.hold((partition, text))
                held.add(text)
        for text in sorted(held):
            if chance.random() < 0.2:
                texts.release((partition, text))
                held.discard(text)
        texts.settle()
        assert len(texts) == len(held), round_number
