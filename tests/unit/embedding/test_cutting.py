"""Where documents are cut."""

import random

import pytest

from stepwell.embedding.documents.cutting import Bounds, cut
from stepwell.embedding.documents.places import LONGEST_PIECE_BYTES, Level, places

BOUNDS = Bounds()
MUCH = 200_000


def pieces(text: str) -> list[tuple[str, Level]]:
    """Return what stands before each place, and how good the place is."""
    found, start = [], 0
    for place in places(text):
        found.append((text[start : place.end], place.level))
        start = place.end
    return found


def prose(sentences: int, seed: int = 0) -> str:
    """Return sentences that are all different, in paragraphs."""
    chance = random.Random(seed)
    words = "cache vector model prompt store chunk answer token page index".split()
    text = ""
    for number in range(sentences):
        told = " ".join(chance.choice(words) for _ in range(chance.randrange(5, 25)))
        text += f"Sentence {number}: {told}."
        text += "\n\n" if chance.random() < 0.2 else " "
    return text


def test_english_sentences() -> None:
    """A full stop within a sentence is none of its ends, nor is one in a number."""
    text = 'It is 3.5 m, e.g. long. Is it? "Yes!" Good'
    assert [piece for piece, _ in pieces(text)] == [
        "It is 3.5 m, e.g. long. ",
        "Is it? ",
        '"Yes!" ',
        "Good",
    ]


def test_chinese_sentences() -> None:
    """No blank follows their full stops; closing quotes belong to the sentence before."""
    text = "今天天气很好。你好吗？“好！”他说……再见"
    assert [piece for piece, _ in pieces(text)] == [
        "今天天气很好。",
        "你好吗？",
        "“好！”",
        "他说……",
        "再见",
    ]


def test_markdown() -> None:
    """A heading stays with what follows it, a fence is whole where there is a better place."""
    text = "# One\n\nText. More.\n\n- a\n- b\n\n```sh\n# none\n\nls\n```\nAfter.\n\n## Two\nText\n"
    assert pieces(text) == [
        ("# One\n\nText. ", Level.SENTENCE),
        ("More.\n\n", Level.PARAGRAPH),
        ("- a\n", Level.SENTENCE),
        ("- b\n\n", Level.PARAGRAPH),
        ("```sh\n# none\n", Level.LINE),
        ("\n", Level.LINE),
        ("ls\n```\n", Level.PARAGRAPH),
        ("After.\n\n", Level.HEADING),
        ("## Two\nText\n", Level.HEADING),
    ]


def test_a_fence_that_is_never_closed_is_code_to_the_end() -> None:
    """As CommonMark has it."""
    text = "~~~\nA. B.\n```\n# no heading\n"
    assert {level for _, level in pieces(text)[:-1]} == {Level.LINE}


@pytest.mark.parametrize(
    "text",
    [
        "." * MUCH,
        " " * MUCH,
        "\n" * MUCH,
        "x" * MUCH,
        "#" * MUCH,
        "，" * 50_000,
        "。" * 50_000,
        "好" * 50_000,
        "." + '"' * MUCH,
        "```\n" + "x" * MUCH,
        "word " * 40_000,
        "\ud800" * 10_000,
    ],
    ids=lambda text: repr(text[:4]),
)
def test_no_chunk_is_too_long(text: str) -> None:
    """Whatever a text consists of: it is cut within the bounds, and nothing is lost."""
    chunks = [piece.text for piece in cut(text, BOUNDS)]
    sizes = [len(chunk.encode("utf-8", "surrogatepass")) for chunk in chunks]
    assert "".join(chunks) == text
    assert max(sizes) <= BOUNDS.max_bytes
    assert min(sizes[:-1]) >= BOUNDS.min_bytes


def test_chunks_begin_at_headings_where_they_can() -> None:
    """Of all places within the bounds the best counts."""
    sections = [f"## Part {number}\n\n{prose(6, seed=number)}\n\n" for number in range(20)]
    chunks = [piece.text for piece in cut("".join(sections), BOUNDS)]
    begun = sum(chunk.startswith("## ") for chunk in chunks)
    assert begun == len(chunks)


def test_an_edit_costs_the_chunk_it_is_in() -> None:
    """Cuts behind an insertion are soon those from before: on average one chunk and a bit."""
    text = prose(1_000)
    before = {piece.text for piece in cut(text, BOUNDS)}
    new = 0
    for seed in range(40):
        at = text.index(" ", random.Random(seed).randrange(len(text) // 2))
        edited = f"{text[:at]} Inserted {seed} is this. {text[at:]}"
        new += len({piece.text for piece in cut(edited, BOUNDS)} - before)
    assert new / 40 <= 1.6


def test_cuts_return_where_there_are_no_words() -> None:
    """A run of characters is cut by what stands there, too, not by how far it is from its start."""
    chance = random.Random(1)
    text = "".join(chance.choice("0123456789abcdef") for _ in range(50_000))
    before = {piece.text for piece in cut(text, BOUNDS)}
    after = {piece.text for piece in cut(f"ff{text}", BOUNDS)}
    assert len(after - before) <= 6 < len(before)


def test_a_short_text_is_one_chunk() -> None:
    assert [piece.text for piece in cut("Short. Text.", BOUNDS)] == ["Short. Text."]


def test_nothing_is_no_chunk() -> None:
    assert list(cut("", BOUNDS)) == []


@pytest.mark.parametrize(("least", "most"), [(0, 1_600), (400, 1_399), (-5, 5_000)])
def test_bounds_that_cannot_be_kept_are_refused(least: int, most: int) -> None:
    """A sentence has up to 1000 bytes; it must fit between them."""
    with pytest.raises(ValueError, match=f"{LONGEST_PIECE_BYTES}"):
        Bounds(least, most)
