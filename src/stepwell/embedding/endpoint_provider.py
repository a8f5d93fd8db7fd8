"""Any server with OpenAI's ``POST /v1/embeddings`` as a provider of the embedding cache."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec

from stepwell.core.clock import Clock, SystemClock
from stepwell.core.embedding import VectorKind
from stepwell.core.errors import ConfigError
from stepwell.embedding.cache.pace import Limits, Pace
from stepwell.embedding.cache.provider import BadReply, Input, NoAnswer, Refused, Reply
from stepwell.wire.embedding_replies import BrokenReply, ForeignReply, read_embeddings_reply

MAX_REPLY_BYTES: Final = 256 << 20
_SHOWN_BYTES: Final = 500
_HANDED_ON: Final = ("content-type", "retry-after")


@dataclass(frozen=True, slots=True)
class EmbeddingServer:
    """A server, and what is asked of it."""

    base_url: str
    """Up to ``/v1``."""
    model: str
    api_key: str | None = field(default=None, repr=False)
    dimensions: int | None = None
    """Sent along if given."""
    revision: str = ""
    """To be changed by hand when the server's weights change under the same name."""
    prefix: str = ""
    """Put before every text, if the model was trained so."""

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ConfigError: It cannot be asked so.
        """
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(f"base_url {self.base_url!r} must begin with http:// or https://.")
        if not self.model:
            raise ConfigError("model is empty; allowed: the name of an embedding model.")
        if self.dimensions is not None and self.dimensions < 1:
            raise ConfigError(f"dimensions is {self.dimensions}; allowed: 1 or more.")

    @property
    def kind(self) -> VectorKind:
        """Of its vectors."""
        return VectorKind(
            self.base_url.rstrip("/"),
            self.model,
            revision=self.revision,
            dimensions=self.dimensions,
            prefix=self.prefix,
        )


class EndpointProvider:
    """Implements `stepwell.embedding.cache.provider.Provider` over HTTP. For one event loop.

    Redirects are not followed, since they would carry the key along.
    """

    def __init__(
        self, server: EmbeddingServer, limits: Limits | None = None, clock: Clock | None = None
    ) -> None:
        """Ask ``server``; connects when first asked."""
        self.pace = Pace(limits)
        self._server = server
        self._clock: Clock = clock or SystemClock()
        self._session: aiohttp.ClientSession | None = None

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Ask once.

        Raises:
            Refused: The server answered with an error.
            NoAnswer: It could not be asked, or broke off.
            BadReply: It answered something that is no list of vectors.
        """
        session = self._session = self._session or self._open()
        url = f"{self._server.base_url.rstrip('/')}/embeddings"
        body = msgspec.json.encode(self._question(inputs))
        try:
            async with session.post(url, data=body, allow_redirects=False) as response:
                reply = await _body(response)
                if response.status != HTTPStatus.OK:
                    raise self._refusal(response, reply)
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(f"no answer from {url}: {type(error).__name__}: {error}") from error
        try:
            told = read_embeddings_reply(reply)
        except (BrokenReply, ForeignReply) as error:
            raise BadReply(f"the provider's reply is no list of vectors: {error}") from error
        return Reply(told.vectors, told.places, told.tokens)

    async def aclose(self) -> None:
        """Close the connections. May be called twice."""
        if self._session is not None:
            await self._session.close()

    def _question(self, inputs: Sequence[Input]) -> dict[str, object]:
        question: dict[str, object] = {
            "model": self._server.model,
            "input": inputs,
            "encoding_format": "float",
        }
        if self._server.dimensions is not None:
            question["dimensions"] = self._server.dimensions
        return question

    def _refusal(self, response: aiohttp.ClientResponse, body: bytes) -> Refused:
        shown = body[:_SHOWN_BYTES].decode("utf-8", "replace")
        headers = {name: response.headers[name] for name in _HANDED_ON if name in response.headers}
        return Refused(
            f"the provider answered {response.status}: {shown}",
            status=response.status,
            body=body,
            headers=headers,
            retry_after_seconds=retry_after(headers.get("retry-after"), self._clock.now()),
        )

    def _open(self) -> aiohttp.ClientSession:
        headers = {"content-type": "application/json"}
        if self._server.api_key is not None:
            headers["authorization"] = f"Bearer {self._server.api_key}"
        # The cache bounds the calls, and the time they take.
        return aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
        )


def retry_after(told: str | None, now: float) -> float | None:
    """Return the seconds that a ``Retry-After`` means (RFC 9110, 10.2.3), if it can be read.

    Args:
        told: Seconds, or a date.
        now: Seconds since the Unix epoch.
    """
    if told is None:
        return None
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - now)
    except ValueError:
        return None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    reply = bytearray()
    async for chunk in response.content.iter_any():
        reply += chunk
        if len(reply) > MAX_REPLY_BYTES:
            raise BadReply(f"the provider's reply is longer than {MAX_REPLY_BYTES} bytes")
    return bytes(reply)
