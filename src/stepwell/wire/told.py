"""Texts that a stream has told in pieces, and what of a second telling is new."""

from collections.abc import Callable

Channel = tuple[object, ...]
"""Which text: a choice's content, the arguments of its second tool call."""


class Diverged(ValueError):
    """The second telling is another than the first."""


class Told:
    """Texts by channel. Not thread-safe."""

    def __init__(self) -> None:
        self._pieces: dict[Channel, list[str]] = {}
        self._rest: dict[Channel, str] = {}
        """What the second telling has not come to yet."""

    def hear(self, channel: Channel, piece: str) -> None:
        """Take a piece of the first telling."""
        self._pieces.setdefault(channel, []).append(piece)

    def settle(self) -> None:
        """End the first telling."""
        self._rest = {channel: "".join(pieces) for channel, pieces in self._pieces.items()}

    def news(self, channel: Channel, piece: str) -> str | None:
        """Return what of a piece of the second telling is new; ``None`` if all was told.

        Raises:
            Diverged: It is not what was told.
        """
        rest = self._rest.get(channel)
        if not rest:
            # An empty piece opens a channel; it is open.
            return piece if piece or rest is None else None
        if rest.startswith(piece):
            self._rest[channel] = rest[len(piece) :]
            return None
        if not piece.startswith(rest):
            raise Diverged("the text is another")
        self._rest[channel] = ""
        return piece[len(rest) :]

    def expect_all_retold(self, among: Callable[[Channel], bool] = lambda _: True) -> None:
        """Check that the second telling has come as far as the first, in the channels meant.

        Raises:
            Diverged: It ended before.
        """
        if any(rest and among(channel) for channel, rest in self._rest.items()):
            raise Diverged("the second answer is shorter than what was told of the first")
