"""A unigram vocabulary as a model file of the ``sentencepiece`` package.

Field numbers are those of
https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.embedding.conversion.protobuf import block, blocks, integer, real

START, PAD, END, UNKNOWN = range(4)
"""Ids of the pieces that stand for no text: the first four of the vocabulary."""

_KNOWN, _UNKNOWN, _CONTROL = 1, 2, 3
_UNIGRAM = 1
_SPACE = "\u2581"

_KEPT = (
    (0x0000, 0x024F),  # Latin
    (0x2000, 0x312F),  # punctuation, symbols, CJK punctuation, kana, bopomofo
    (0x3400, 0x9FFF),  # CJK
    (0xF900, 0xFAFF),  # CJK, for compatibility
    (0xFE00, 0xFE6F),  # forms of emoji, small punctuation
    (0xFF00, 0xFFEF),  # full-width forms
    (0x1F000, 0x1FFFF),  # emoji
    (0x20000, 0x3FFFF),  # rare CJK
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Pieces of text with the logarithm of how likely each is. The place of one is its id."""

    pieces: Sequence[tuple[str, float]]
    """The first four are those of `START`, `PAD`, `END`, `UNKNOWN`."""


def english_and_chinese(vocabulary: Vocabulary) -> list[int]:
    """Return the ids of the pieces that English or Chinese text needs, in their order.

    A single Greek letter counts: formulas have them. Text in another script has unknown tokens
    then, so it is refused, and that is right while nothing else here can judge it.
    """
    special = range(UNKNOWN + 1)
    return [
        number
        for number, (piece, _) in enumerate(vocabulary.pieces)
        if number in special or _is_kept(piece)
    ]


def _is_kept(piece: str) -> bool:
    text = piece.replace(_SPACE, "")
    if len(text) == 1 and "\u0370" <= text <= "\u03ff":
        return True
    return all(any(low <= ord(c) <= high for low, high in _KEPT) for c in text)


def sentencepiece_model(vocabulary: Vocabulary) -> bytes:
    """Return the model file. It changes no characters: its user has done that before."""
    pieces = (
        block(1, piece) + real(2, score) + integer(3, _kind(number))
        for number, (piece, score) in enumerate(vocabulary.pieces)
    )
    trainer = integer(3, _UNIGRAM) + b"".join(
        integer(field, number)
        for field, number in ((40, UNKNOWN), (41, START), (42, END), (43, PAD))
    )
    # Its names for the special pieces, which must be those in the list.
    names = ((45, UNKNOWN), (46, START), (47, END), (48, PAD))
    trainer += b"".join(block(field, vocabulary.pieces[number][0]) for field, number in names)
    normalizer = block(1, "identity") + integer(3, 1) + integer(4, 1) + integer(5, 1)
    return blocks(1, pieces) + block(2, trainer) + block(3, normalizer)


def _kind(number: int) -> int:
    if number == UNKNOWN:
        return _UNKNOWN
    return _CONTROL if number < UNKNOWN else _KNOWN
