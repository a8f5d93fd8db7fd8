"""One answer of the fake upstream, given as its script says."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from stepwell.testing import fake_answers
from stepwell.testing.fake_answers import WRITERS, Writer
from stepwell.testing.fake_connection import Connection, Received
from stepwell.testing.fake_embeddings import embeddings_json
from stepwell.testing.fake_prefixes import FakePrefixCache, ids_of, words_of
from stepwell.testing.fake_script import Fault, Script


class Performance:
    """Writes the answer to one request on its connection."""

    def __init__(
        self,
        received: Received,
        script: Script,
        connection: Connection,
        number: int,
        prefixes: FakePrefixCache | None = None,
    ) -> None:
        """Answer ``received``, which is the server's ``number``th request."""
        self._received = received
        self._script = script
        self._connection = connection
        self._number = number
        self._prefixes = prefixes

    async def run(self, models: list[str]) -> None:
        """Give the answer; ``models`` are those to be listed."""
        match self._script.fault:
            case Fault.SILENT:
                await asyncio.Event().wait()
            case Fault.NO_REPLY:
                self._connection.drop()
            case Fault.NOT_HTTP:
                await self._connection.write(b"\x15\x03\x01 this is not HTTP\r\n\r\n")
                self._connection.drop()
            case _:
                await self._respond(models)

    async def _respond(self, models: list[str]) -> None:
        script, received = self._script, self._received
        operation = received.path.removeprefix("/v1/")
        if script.html:
            await self._whole(script.status, "text/html", b"<html><body>Log in</body></html>")
        elif script.status != HTTPStatus.OK:
            await self._error(script.status, "The script says so.")
        elif (received.method, operation) == ("GET", "models"):
            await self._json(fake_answers.models_json(models))
        elif (received.method, operation) == ("POST", "embeddings"):
            await self._json(
                embeddings_json(received.json(), script.vector_fault, weights=script.weights)
            )
        elif received.method == "POST" and operation in WRITERS:
            await self._generate(WRITERS[operation], received.json())
        elif self._prefixes is not None and (own := _OWN_ROUTES.get(received.path)) is not None:
            await self._json(own(received.json()))
        else:
            await self._error(404, f"Unknown request: {received.method} {received.path}")

    async def _generate(self, writer: Writer, body: dict[str, Any]) -> None:
        script = self._script
        if script.refuse_stream_options and "stream_options" in body:
            await self._error(400, "Unrecognized request argument supplied: stream_options")
            return
        answer = fake_answers.answer_to(
            body,
            words=script.words,
            text=None if script.say is None else script.say(body),
            finish_reason=script.finish_reason,
        )
        if self._prefixes is not None:
            tokens, cached = self._prefixes.read(body)
            answer = replace(answer, prompt_tokens=tokens, cached_tokens=cached)
        if not body.get("stream"):
            await self._json(writer.whole(answer))
            return
        events = writer.events(answer)
        if (body.get("stream_options") or {}).get("include_usage"):
            events = fake_answers.with_usage(answer, events, null_until_last=script.null_usage)
        await self._stream(events, typed=writer.typed_events)

    async def _error(self, status: int, message: str) -> None:
        await self._whole(
            status, "application/json", _dump(fake_answers.error_json(status, message))
        )

    async def _json(self, value: dict[str, Any]) -> None:
        await self._whole(HTTPStatus.OK, "application/json", _dump(value))

    async def _whole(self, status: int, content_type: str, body: bytes) -> None:
        half = body[: len(body) // 2]
        if self._script.fault is Fault.GARBAGE:
            body = half
        head = self._head(status, content_type, f"content-length: {len(body)}")
        match self._script.fault:
            case Fault.CLOSE | Fault.RESET | Fault.HANG as fault:
                await self._connection.write(head + half)
                await self._break_off(fault)
            case Fault.TRAILING:
                stale = self._head(200, "application/json", "content-length: 2") + b"{}"
                await self._connection.write(head + body)
                await self._connection.write(stale)
            case _:
                await self._connection.write(head + body)

    async def _stream(self, events: Iterator[dict[str, Any]], *, typed: bool) -> None:
        script = self._script
        head = self._head(200, "text/event-stream; charset=utf-8", "transfer-encoding: chunked")
        await self._connection.write(head)
        for number, event in enumerate(events):
            if number == script.after_events and not await self._go_on():
                return
            if script.event_delay_seconds:
                await asyncio.sleep(script.event_delay_seconds)
            name = f"event: {event['type']}\n".encode() if typed else b""
            await self._chunk(name + b"data: " + _dump(event) + b"\n\n")
        if not typed and script.fault is not Fault.NO_DONE:
            await self._chunk(b"data: [DONE]\n\n")
        if script.hold_end is not None:
            await script.hold_end.wait()
        await self._connection.write(b"0\r\n\r\n")

    async def _go_on(self) -> bool:
        """Do what is to happen in the middle of a stream; return whether it goes on."""
        if self._script.resume is not None:
            await self._script.resume.wait()
        match self._script.fault:
            case Fault.CLOSE | Fault.RESET | Fault.HANG as fault:
                await self._break_off(fault)
            case Fault.GARBAGE:
                await self._chunk(b"\x00\xff<p>oops\n\n")
                await self._connection.write(b"0\r\n\r\n")
            case Fault.ERROR_EVENT:
                error = fake_answers.error_json(500, "The server had an error.")
                await self._chunk(b"data: " + _dump(error) + b"\n\n")
                await self._connection.write(b"0\r\n\r\n")
            case _:
                return True
        return False

    async def _break_off(self, fault: Fault) -> None:
        if fault is Fault.HANG:
            await asyncio.Event().wait()
        self._connection.drop(reset=fault is Fault.RESET)

    async def _chunk(self, data: bytes) -> None:
        await self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _head(self, status: int, content_type: str, framing: str) -> bytes:
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"content-type: {content_type}",
            framing,
            f"x-fake-call: {self._number}",
            f"x-request-id: req_{self._number}",
            *[f"{name}: {value}" for name, value in self._script.headers],
        ]
        if self._script.retry_after_seconds is not None:
            lines.append(f"retry-after: {self._script.retry_after_seconds}")
        return "\r\n".join((*lines, "", "")).encode()


def _tokenize(body: dict[str, Any]) -> dict[str, Any]:
    """Answer as vLLM does for ``messages``, and llama.cpp for ``content``."""
    words = fake_answers.last_text(body["content"]).split() if "content" in body else words_of(body)
    return {"tokens": ids_of(words), "count": len(words)}


def _apply_template(body: dict[str, Any]) -> dict[str, Any]:
    return {"prompt": " ".join(words_of(body))}


_OWN_ROUTES = {"/tokenize": _tokenize, "/apply-template": _apply_template}


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
