"""Text completions: from a stream to the JSON answer, and back.

A ``usage`` of ``null`` does not survive the way there and back: it is left out.
"""

from collections.abc import Iterable
from typing import Any

from stepwell.wire.chunks import (
    ChunkWriter,
    JsonObject,
    UnreadableAnswer,
    add_up,
    continue_with,
    extend,
    mapping,
    settle,
    whole_chunks,
    write_chunks,
)
from stepwell.wire.pieces import cut, cut_with_logprobs, listed_token, plain_token

_OBJECT = "text_completion"


def assemble(sse: bytes) -> JsonObject:
    """Return the answer that the same server would have given without ``stream``.

    Raises:
        UnreadableAnswer: The stream has an error in it, lacks ``[DONE]``, or is not completions.
    """
    return merge(whole_chunks(sse))


def merge(chunks: Iterable[JsonObject]) -> JsonObject:
    """Return the answer that ``chunks`` amount to, whether or not they are all there."""
    answer = add_up(chunks, _OBJECT, _add)
    for choice in answer["choices"]:
        settle(choice).setdefault("finish_reason", None)
    return answer


def synthesise(answer: JsonObject, *, include_usage: bool) -> list[bytes]:
    """Return the events with which a fresh stream would have given ``answer``.

    Raises:
        UnreadableAnswer: ``answer`` is not a text completion with at least one choice, or its
            usage is asked for and missing.
    """
    return write_chunks(answer, _OBJECT, _write_choice, include_usage=include_usage)


def _add(choice: JsonObject, piece: JsonObject) -> None:
    continue_with(choice, {"text": piece.get("text") or ""})
    extend(choice, {name: value for name, value in piece.items() if name != "text"})


def _write_choice(writer: ChunkWriter, choice: JsonObject, *, last: bool) -> None:
    text = choice.get("text")
    if not isinstance(text, str):
        raise UnreadableAnswer("a choice has no text")
    known: JsonObject = {"index": choice.get("index", 0), "text": ""}
    if "logprobs" in choice:
        known["logprobs"] = None
    known["finish_reason"] = None
    logprobs = mapping(choice.get("logprobs"))
    for piece, share in _pieces(text, logprobs) or [("", logprobs)]:
        writer.write({**known, "text": piece} | ({"logprobs": share} if share else {}))
    rest = {name: value for name, value in choice.items() if name not in {"text", "logprobs"}}
    writer.write({**known, **rest}, last=last)


def _pieces(text: str, logprobs: JsonObject) -> list[tuple[str, JsonObject]]:
    """Return the pieces of ``text``, each with its share of every list in ``logprobs``.

    OpenAI lists tokens in ``tokens`` and what is known of them in lists of the same length
    beside it; llama.cpp has one list, ``content``, as in chat.
    """
    if not logprobs:
        return [(piece, {}) for piece in cut(text)]
    if isinstance(entries := logprobs.get("content"), list):
        pieces = cut_with_logprobs(text, entries, listed_token)
        return [(piece, logprobs | {"content": share}) for piece, share in pieces]
    tokens = logprobs.get("tokens")
    if not isinstance(tokens, list) or not _same_length(logprobs):
        return [(text, logprobs)]
    shares = []
    start = 0
    for piece, of_piece in cut_with_logprobs(text, tokens, plain_token):
        share = slice(start, start + len(of_piece))
        shares.append((piece, {name: _share(value, share) for name, value in logprobs.items()}))
        start = share.stop
    return shares


def _same_length(logprobs: JsonObject) -> bool:
    return len({len(value) for value in logprobs.values() if isinstance(value, list)}) == 1


def _share(value: Any, share: slice) -> Any:  # noqa: ANN401  (a list, or null, of the server's)
    return value[share] if isinstance(value, list) else value
