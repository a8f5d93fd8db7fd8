"""Cutting into word pieces, on a vocabulary small enough to see through."""

from pathlib import Path

import pytest

from stepwell.embedding.wordpiece import WordPieceTokenizer

PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "re", "##set", "the", "pass", "##word", "word", ".", "#",
    "cafe", "水", "reset", "cls", "[", "]", "1",
]  # fmt: skip


@pytest.fixture
def tokenizer(tmp_path: Path) -> WordPieceTokenizer:
    path = tmp_path / "vocabulary.txt"
    path.write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return WordPieceTokenizer(path)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Reset the PASSWORD.", "reset the pass ##word ."),
        ("the\tword\n", "the word"),
        ("café CAFÉ cafe\u0301", "cafe cafe cafe"),
        ("水水", "水 水"),
        ("the水word", "the 水 word"),
        ("火", "[UNK]"),
        ("thex", "[UNK]"),
        ("x" * 101, "[UNK]"),
        ("the\u200bword \x00\ufffd", "the ##word"),
        ("word#1", "word # 1"),
        ("[CLS]", "[ cls ]"),
        ("😀 the", "[UNK] the"),
    ],
)
def test_pieces(tokenizer: WordPieceTokenizer, text: str, pieces: str) -> None:
    tokens = tokenizer.tokens(text)
    assert tokens is not None
    assert [PIECES[number] for number in tokens.ids] == ["[CLS]", *pieces.split(), "[SEP]"]
    assert tokens.unknown == pieces.count("[UNK]")


@pytest.mark.parametrize("text", ["", " \n", "\x00\x01", "\u200b\u200b"])
def test_nothing_is_left(tokenizer: WordPieceTokenizer, text: str) -> None:
    assert tokenizer.tokens(text) is None
