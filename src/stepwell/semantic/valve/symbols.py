"""Signs that are told apart by what stands beside them: ``2 * "3"``, ``i++``, ``Ctrl+C``.

Those that mean themselves wherever they stand are `code`'s.
"""

import re

from stepwell.semantic.valve.reading import MAX_CHARACTERS, Reading

_OPERAND = r"(?:\d+|\"[^\"\s]*\"|'[^'\s]*'|\b[A-Za-z]\b)"
_KEY = r"(?:ctrl|control|cmd|command|alt|option|shift|win|windows|super|meta|fn)"
_AND = r"(?:\s?\+\s?|-)"
_SHORTCUTS = re.compile(rf"(?i:\b{_KEY}(?:{_AND}{_KEY})*{_AND}(?:f\d+|[a-z0-9]|[a-z]+)\b)")
_OPERATORS = re.compile(rf"(?:{_OPERAND}|[)\]])\s*([+\-*%])\s*(?={_OPERAND})")
_INCREMENTS = re.compile(r"(?<![\w+])[a-z]\+\+|\+\+[a-z]\b|(?<![\w-])[a-z]--(?!\w)")
_MAYBE = re.compile(r"[%+*\-]")


def symbols(reading: Reading) -> tuple[frozenset[str], ...]:
    """Return operators between operands, increments and shortcuts; empty if there are none."""
    text = reading.text[:MAX_CHARACTERS]
    if not _MAYBE.search(text):
        return ()
    shortcuts = [re.sub(r"[\s+\-]+", "+", one.lower()) for one in _SHORTCUTS.findall(text)]
    found = (_OPERATORS.findall(text), _INCREMENTS.findall(text), shortcuts)
    return tuple(map(frozenset, found)) if any(found) else ()


def other_symbols(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return signs of one kind of which each text has some that the other lacks.

    What only one text writes in signs the other may say in words.
    """
    mine, theirs = asked.fact(symbols), stored.fact(symbols)
    for one, other in zip(mine, theirs, strict=False):
        if one - other and other - one:
            return " ".join(sorted(one - other)), " ".join(sorted(other - one))
    return None
