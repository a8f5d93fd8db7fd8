"""Going on with a broken stream of responses."""

from collections import Counter

import orjson

from stepwell.wire.chunks import JsonObject, UnreadableAnswer, objects
from stepwell.wire.responses import is_error
from stepwell.wire.sse import Event, format_event
from stepwell.wire.told import Channel, Diverged, Told

_PLACES = ("output_index", "content_index", "summary_index", "annotation_index")
_DELTA = ".delta"
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
_OF_THE_ITEM = ("id", "call_id")
_OF_THE_RESPONSE = ("id", "created_at")


class ResumedResponse:
    """A stream of typed events that goes on where another broke off. Not thread-safe."""

    def __init__(self) -> None:
        self._told = Told()
        self._events: Counter[Channel] = Counter()
        """Events of the broken stream that the second has not come to yet."""
        self._items: dict[int | None, JsonObject] = {}
        self._response: JsonObject = {}
        self._number: int | None = None

    def hear(self, event: Event) -> None:
        """Take an event of the broken stream."""
        data = _data(event)
        if isinstance(number := data.get("sequence_number"), int):
            self._number = number
        if isinstance(item := data.get("item"), dict):
            self._items.setdefault(data.get("output_index"), _of(item, _OF_THE_ITEM))
        if isinstance(response := data.get("response"), dict) and not self._response:
            self._response = _of(response, _OF_THE_RESPONSE)
        delta = _delta(data)
        if delta is None:
            self._events[_channel(data)] += 1
        else:
            self._told.hear(_channel(data), delta)

    def settle(self) -> None:
        """End the broken stream."""
        self._told.settle()

    def news(self, event: Event) -> bytes:
        """Return what of an event of the second stream is to be passed on, if anything is.

        Raises:
            Diverged: The streams cannot be put together.
        """
        data = _data(event)
        channel, delta = _channel(data), _delta(data)
        if delta is not None:
            new = self._told.news(channel, delta)
            if new is None:
                return b""
            if new != delta and data.get("logprobs"):
                raise Diverged("log probabilities cannot be cut")
            data["delta"] = new
        elif self._events[channel] > 0:
            self._events[channel] -= 1
            return b""
        else:
            self._expect_all_retold(data, channel)
        try:
            return format_event(orjson.dumps(self._renamed(data)), event.name)
        except UnreadableAnswer as error:
            raise Diverged(str(error)) from error

    def finish(self) -> None:
        """End the second stream. Raises `Diverged` if it did not come as far as the first."""
        self._told.expect_all_retold()

    def _expect_all_retold(self, data: JsonObject, channel: Channel) -> None:
        """Check that what the event ends was not longer in the broken stream."""
        kind = str(data.get("type"))
        if kind in _LAST:
            self._told.expect_all_retold()
        elif kind.endswith(".done"):
            of_it = (kind.removesuffix(".done") + _DELTA, *channel[1:])
            self._told.expect_all_retold(lambda other: other == of_it)

    def _renamed(self, data: JsonObject) -> JsonObject:
        """Give an event the names and the number it would have in the broken stream."""
        if self._number is not None:
            self._number += 1
            data["sequence_number"] = self._number
        at = data.get("output_index")
        if "item_id" in data:
            data["item_id"] = self._items.get(at, {}).get("id", data["item_id"])
        if isinstance(item := data.get("item"), dict):
            item |= self._items.get(at, {})
        if isinstance(response := data.get("response"), dict):
            response |= self._response
            for place, item in enumerate(objects(response.get("output"))):
                item.update(self._items.get(place, {}))
        return data


def _data(event: Event) -> JsonObject:
    try:
        data = orjson.loads(event.data)
    except orjson.JSONDecodeError:
        raise Diverged("an event is no JSON") from None
    if not isinstance(data, dict) or is_error(event.name, data):
        raise Diverged("an event is none of a response")
    return data


def _channel(data: JsonObject) -> Channel:
    places = [data.get(name) for name in _PLACES]
    if not all(place is None or isinstance(place, int) for place in places):
        raise Diverged("an event's place is no number")
    return (str(data.get("type")), *places)


def _delta(data: JsonObject) -> str | None:
    delta = data.get("delta")
    return delta if str(data.get("type")).endswith(_DELTA) and isinstance(delta, str) else None


def _of(thing: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {name: thing[name] for name in names if name in thing}
