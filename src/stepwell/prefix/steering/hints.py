"""What the semantic layer says of questions that go on to a model server."""

from collections import OrderedDict

from stepwell.core.names import CacheKey

MAX_HINTS = 4_096
"""Each is taken out by the call it is for, a moment later."""


class NearHints:
    """Implements `PrefixHints`: keeps which stored question a question is much like.

    One event loop; not thread-safe.
    """

    def __init__(self) -> None:
        self._near: OrderedDict[CacheKey, CacheKey] = OrderedDict()

    def note(self, asked: CacheKey, near: CacheKey, similarity: float) -> None:
        """Note that ``asked`` is much like ``near``. The nearest counts; which that is, is told."""
        del similarity
        self._near[asked] = near
        if len(self._near) > MAX_HINTS:
            self._near.popitem(last=False)

    def take(self, asked: CacheKey | None) -> CacheKey | None:
        """Return the like question, once."""
        return None if asked is None else self._near.pop(asked, None)
