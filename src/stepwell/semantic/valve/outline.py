"""What the checks of wording ask of a reading: its words, folded, and which carry content."""

from dataclasses import dataclass
from functools import lru_cache

from stepwell.semantic.valve.chinese import EMPTY
from stepwell.semantic.valve.english import STOP, fold, pieces
from stepwell.semantic.valve.reading import HAN, LATIN, SYMBOL, Reading, Script


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a piece of one."""

    text: str
    """Case-folded, contractions taken apart."""
    fold: str
    """What all forms of it share."""
    has_content: bool
    """Whether it stands for something, unlike "the" or 的."""
    script: Script


_NAMES = frozenset(("US", "IT", "WHO"))
"""Names that in small letters are words without content."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A reading's words as the checks of wording compare them."""

    tokens: tuple[Token, ...]
    texts: tuple[str, ...]
    """Of every token."""
    folds: tuple[str, ...]
    """Of every token."""
    vocabulary: frozenset[str]
    """Folds of all tokens."""
    content: frozenset[str]
    """Folds of the tokens with content."""
    english: str
    """Pieces of its Latin words and its signs, one space between and around: for patterns."""
    han: str
    """Its prose without blanks, case-folded; empty if it has no Chinese."""


@lru_cache(maxsize=8192)
def folded(piece: str) -> str:
    """Return the fold of a piece; quick for pieces seen before."""
    return fold(piece)


@lru_cache(maxsize=8192)
def _latin(word: str, is_name: bool) -> tuple[Token, ...]:  # noqa: FBT001  (a name makes it slower)
    """Return the same tokens for the same word: a language repeats its words."""
    return tuple(
        Token(
            text=piece.upper() if is_name else piece,
            fold=folded(piece),
            has_content=is_name or piece not in STOP,
            script=LATIN,
        )
        for piece in pieces(word)
    )


@lru_cache(maxsize=8192)
def _token(word: str, script: Script) -> Token:
    """Return the same token for the same word of another script."""
    has_content = word not in EMPTY if script is HAN else script is not SYMBOL
    return Token(word, word, has_content, script)


def outline(reading: Reading) -> Outline:
    """Return a reading's outline. Some 30 us for a question of 15 words, once per reading."""
    return reading.fact(_outline)


def is_statement(reading: Reading) -> bool:
    """Return whether a text ends as statements do. What is asked for mostly ends otherwise."""
    return reading.prose.rstrip().endswith((".", "。"))


def _outline(reading: Reading) -> Outline:
    tokens: list[Token] = []
    for word in reading.words:
        if word.script is LATIN:
            is_name = word.written in _NAMES or (word.written == "A" and reading.is_chinese)
            tokens += _latin(word.text, is_name)
        else:
            tokens.append(_token(word.text, word.script))
    has_han = not reading.prose.isascii() and any(token.script is HAN for token in tokens)
    folds = tuple([token.fold for token in tokens])
    texts = tuple([token.text for token in tokens])
    spoken = [token.text for token in tokens if token.script is not HAN] if has_han else texts
    return Outline(
        tokens=tuple(tokens),
        texts=texts,
        folds=folds,
        vocabulary=frozenset(folds),
        content=frozenset([token.fold for token in tokens if token.has_content]),
        english=f" {' '.join(spoken)} ",
        han="".join(reading.prose.split()).casefold() if has_han else "",
    )
