"""Stored answers in the shape a caller wants, remembered while they are hot."""

import math
from collections import OrderedDict

from stepwell.core.entry import Entry
from stepwell.core.names import CacheKey, Form
from stepwell.wire.render import render
from stepwell.wire.shape import Shape

_NONE = (math.nan, None)
_Name = tuple[CacheKey, Shape]


class Unrenderable(Exception):
    """An entry lacks what the shape needs: a stream was stored without its usage."""


class Renderings:
    """Renders entries; keeps what differs from the stored bytes, least recently used first out.

    One event loop; not thread-safe. Holds at most ``max_bytes`` of bodies.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[_Name, tuple[float, bytes | None]] = OrderedDict()
        """With when the entry was made: of a newer one it takes the place."""

    def of(self, entry: Entry, shape: Shape) -> bytes:
        """Return the body of ``entry`` in ``shape``.

        Cost: a lookup, or once per entry and shape a walk over the whole answer.

        Raises:
            Unrenderable: The entry lacks what the shape needs.
        """
        if entry.answer.form is shape.form is Form.JSON:
            return entry.answer.body
        name = (entry.key, shape)
        created_at, body = self._kept.get(name, _NONE)
        if created_at == entry.created_at:
            self._kept.move_to_end(name)
        else:
            body = self._render(name, entry, shape)
        if body is None:
            raise Unrenderable
        return body

    def _render(self, name: _Name, entry: Entry, shape: Shape) -> bytes | None:
        body = render(entry.endpoint, entry.answer, shape)
        if (older := self._kept.pop(name, None)) is not None:
            self._bytes -= _size(older[1])
        self._kept[name] = entry.created_at, body
        self._bytes += _size(body)
        while self._bytes > self._max_bytes:
            _, (_, oldest) = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)
        return body


def _size(body: bytes | None) -> int:
    """Bytes charged: the body, also where it is the stored one, and a flat sum for the rest."""
    return len(body or b"") + 300
