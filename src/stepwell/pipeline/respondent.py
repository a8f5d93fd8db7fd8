"""A model server as a judge asks it: a short question, a short reply."""

from dataclasses import dataclass, field
from http import HTTPStatus

import orjson

from stepwell.core.clock import Clock
from stepwell.core.entry import Answer, Usage
from stepwell.core.errors import RequestError, UpstreamBroken
from stepwell.core.events import UpstreamAnswered
from stepwell.core.names import Endpoint, Form
from stepwell.core.ports import Call, EventSink, Headers, Reply, Upstream
from stepwell.pipeline.question import Ask
from stepwell.wire.said import said
from stepwell.wire.summary import summarise

MAX_REPLY_BYTES = 256 << 10
"""A longer reply is no short one."""

MAX_TOKENS = 8
"""Enough for one word and what models put around it."""

_LENT = frozenset({"authorization", "openai-organization", "openai-project"})
"""What of a request says on whose account it is; the rest is its own affair."""


@dataclass(frozen=True, slots=True)
class UpstreamRespondent:
    """A `Respondent` by chat completions; equal are those that ask the same on the same account."""

    upstream: Upstream = field(compare=False)
    """One of many objects for the same server, where a client's own connections are used."""
    identity: str
    """Of the upstream."""
    model: str
    headers: Headers
    clock: Clock = field(compare=False)
    events: EventSink = field(compare=False)

    async def ask(self, instructions: str, text: str) -> str:
        """As `Respondent.ask`; its tokens are counted as spent."""
        started = self.clock.monotonic()
        try:
            reply = await self.upstream.send(self._call(instructions, text))
        except RequestError as error:
            raise self._broken(str(error)) from error
        first_byte_seconds = self.clock.monotonic() - started
        try:
            body = await self._read(reply)
        finally:
            await reply.aclose()
        answer = Answer(Form.JSON, body)
        told = said(Endpoint.CHAT, answer)
        if told is None:
            raise self._broken("its reply is no chat completion")
        usage = summarise(Endpoint.CHAT, answer).usage or Usage()
        seconds = self.clock.monotonic() - started
        self.events.emit(
            UpstreamAnswered(self.upstream.name, self.model, seconds, first_byte_seconds, usage)
        )
        return told.text

    def _call(self, instructions: str, text: str) -> Call:
        body = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": instructions},
                {"role": "user", "content": text},
            ],
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
        }
        try:
            return Call(Endpoint.CHAT, orjson.dumps(body), self.headers)
        except orjson.JSONEncodeError as error:  # a lone surrogate, from a caller's JSON
            raise self._broken("what is asked is no text") from error

    async def _read(self, reply: Reply) -> bytes:
        if reply.status != HTTPStatus.OK:
            raise self._broken(f"status {reply.status}")
        body = bytearray()
        async for chunk in reply.chunks():
            body += chunk
            if len(body) > MAX_REPLY_BYTES:
                raise self._broken("a reply without end")
        return bytes(body)

    def _broken(self, why: str) -> UpstreamBroken:
        name = self.upstream.name
        return UpstreamBroken(f"{name} does not serve as a judge: {why}", upstream=name)


class Respondents:
    """Which model a judge asks about a request."""

    def __init__(
        self,
        *,
        clock: Clock,
        events: EventSink,
        upstream: Upstream | None = None,
        model: str | None = None,
    ) -> None:
        """Take what the settings say.

        Args:
            clock: The time.
            events: Hears of the calls.
            upstream: The model server to ask; by default each request's own.
            model: The model to ask for; by default each request's own.
        """
        self._clock = clock
        self._events = events
        self._upstream = upstream
        self._model = model

    def of(self, ask: Ask) -> UpstreamRespondent:
        """Return the model to ask about ``ask``.

        The request's own model server is asked on the request's own account; no other one ever
        sees its key.
        """
        upstream = self._upstream or ask.upstream
        own = upstream is ask.upstream
        lent = tuple(field for field in ask.plain_call.headers if own and field[0] in _LENT)
        model = self._model or ask.question.model
        return UpstreamRespondent(
            upstream, upstream.identity, model, lent, self._clock, self._events
        )
