"""Cutting text into the word pieces of BERT's uncased vocabulary.

As in https://github.com/google-research/bert/blob/master/tokenization.py: characters are cleaned,
lower-cased, stripped of accents; Chinese characters and punctuation stand alone; a word is cut
into the longest known pieces from its start, and is unknown as a whole if that fails.
"""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

from stepwell.embedding.encoder import Tokens

LONGEST_WORD = 100
"""Longer ones count as unknown without a look."""

_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")
_SPACES = frozenset("\t\n\r")
_REPLACEMENT = "\ufffd"


class WordPieceTokenizer:
    """A tokenizer for English. Pure Python: 30 us for a short question."""

    def __init__(self, vocabulary: Path) -> None:
        """Load the vocabulary: a piece a line.

        Raises:
            OSError: The file cannot be read.
            KeyError: It lacks one of BERT's special pieces.
        """
        lines = vocabulary.read_text(encoding="utf-8").split("\n")
        self._ids = {piece: number for number, piece in enumerate(lines) if piece}
        self._start, self._end = self._ids["[CLS]"], self._ids["[SEP]"]
        self._unknown = self._ids["[UNK]"]

    def tokens(self, text: str) -> Tokens | None:
        """Return the tokens of ``text``, or ``None`` if nothing is left of it."""
        ids = [number for word in _words(text) for number in self._cut(word)]
        if not ids:
            return None
        return Tokens([self._start, *ids, self._end], ids.count(self._unknown))

    def _cut(self, word: str) -> list[int]:
        whole = self._ids.get(word)
        if whole is not None:
            return [whole]
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            found = self._longest(word, start)
            if found is None:
                return [self._unknown]
            number, start = found
            numbers.append(number)
        return numbers

    def _longest(self, word: str, start: int) -> tuple[int, int] | None:
        """Return the longest piece from ``start`` on, and where it ends."""
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            number = self._ids.get(mark + word[start:end])
            if number is not None:
                return number, end
        return None


def _words(text: str) -> Iterator[str]:
    spaced = "".join(map(_spaced, text))
    for word in spaced.split():
        bare = word.lower()
        if not bare.isascii():
            bare = "".join(
                c for c in unicodedata.normalize("NFD", bare) if unicodedata.category(c) != "Mn"
            )
        yield from _parted(bare)


def _spaced(character: str) -> str:
    """Return a character cleaned; a Chinese one with space around it."""
    if character.isascii():
        return character if character.isprintable() else _blank(character)
    code = ord(character)
    if any(low <= code <= high for low, high in _CHINESE):
        return f" {character} "
    category = unicodedata.category(character)
    if category == "Zs":
        return " "
    return "" if category[0] == "C" or character == _REPLACEMENT else character


def _blank(control: str) -> str:
    return " " if control in _SPACES else ""


def _parted(word: str) -> Iterator[str]:
    """Yield the parts of a word between punctuation, and the punctuation."""
    start = 0
    for place, character in enumerate(word):
        if _is_punctuation(character):
            if start < place:
                yield word[start:place]
            yield character
            start = place + 1
    if start < len(word):
        yield word[start:]


def _is_punctuation(character: str) -> bool:
    return character in _ASCII_SYMBOLS or unicodedata.category(character)[0] == "P"
