"""Documents that stand in a prompt one after the other, as retrieval puts them there."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_DOCUMENTS = 256
"""Of one text; what comes behind them is left in one piece."""

_OPENING = re.compile(
    r"<(?P<tag>document|doc|passage|source|chunk|snippet|article|result)\b[^<>\n]{0,200}>"
    r"|^(?:\[\d{1,3}\]|(?:document|doc|passage|source|chunk|文档|资料|片段)\s?#?\d{1,3}\s?[:：.)\]])",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text."""

    label: str
    """How a document begins, which says its place and not what is in it; empty: no document."""
    text: str
    """The rest."""


def stretches(text: str) -> Iterator[Stretch]:
    """Cut ``text`` at its documents; labels and texts, joined, are ``text``.

    A numbered document ends where the next one begins, or at an empty line; a tagged one at its
    end tag. White space behind a document belongs to it. Linear in the length of the text.
    """
    begun = at = 0
    for _ in range(MAX_DOCUMENTS):
        opening = _OPENING.search(text, at)
        if opening is None:
            break
        end = _end_of(text, opening)
        if end is None:
            at = opening.end()
            continue
        if begun < opening.start():
            yield Stretch("", text[begun : opening.start()])
        yield Stretch(opening[0], text[opening.end() : end])
        begun = at = end
    if begun < len(text):
        yield Stretch("", text[begun:])


def _end_of(text: str, opening: re.Match[str]) -> int | None:
    if tag := opening["tag"]:
        closing = re.compile(rf"</{tag}>\s*", re.IGNORECASE).search(text, opening.end())
        return None if closing is None else closing.end()
    following = _END_OF_NUMBERED.search(text, opening.end())
    return len(text) if following is None else following.end()


_END_OF_NUMBERED = re.compile(
    r"\n(?:\n+|(?=\[\d{1,3}\]|(?:document|doc|passage|source|chunk|文档|资料|片段)\s?#?\d{1,3}))",
    re.IGNORECASE,
)
