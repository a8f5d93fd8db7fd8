"""What model servers send, byte by byte: broken streams, odd fields, replies that say nothing."""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.gateway import Gateway, StartGateway
from support.metrics import total

STREAMED = {"stream": True}
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}


@contextlib.asynccontextmanager
async def gateway_before(
    start_gateway: StartGateway, replies: deque[bytes]
) -> AsyncIterator[Gateway]:
    """Run a gateway before a server that sends these bytes, one of them per request."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request_head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in request_head.lower().splitlines()[1:-1])
        await reader.readexactly(int(fields.get(b"content-length", 0)))
        writer.write(replies.popleft())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server, start_gateway(upstreams={"fake": {"base_url": base_url}}) as gateway:
        yield gateway


EVENT = b'data: {"id":"a","object":"chat.completion.chunk","choices":[]}\n\n'
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + EVENT
CHUNKED_EVENTS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize("form", [STREAMED, WITH_USAGE], ids=["stream", "usage"])
async def test_a_stream_that_breaks_within_an_event(
    start_gateway: StartGateway, form: dict[str, Any]
) -> None:
    """What tells of it is an event of its own."""
    part = EVENT + EVENT[:20]
    reply = CHUNKED_EVENTS + b"%x\r\n%b\r\n" % (len(part), part)
    async with gateway_before(start_gateway, deque([reply])) as gateway:
        answer = await gateway.ask("hi", **form)
    assert answer.body.startswith(EVENT)
    *_, before, last, end = answer.body.split(b"\n\n")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_broken"
    assert before in {EVENT[:20], b""} or before + b"\n\n" == EVENT
    assert end == b""


ANSWER = json.dumps(
    {
        "id": "a",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


ODD_FIELDS = {
    b"x-odd: a\x01b": None,
    b"x-odd: a\x7fb": None,
    b"x-odd: caf\xc3\xa9": "caf\u00e9",
    b"x-odd: ": "",
    b"connection: x-odd\r\nx-odd: a": None,
    b"age: 7\r\nx-cache: HIT\r\nx-stepwell-key: abc": None,
}


async def test_odd_fields_of_a_reply_do_no_harm(start_gateway: StartGateway) -> None:
    """What must not be sent on is left out; the answer arrives, and so does a list of models."""
    replies: deque[bytes] = deque()
    async with gateway_before(start_gateway, replies) as gateway:
        for field, expected in ODD_FIELDS.items():
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%b\r\n" % field
            reply = head + b"content-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
            replies += [reply] * 2
            answer = await gateway.ask(repr(field))
            listed = await gateway.get("/v1/models", {"authorization": "Bearer sk-test"})
            assert (answer.status, answer.headers["x-cache"], answer.body) == (200, "MISS", ANSWER)
            assert (listed.status, listed.body) == (200, ANSWER)
            assert answer.headers.get("x-odd") == expected
            assert "age" not in answer.headers


JSON = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
SAYS_NOTHING = [
    EVENTS,
    CHUNKED_EVENTS + b"0\r\n\r\n",
    CHUNKED_EVENTS + b"2\r\n\n\n\r\n0\r\n\r\n",
    CHUNKED_EVENTS + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + JSON % (4, b"null"),
    b"HTTP/1.1 200 OK\r\n" + JSON % (2, b"{}"),
    b"HTTP/1.1 201 Created\r\n" + JSON % (len(ANSWER), ANSWER),
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n",
]


@pytest.mark.parametrize("form", [{}, STREAMED, WITH_USAGE], ids=["whole", "stream", "usage"])
async def test_what_says_nothing_is_passed_on_and_not_kept(
    start_gateway: StartGateway, form: dict[str, Any]
) -> None:
    """Twice the same: the status, no error of ours, and no answer from the cache."""
    replies: deque[bytes] = deque()
    async with gateway_before(start_gateway, replies) as gateway:
        for reply in SAYS_NOTHING:
            for _ in range(2):
                replies.append(reply)
                answer = await gateway.ask(repr(reply), **form)
                assert (answer.status, answer.headers["x-cache"]) == (int(reply[9:12]), "MISS")
        assert await total(gateway, "stepwell_stored_total") == 0
