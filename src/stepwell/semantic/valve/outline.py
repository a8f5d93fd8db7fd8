"""What the checks of wording ask of a reading: its words, folded, and which carry content."""

from dataclasses import dataclass
from functools import lru_cache

from stepwell.semantic.valve.chinese import EMPTY
from stepwell.semantic.valve.english import STOP, fold, pieces
from stepwell.semantic.valve.reading import Reading, Script


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
def _token(piece: str, *, is_name: bool) -> Token:
    """Return the same token for the same piece: a language repeats its words."""
    return Token(
        text=piece.upper() if is_name else piece,
        fold=fold(piece),
        has_content=is_name or piece not in STOP,
        script=Script.LATIN,
    )


def folded(word: str) -> str:
    """Return the fold of a piece; quick for words seen before."""
    return _token(word, is_name=False).fold


def outline(reading: Reading) -> Outline:
    """Return a reading's outline. Some 30 us for a question of 15 words, once per reading."""
    return reading.fact(_outline)


def is_statement(reading: Reading) -> bool:
    """Return whether a text ends as statements do. What is asked for mostly ends otherwise."""
    return reading.prose.rstrip().endswith((".", "。"))


def _outline(reading: Reading) -> Outline:
    tokens: list[Token] = []
    has_han = False
    for word in reading.words:
        if word.script is Script.LATIN:
            is_name = word.written in _NAMES or (word.written == "A" and reading.is_chinese)
            tokens.extend(_token(piece, is_name=is_name) for piece in pieces(word.text))
        elif word.script is Script.HAN:
            has_han = True
            tokens.append(Token(word.text, word.text, word.text not in EMPTY, Script.HAN))
        else:
            stands = word.script is not Script.SYMBOL
            tokens.append(Token(word.text, word.text, stands, word.script))
    folds = tuple(token.fold for token in tokens)
    return Outline(
        tokens=tuple(tokens),
        folds=folds,
        vocabulary=frozenset(folds),
        content=frozenset(token.fold for token in tokens if token.has_content),
        english=f" {' '.join(token.text for token in tokens if token.script is not Script.HAN)} ",
        han="".join(reading.prose.split()).casefold() if has_han else "",
    )
