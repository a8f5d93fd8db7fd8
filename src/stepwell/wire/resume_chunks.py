"""Going on with a broken stream of chat or completions."""

import orjson

from stepwell.wire.chunks import JsonObject
from stepwell.wire.sse import DONE, Event, format_event
from stepwell.wire.told import Diverged, Told

_OF_THE_CALL = ("id", "created", "system_fingerprint")
"""Fields that are another in every call, and the same in all chunks of one."""

_SAID_ONCE = frozenset({"id", "role", "type"})
"""Strings that are not sent in pieces; of a second call, the first one's stand."""

_LEVELS = 6
"""How deep a delta may be nested; no server goes beyond four."""

_Path = tuple[int | str, ...]


class ResumedChunks:
    """A stream of chunks that goes on where another broke off. Not thread-safe."""

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._told = Told()
        self._bare: list[JsonObject] = []
        """Chunks without choices."""
        self._values: dict[_Path, object] = {}
        """What was said once: a role, the id of a tool call, why a choice ended."""

    def hear(self, event: Event) -> None:
        """Take an event of the broken stream."""
        if event.data == DONE:
            self._values["done",] = True
            return
        chunk = _chunk(event)
        if not self._head:
            self._head = {name: chunk[name] for name in _OF_THE_CALL if name in chunk}
        pieces = _numbered(chunk.get("choices"))
        if not pieces:
            self._bare.append(_of_the_answer(chunk))
        for place, piece in pieces:
            if (reason := piece.get("finish_reason")) is not None:
                self._values[place, "finish_reason"] = reason
            self._hear(_said(piece), (place,))

    def settle(self) -> None:
        """End the broken stream."""
        self._told.settle()

    def news(self, event: Event) -> bytes:
        """Return what of an event of the second stream is to be passed on, if anything is.

        Raises:
            Diverged: The streams cannot be put together.
        """
        if event.data == DONE:
            self._told.expect_all_retold()
            return b"" if ("done",) in self._values else format_event(DONE)
        chunk = _chunk(event)
        kept = chunk | {name: value for name, value in self._head.items() if name in chunk}
        pieces = _numbered(chunk.get("choices"))
        if pieces:
            kept["choices"] = [
                new for place, piece in pieces if (new := self._new_piece(place, piece))
            ]
            is_new = bool(kept["choices"])
        else:
            is_new = self._is_new(chunk)
        return format_event(orjson.dumps(kept), event.name) if is_new else b""

    def finish(self) -> None:
        """End the second stream. Raises `Diverged` if it did not come as far as the first."""
        self._told.expect_all_retold()

    def _is_new(self, chunk: JsonObject) -> bool:
        """Return whether a chunk without choices was not told: usage, or what a filter says."""
        told = _of_the_answer(chunk)
        if told in self._bare:
            self._bare.remove(told)
            return False
        has_usage = [one for one in self._bare if one.get("usage")]
        return not (chunk.get("usage") and has_usage)

    def _hear(self, said: JsonObject, path: _Path) -> None:
        for name, value in said.items():
            at = (*path, name)
            if isinstance(value, dict):
                self._hear(value, _deeper(at))
            elif isinstance(value, list):
                for place, item in _numbered(value):
                    self._hear(item, _deeper((*at, place)))
            elif isinstance(value, str) and name not in _SAID_ONCE:
                self._told.hear(at, value)
            elif value is not None:
                self._values.setdefault(at, value)

    def _new_piece(self, place: int, piece: JsonObject) -> JsonObject | None:
        """Return what of a choice's piece is new; ``None`` if nothing is."""
        said = _said(piece)
        news = self._new(said, (place,))
        if news and news != said and piece.get("logprobs"):
            raise Diverged("log probabilities cannot be cut")
        reason = self._new_reason(place, piece.get("finish_reason"))
        if not news and reason is None:
            return None
        kept = piece | ({"finish_reason": reason} if "finish_reason" in piece else {})
        if not news and "logprobs" in piece:
            kept["logprobs"] = None
        return kept | ({"delta": news} if "delta" in piece else {"text": "", **news})

    def _new_reason(self, place: int, reason: object) -> object:
        if reason is None:
            return None
        self._told.expect_all_retold(lambda channel: channel[0] == place)
        known = self._values.get((place, "finish_reason"))
        if known is not None and known != reason:
            raise Diverged("it ended for another reason")
        return reason if known is None else None

    def _new(self, said: JsonObject, path: _Path) -> JsonObject:
        news: JsonObject = {}
        for name, value in said.items():
            at = (*path, name)
            new: object
            if isinstance(value, dict):
                new = self._new(value, at) or None
            elif isinstance(value, list):
                new = self._new_items(value, at)
            elif isinstance(value, str) and name not in _SAID_ONCE:
                new = self._told.news(at, value)
            else:
                new = None if at in self._values else value
            if new is not None:
                news[name] = new
        return news

    def _new_items(self, items: list[object], path: _Path) -> list[JsonObject] | None:
        return [
            {"index": place, **new}
            for place, item in _numbered(items)
            if (new := self._new(item, (*path, place)))
        ] or None


def _of_the_answer(chunk: JsonObject) -> JsonObject:
    """Return what a chunk says, whatever call it is of."""
    return {name: value for name, value in chunk.items() if name not in _OF_THE_CALL}


def _chunk(event: Event) -> JsonObject:
    try:
        chunk = orjson.loads(event.data)
    except orjson.JSONDecodeError:
        raise Diverged("an event is no JSON") from None
    if not isinstance(chunk, dict) or event.name == "error" or chunk.get("error"):
        raise Diverged("an event is no chunk")
    return chunk


def _said(piece: JsonObject) -> JsonObject:
    """Return what a choice's piece says."""
    delta = piece.get("delta")
    if isinstance(delta, dict):
        return delta
    return {"text": piece["text"]} if "text" in piece else {}


def _numbered(items: object) -> list[tuple[int, JsonObject]]:
    """Return the objects of a list, each with its number.

    Raises:
        Diverged: It cannot be told what they go on with.
    """
    if items is None:
        return []
    if not isinstance(items, list):
        raise Diverged("a list is expected")
    numbered = []
    for item in items:
        place = item.get("index", 0) if isinstance(item, dict) else None
        if not isinstance(place, int):
            raise Diverged("an item has no number")
        numbered.append((place, item))
    return numbered


def _deeper(path: _Path) -> _Path:
    if len(path) > _LEVELS:
        raise Diverged("it is nested too deep")
    return path
