"""Replies of a model server that no model server should give."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.gateway import Gateway, StartGateway, question, running_gateway

from stepwell.testing.fake_upstream import FakeUpstream

ANSWER = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'
)


@asynccontextmanager
async def answering(status_line: bytes, fields: bytes = b"") -> AsyncIterator[str]:
    """Serve one fixed reply to every request, a moment later."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        await asyncio.sleep(0.1)
        writer.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nconnection: close\r\n%b"
            b"content-length: %d\r\n\r\n%b" % (status_line, fields, len(ANSWER), ANSWER)
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize("status", ["099 a", "600 a", "999 a"])
async def test_a_status_that_is_none(tmp_path: Path, status: str) -> None:
    """The caller hears that the model server is broken; nothing is stored."""
    async with answering(status.encode()) as url, running_gateway(tmp_path, url) as gateway:
        for _ in range(2):
            answer = await gateway.ask("hi")
            assert answer.status == 502
            assert b'"error"' in answer.body


async def test_cookies_and_our_own_fields_are_not_passed_on(tmp_path: Path) -> None:
    """A reply may be read by several callers, and only we say what we say."""
    fields = b"set-cookie: sid=1\r\nx-stepwell-bypass: evil\r\nx-request-id: r\r\n"
    async with answering(b"200 OK", fields) as url, running_gateway(tmp_path, url) as gateway:
        answers = await asyncio.gather(gateway.ask("hi"), gateway.ask("hi"))
    assert sorted(answer.headers["x-cache"] for answer in answers) == ["COLLAPSED", "MISS"]
    for answer in answers:
        assert "set-cookie" not in answer.headers
        assert "x-stepwell-bypass" not in answer.headers
        assert answer.headers["x-request-id"] == "r"


@pytest.mark.parametrize(
    ("model", "reason"),
    [("fake-length", "truncated"), ("fake-empty", "empty"), ("fake-500", "status")],
)
async def test_an_answer_that_is_not_stored_says_why(
    gateway: Gateway, model: str, reason: str
) -> None:
    """In a header field; the log's trail has it, too."""
    answer = await gateway.ask("hi", model=model)
    assert answer.cache_status == "stepwell; fwd=miss"
    assert answer.headers["x-stepwell-not-stored"] == reason


async def test_a_large_odd_body_does_not_hold_up_others(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """It is read in a thread; others are answered meanwhile."""
    odd = question("``` `a\n" * 130_000, model="fake-429")
    async with start_gateway() as gateway:
        large = asyncio.create_task(gateway.post(odd))
        answered = 0
        while not large.done():
            assert (await gateway.get("/healthz")).status == 200
            answered += 1
        assert (await large).status == 429
    assert answered > 1


@pytest.mark.parametrize("field", ["Forwarded", "Via", "X-Real-IP", "X-Forwarded-Host"])
async def test_admin_is_closed_to_what_a_proxy_passed_on(gateway: Gateway, field: str) -> None:
    """Without a token, only this machine's own requests are let in."""
    assert (await gateway.get("/admin/stats")).status == 200
    assert (await gateway.get("/admin/stats", {field: "for=192.0.2.1"})).status == 403


@pytest.mark.parametrize(
    "body",
    [{"name": "", "value": "v"}, {"name": "a\nb", "value": "v"}, {"name": "a", "value": "v" * 300}],
)
async def test_sources_have_names_that_a_request_can_state(
    gateway: Gateway, body: dict[str, str]
) -> None:
    """Anything else would move nothing, in silence."""
    answer = await gateway.post(body, path="/admin/sources", key=None)
    assert answer.status == 400
