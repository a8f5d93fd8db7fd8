"""A function of the program as a provider of the embedding cache."""

from collections.abc import Sequence
from typing import cast

from stepwell.core.embedding import EmbedTexts
from stepwell.embedding.cache.pace import Limits, Pace
from stepwell.embedding.cache.provider import BadReply, Input, Reply, Row


class FunctionProvider:
    """Implements `stepwell.embedding.cache.provider.Provider` by a function."""

    def __init__(self, embed: EmbedTexts, limits: Limits | None = None) -> None:
        """Ask ``embed``, which retries by itself if it wants to, within ``limits``."""
        self.pace = Pace(limits)
        self._embed = embed

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Ask once.

        Raises:
            BadReply: It returned something without a length.
            Exception: What it raises.
        """
        rows = await self._embed([given for given in inputs if isinstance(given, str)])
        try:
            return Reply(cast("list[Row]", list(rows)))  # which is looked at later
        except TypeError as error:
            raise BadReply(f"the function returned no list of vectors: {error}") from error
