"""Signs that mean themselves in code, without marks around: ``a == b``, ``Ctrl+C``."""

import re

from stepwell.semantic.valve.reading import MAX_CHARACTERS, Reading

_OPERAND = r"(?:\d+|\"[^\"\s]*\"|'[^'\s]*'|\b[A-Za-z]\b)"
_KEY = r"(?:ctrl|control|cmd|command|alt|option|shift|win|windows|super|meta|fn)"
_AND = r"(?:\s?\+\s?|-)"
_KINDS = tuple(
    re.compile(pattern)
    for pattern in (
        r"===|!==|==|!=|<=|>=|=>|->|&&|\|\||<<|>>|(?<=\w)::(?=\w)|\+=|-=|\*=|/=|:=|(?<=\s)[<>](?=\s)",
        rf"(?:{_OPERAND}|[)\]])\s*([+\-*%])\s*(?={_OPERAND})",
        r"(?<![\w+])[a-z]\+\+|\+\+[a-z]\b|(?<![\w-])[a-z]--(?!\w)",
        r"\\[A-Za-z](?![A-Za-z])",
        r"(?<![\d%])%[A-Za-z](?![A-Za-z])",
        rf"(?i:\b{_KEY}(?:{_AND}{_KEY})*{_AND}(?:f\d+|[a-z0-9]|[a-z]+)\b)",
        r"\[\^?\w-\w[^\]\s]*\]",
        r"(?<!\S)-[A-Za-z](?![\w-])",
        r"(?<!\S):[a-z]{1,2}!?(?=[\s?,.]|$)",
    )
)
"""Operators, of two signs and between two operands; increments; escapes; formats; shortcuts;
classes of characters; flags; commands of an editor. Case counts but for shortcuts."""
_SHORTCUT = 5
_MAYBE = re.compile(r"[\\%+*<>=&|\[:\-]")


def symbols(reading: Reading) -> tuple[frozenset[str], ...]:
    """Return the signs of a text, by kind; empty if there are none."""
    text = reading.text[:MAX_CHARACTERS]
    if not _MAYBE.search(text):
        return ()
    found = [frozenset(pattern.findall(text)) for pattern in _KINDS]
    found[_SHORTCUT] = frozenset(re.sub(r"[\s+\-]+", "+", one.lower()) for one in found[_SHORTCUT])
    return tuple(found) if any(found) else ()


def other_symbols(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return signs of one kind of which each text has some that the other lacks.

    What only one text writes in signs the other may say in words.
    """
    mine, theirs = asked.fact(symbols), stored.fact(symbols)
    for one, other in zip(mine, theirs, strict=False):
        if one - other and other - one:
            return " ".join(sorted(one - other)), " ".join(sorted(other - one))
    return None
