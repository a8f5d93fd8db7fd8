"""A model server as the embedding cache asks it, on a caller's account."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from stepwell.core.clock import Clock
from stepwell.core.entry import Usage
from stepwell.core.errors import EmbeddingError
from stepwell.core.events import UpstreamAnswered
from stepwell.core.names import Namespace
from stepwell.core.ports import EventSink, Headers, Upstream
from stepwell.core.ports import Reply as HttpReply
from stepwell.embedding.cache.pace import Pace
from stepwell.embedding.cache.provider import BadReply, Input, Refused, Reply
from stepwell.pipeline.groups import Groups
from stepwell.wire.cache_control import delta_seconds
from stepwell.wire.embedding_replies import (
    BrokenReply,
    EmbeddingsReply,
    ForeignReply,
    read_embeddings_reply,
)
from stepwell.wire.embeddings import MAX_DIMENSIONS, EmbeddingsRequest, write_embeddings_request

BYTES_PER_NUMBER = 32
REPLY_BYTES = 65_536
"""Longest reply that is read: so many bytes, and for each number of the widest vector the above."""


class ForeignAnswer(EmbeddingError):
    """The model server answers in a form of its own: each caller must have it as it comes."""


@dataclass(slots=True)
class Told:
    """What replies say beside vectors."""

    headers: Headers = ()
    """Of the last reply, without its content type; empty: there was none."""
    model: str | None = None
    """What it calls the model."""


@dataclass(frozen=True, slots=True)
class Company:
    """What a provider needs of the house."""

    clock: Clock
    events: EventSink
    groups: Groups
    """Obey what heads of replies say."""


@dataclass(frozen=True, slots=True)
class UpstreamProvider:
    """Implements `stepwell.embedding.cache.provider.Provider`.

    Equal are those that would ask the same server the same on the same account: their texts may go
    in one call.
    """

    identity: str
    """Of the upstream."""
    template: bytes
    """The body without its inputs."""
    account: Headers
    """Header fields that say on whose account, and what may change the vectors."""
    query: str
    namespace: Namespace
    """Whose answers a reply may invalidate."""
    upstream: Upstream = field(compare=False)
    request: EmbeddingsRequest = field(compare=False, repr=False)
    headers: Headers = field(compare=False)
    """Beside ``account``; of joined calls, the first caller's."""
    pace: Pace = field(compare=False)
    company: Company = field(compare=False, repr=False)
    told: Told = field(default_factory=Told, compare=False)
    """Filled in by replies; where calls are joined, the first caller's."""

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Ask once; see `Provider.embed`.

        Raises:
            Refused: It answered with an error.
            BadReply: What it answered is no reply to this.
            ForeignAnswer: It answered in another form.
            UpstreamError: It could not be asked, or broke off.
            RequestError: HTTP cannot carry the request.
        """
        clock = self.company.clock
        started = clock.monotonic()
        body = write_embeddings_request(self.request, inputs)
        headers = (*self.account, *self.headers, ("content-type", "application/json"))
        reply = await self.upstream.forward("POST", "embeddings", self.query, headers, body)
        first_byte_seconds = clock.monotonic() - started
        try:
            await self._heed(reply)
            answer = await self._read(reply, len(inputs))
        finally:
            await reply.aclose()
        if reply.status != HTTPStatus.OK:
            raise _refusal(reply, answer)
        made = self._understand(answer)
        self.told.model = made.model
        self.told.headers = tuple([one for one in reply.headers if one[0] != "content-type"])
        seconds = clock.monotonic() - started
        usage = Usage(made.tokens or 0)
        self.company.events.emit(
            UpstreamAnswered(
                self.upstream.name, self.request.model, seconds, first_byte_seconds, usage
            )
        )
        return Reply(made.vectors, made.places, made.tokens)

    async def _heed(self, reply: HttpReply) -> None:
        groups, name = self.company.groups, self.upstream.name
        await groups.heed(name, self.namespace, reply.status, reply.headers)

    async def _read(self, reply: HttpReply, inputs: int) -> bytes:
        longest = REPLY_BYTES + inputs * MAX_DIMENSIONS * BYTES_PER_NUMBER
        body = bytearray()
        async for chunk in reply.chunks():
            body += chunk
            if len(body) > longest:
                raise BadReply(f"a reply of more than {longest} bytes to {inputs} texts")
        return bytes(body)

    @staticmethod
    def _understand(answer: bytes) -> EmbeddingsReply:
        try:
            return read_embeddings_reply(answer)
        except ForeignReply as error:
            raise ForeignAnswer(str(error)) from error
        except BrokenReply as error:
            raise BadReply(str(error)) from error


def _refusal(reply: HttpReply, body: bytes) -> Refused:
    headers = dict(reply.headers)
    return Refused(
        f"the model server answered {reply.status}",
        status=reply.status,
        body=body,
        headers=headers,
        retry_after_seconds=delta_seconds(headers.get("retry-after")),
    )
