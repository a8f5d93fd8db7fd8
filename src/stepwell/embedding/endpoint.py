"""Any server with OpenAI's ``POST /v1/embeddings`` as an embedder.

https://platform.openai.com/docs/api-reference/embeddings; vLLM, llama.cpp, TEI, Ollama and others
have it too.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
import msgspec

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Embeddings, Unfit
from stepwell.embedding.encoder import Row
from stepwell.embedding.endpoint_reply import read_reply
from stepwell.embedding.flights import RECENT_TEXTS, Flights, Settle, embeddings
from stepwell.embedding.text import readable

BUDGET_SECONDS = 0.5
CALL_TIMEOUT_SECONDS = 10.0
"""A call goes on so long after nobody waits for it any more."""

TEXTS_PER_CALL = 64
CONNECTIONS = 16

BYTES_PER_TOKEN = 2
"""A text's tokens are taken to be its bytes in UTF-8 divided by this. English and Chinese have 3
to 5 bytes a token; only strings of digits and odd symbols have fewer than 2."""

BYTES_PER_NUMBER = 32
REPLY_BYTES = 65_536
"""Longest reply that is read: so many bytes, and for each number of each vector the above."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, and what is asked of it."""

    base_url: str
    """Up to ``/v1``, without a slash at its end."""
    model: str
    dimensions: int
    """Width of the vectors; a reply of another width is an error."""
    window_tokens: int
    """Longest text the model reads. Servers may cut longer ones without a word."""
    api_key: str | None = field(default=None, repr=False)
    asks_dimensions: bool = False
    """Send ``dimensions`` along, which shortens the vectors of models that can do so."""
    prefix: str = ""
    """Put before every text, if the model was trained so."""
    revision: str = ""
    """To be changed by hand when the server's weights change under the same name."""

    @property
    def model_id(self) -> str:
        """What makes its vectors its own."""
        parts = (
            self.base_url,
            self.model,
            str(self.dimensions),
            str(self.window_tokens),
            str(self.asks_dimensions),
            self.prefix,
            self.revision,
        )
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return f"{self.model}@{digest[:16]}"


class EndpointEmbedder:
    """Implements `stepwell.core.vectors.Embedder` over HTTP. For one event loop.

    A call is made once: no retries on the way of a request. Redirects are not followed, since
    they would carry the key along. Whether the server gives a text the same bits each time is up
    to it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        budget_seconds: float = BUDGET_SECONDS,
        recent_texts: int = RECENT_TEXTS,
    ) -> None:
        """Ask ``endpoint``; connects when first asked.

        Raises:
            ConfigError: Its address, width or window cannot be.
        """
        if not endpoint.base_url.startswith(("http://", "https://")):
            raise ConfigError(f"base_url {endpoint.base_url!r} must begin with http:// or https://")
        if endpoint.dimensions < 1 or endpoint.window_tokens < 1:
            raise ConfigError("dimensions and window_tokens must be 1 or more")
        self.model_id = endpoint.model_id
        self.dimensions = endpoint.dimensions
        self._endpoint = endpoint
        self._flights = Flights[str, Row](
            self._start, budget_seconds=budget_seconds, recent=recent_texts
        )
        self._session: aiohttp.ClientSession | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``.

        Raises:
            EmbeddingTimeout: They were not there within the budget. The call goes on, and its
                result is found by whoever asks next.
            EmbeddingError: The server did not answer, or not with vectors as they were asked for.
        """
        known = [readable(text) for text in texts]
        return await embeddings(self._flights, known, self._judge, self.dimensions)

    async def aclose(self) -> None:
        """Break off all calls and close the connections. May be called twice."""
        self._is_closed = True
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        self._flights.fail_all(EmbeddingError("the embedder is closed"))

    def _judge(self, text: str) -> Unfit | None:
        if not text or text.isspace():
            return Unfit.EMPTY
        tokens = len((self._endpoint.prefix + text).encode()) / BYTES_PER_TOKEN
        return Unfit.OVER_WINDOW if tokens > self._endpoint.window_tokens else None

    def _start(self, texts: Sequence[str], settle: Settle[str, Row]) -> None:
        for first in range(0, len(texts), TEXTS_PER_CALL):
            some = texts[first : first + TEXTS_PER_CALL]
            call = asyncio.create_task(self._call(some, settle))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self, texts: Sequence[str], settle: Settle[str, Row]) -> None:
        problem = EmbeddingError("the embedder is closed")
        try:
            rows = read_reply(await self._reply(texts), len(texts), self._endpoint.dimensions)
            for text, row in zip(texts, rows, strict=True):
                settle(text, row)
        except EmbeddingError as error:
            problem = error
        except (aiohttp.ClientError, OSError) as error:  # a timeout is one of the latter
            problem = EmbeddingError(f"no answer: {type(error).__name__}: {error}")
        finally:
            for text in texts:
                settle(text, problem)

    async def _reply(self, texts: Sequence[str]) -> bytes:
        """Return the body of the server's answer."""
        if self._is_closed:
            raise EmbeddingError("the embedder is closed")
        session = self._session = self._session or self._open()
        body = msgspec.json.encode(self._question(texts))
        url = f"{self._endpoint.base_url.rstrip('/')}/embeddings"
        longest = REPLY_BYTES + len(texts) * self._endpoint.dimensions * BYTES_PER_NUMBER
        async with session.post(url, data=body, allow_redirects=False) as response:
            if response.status != 200:  # noqa: PLR2004
                raise EmbeddingError(f"the server answered {response.status}")
            reply = bytearray()
            async for chunk in response.content.iter_any():
                reply += chunk
                if len(reply) > longest:
                    raise EmbeddingError(f"the server's reply is longer than {longest} bytes")
            return bytes(reply)

    def _question(self, texts: Sequence[str]) -> dict[str, object]:
        question: dict[str, object] = {
            "model": self._endpoint.model,
            "input": [self._endpoint.prefix + text for text in texts],
            "encoding_format": "float",
        }
        if self._endpoint.asks_dimensions:
            question["dimensions"] = self._endpoint.dimensions
        return question

    def _open(self) -> aiohttp.ClientSession:
        headers = {"content-type": "application/json"}
        if self._endpoint.api_key is not None:
            headers["authorization"] = f"Bearer {self._endpoint.api_key}"
        return aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_SECONDS),
        )
