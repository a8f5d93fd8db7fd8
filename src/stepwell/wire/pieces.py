"""Cutting a finished text into the small pieces a fresh stream would have sent."""

import re
from collections.abc import Callable, Iterable
from typing import Any

_LONGEST_WORD = 24
_IDEOGRAPHS = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
# A word takes the white space before it along, as the tokens of most models do.
_PIECE = re.compile(rf"\s*(?:[{_IDEOGRAPHS}]|[^\s{_IDEOGRAPHS}]{{1,{_LONGEST_WORD}}})|\s+")
_LONGEST_SPLIT_CHARACTER = 16
"""More bytes than this without a whole character are no UTF-8."""


def cut(text: str) -> list[str]:
    """Cut ``text`` into words, and Chinese, Japanese and Korean characters one by one."""
    return _PIECE.findall(text)


def cut_with_logprobs(
    text: str, entries: list[Any], token_bytes: Callable[[Any], bytes]
) -> list[tuple[str, list[Any]]]:
    """Cut ``text`` where its tokens end, each piece with the entries of its tokens.

    A character may be made of several tokens; then its piece has several entries. If the tokens
    do not add up to the text (servers strip white space, leave out a stop token, ...) the text
    stays whole: an entry beside text it does not belong to would be a lie.

    Args:
        text: The text, which may be empty.
        entries: Log probabilities, one for each token.
        token_bytes: Returns the bytes of an entry's token; `ValueError` or `TypeError` if it
            cannot.
    """
    if not entries:
        return [(piece, []) for piece in cut(text)]
    try:
        sizes = _align(text, map(token_bytes, entries))
    except (TypeError, ValueError):
        return [(text, entries)]
    pieces = []
    start = 0
    for piece, size in sizes:
        pieces.append((piece, entries[start : start + size]))
        start += size
    return pieces


def _align(text: str, tokens: Iterable[bytes]) -> list[tuple[str, int]]:
    """Return pieces of ``text`` and their numbers of tokens; `ValueError` if they do not fit."""
    pieces = []
    held = b""
    size = 0
    for token in tokens:
        held += token
        size += 1
        try:
            piece = held.decode()
        except UnicodeDecodeError:
            if len(held) > len(token) + _LONGEST_SPLIT_CHARACTER:
                raise
            continue
        pieces.append((piece, size))
        held = b""
        size = 0
    if held or "".join(piece for piece, _ in pieces) != text:
        raise ValueError("the tokens are not the text's")
    return pieces


def listed_token(entry: Any) -> bytes:  # noqa: ANN401  (an entry is what a model server sent)
    """Return the bytes of a token as chat and responses list it: ``{"token": ..., "bytes": ...}``.

    ``token`` cannot say a part of a character, ``bytes`` can; servers may leave it out.
    """
    if not isinstance(entry, dict):
        raise TypeError("an entry is an object")
    listed = entry.get("bytes")
    return bytes(listed) if listed is not None else plain_token(entry.get("token"))


def plain_token(token: object) -> bytes:
    """Return the bytes of a token as completions list it: a string."""
    if not isinstance(token, str):
        raise TypeError("a token is a string")
    return token.encode()
