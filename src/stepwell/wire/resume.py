"""Going on with a stream that broke off, by a second one that answers the same.

A second call answers under other ids, at another time, and in other pieces. What of it is new are
the texts behind what was told, which must begin with just that. The ids of the first call stand.
"""

from typing import Protocol

from stepwell.core.names import Endpoint
from stepwell.wire.resume_chunks import ResumedChunks
from stepwell.wire.resume_responses import ResumedResponse
from stepwell.wire.sse import Event, EventSplitter, EventTooLarge, parse_event, read_events
from stepwell.wire.told import Diverged


class _Resumed(Protocol):
    def hear(self, event: Event) -> None: ...
    def settle(self) -> None: ...
    def news(self, event: Event) -> bytes: ...
    def finish(self) -> None: ...


class Resumption:
    """Takes a second stream and gives what goes on after the first. Not thread-safe.

    Costs some 10 us an event.
    """

    def __init__(self, endpoint: Endpoint, told: bytes) -> None:
        """Take the first stream as far as it came: whole events.

        Raises:
            Diverged: It is none that can be gone on with.
        """
        self._splitter = EventSplitter()
        self._resumed: _Resumed
        is_typed = endpoint is Endpoint.RESPONSES
        self._resumed = ResumedResponse() if is_typed else ResumedChunks()
        for event in read_events(told):
            self._resumed.hear(event)
        self._resumed.settle()

    def feed(self, chunk: bytes) -> bytes:
        """Return what is to be passed on after ``chunk``.

        Raises:
            Diverged: The second stream answers something else.
        """
        try:
            events = self._splitter.feed(chunk)
        except EventTooLarge as error:
            raise Diverged(str(error)) from error
        return b"".join(map(self._news, events))

    def finish(self) -> None:
        """End the second stream.

        Raises:
            Diverged: It ended before the first did, or within an event.
        """
        self._resumed.finish()
        if self._splitter.rest.strip():
            raise Diverged("the second stream ended within an event")

    def _news(self, raw: bytes) -> bytes:
        event = parse_event(raw)
        return self._resumed.news(event) if event.data else raw
