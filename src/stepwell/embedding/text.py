"""What is done to a text before any embedder sees it, and what can be said without a model."""

from stepwell.core.vectors import Unfit

CHARACTERS_PER_TOKEN = 16
"""No piece of the bundled vocabularies is longer."""

MAX_CHARACTERS = 65_536
"""Longer texts are over any window, however many of them are blanks; two of them fit a frame."""


def readable(text: str) -> str:
    """Return ``text`` with lone surrogates, which no encoding has, as replacement characters."""
    return (
        text
        if text.isascii()
        else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def plainly_unfit(text: str, window_tokens: int) -> Unfit | None:
    """Return why no model needs to look at ``text``: it is empty, or longer than any window.

    Costs one pass over the text.
    """
    if len(text) > MAX_CHARACTERS:
        return Unfit.EMPTY if text.isspace() else Unfit.OVER_WINDOW
    words = text.split()
    if not words:
        return Unfit.EMPTY
    characters = sum(map(len, words)) + len(words) - 1
    return Unfit.OVER_WINDOW if characters > window_tokens * CHARACTERS_PER_TOKEN else None
