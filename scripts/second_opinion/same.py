"""Edits after which the same answer is asked for."""

import re

from second_opinion.edits import Writer, lowered

_CLAUSE = re.compile(
    r"(.*\S)\s+((?:on|in|at|with|without|for|before|after|during|if)\s[^?]{3,40})\?"
)
_NO_TYPOS = frozenset("without within before after under above below never always".split())


def reworded(writer: Writer, text: str, times: int | None = None) -> str:
    """Return ``text`` in other words, in one to three steps; never ``text`` itself."""
    result = text
    for _ in range(times or writer.pick([1, 1, 2, 2, 3])):
        other = _paraphrased(writer, result) if writer.odds(0.55) else None
        result = other or retouched(writer, result)
    return retouched(writer, text) if result == text else result


def retouched(writer: Writer, text: str) -> str:
    """Return ``text`` with another look: courtesies, punctuation, capitals, a typing error."""
    if writer.lists.chinese:
        return _retouched_chinese(writer, text)
    bare = text.rstrip("?.! ")
    draw = writer.chance.random()
    if draw < 0.25:  # noqa: PLR2004
        return writer.pick([text.lower(), text.lower(), text.title(), text.upper()])
    if draw < 0.50:  # noqa: PLR2004
        return bare + writer.pick(["", "", "?", "??", "!", ".", " ?", "?!", "..."])
    if draw < 0.62:  # noqa: PLR2004
        return _mistyped(writer, text)
    if draw < 0.84:  # noqa: PLR2004
        return f"{writer.pick(writer.lists.before)} {lowered(text)}"
    return _followed(text, bare, writer)


def _followed(text: str, bare: str, writer: Writer) -> str:
    tail = writer.pick(writer.lists.after)
    if tail[0].isupper():
        return f"{text} {tail}"
    return bare + ("" if tail[0] in "?,!.:" else writer.pick([" ", ", "])) + tail


def _retouched_chinese(writer: Writer, text: str) -> str:
    bare = text.rstrip("？?。！!")
    draw = writer.chance.random()
    if draw < 0.45:  # noqa: PLR2004
        return writer.pick(writer.lists.before) + text
    if draw < 0.85:  # noqa: PLR2004
        return bare + writer.pick(writer.lists.after)
    return bare + writer.pick(["", "？"])


def _mistyped(writer: Writer, text: str) -> str:
    words = [
        match
        for match in re.finditer(r"[A-Za-z][a-z]{4,}", text)
        if match[0].lower() not in _NO_TYPOS
    ]
    if not words:
        return text
    match = writer.pick(words)
    at = match.start() + writer.chance.randrange(1, len(match[0]) - 2)
    swapped, dropped = text[at + 1] + text[at] + text[at + 2 :], text[at + 1 :]
    return text[:at] + writer.pick([swapped, dropped, text[at] + text[at:]])


def _paraphrased(writer: Writer, text: str) -> str | None:
    lists = writer.lists
    if lists.chinese:
        return writer.exchanged(text, lists.synonyms)
    draw = writer.chance.random()
    if draw < 0.35:  # noqa: PLR2004
        return writer.exchanged(text, lists.phrases)
    if draw < 0.75:  # noqa: PLR2004
        return writer.exchanged(text, lists.synonyms)
    if draw < 0.90:  # noqa: PLR2004
        return writer.related(text, "same")
    return _clause_first(text)


def _clause_first(text: str) -> str | None:
    """Return *Can I pay in cash?* as *In cash, can I pay?*."""
    found = _CLAUSE.fullmatch(text)
    if found is None or " or " in text:
        return None
    return f"{found[2][0].upper()}{found[2][1:]}, {lowered(found[1])}?"
