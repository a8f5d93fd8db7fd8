"""`HttpUpstream` against a real HTTP server that behaves, and one that does not."""

import asyncio
import json
import traceback

import pytest
from support.dead_ports import silent
from support.upstreams import Events, MakeUpstream, failure, make_call, read

from stepwell.core.errors import (
    UpstreamBroken,
    UpstreamConnectTimeout,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from stepwell.engines.http import HttpUpstream
from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script


async def test_send_carries_body_query_and_end_to_end_fields(
    server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """A call arrives byte for byte; fields of the caller's connection, and cookies, do not."""
    call = make_call(
        headers=(
            ("authorization", "Bearer caller"),
            ("openai-organization", "org"),
            ("cookie", "a=b"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("accept-encoding", "gzip"),
            ("content-type", "text/plain"),
        ),
        query="api-version=1%2F2",
    )
    reply = await upstream.send(call)
    await read(reply)
    [received] = server.calls
    headers = dict(received.headers)
    assert len(headers) == len(received.headers)
    host = server.base_url.removeprefix("http://").removesuffix("/v1")
    assert (received.method, received.path) == ("POST", "/v1/chat/completions")
    assert received.query == "api-version=1%2F2"
    assert received.body == call.body
    assert headers == {
        "host": host,
        "accept": "*/*",
        "accept-encoding": "identity",
        "authorization": "Bearer caller",
        "content-length": str(len(call.body)),
        "content-type": "application/json",
        "openai-organization": "org",
        "user-agent": "stepwell",
    }


async def test_api_key_replaces_the_callers_authorization(
    server: FakeUpstream, make_upstream: MakeUpstream
) -> None:
    """The server sees the upstream's own key, once, and never the caller's."""
    upstream = make_upstream(server.base_url, api_key="own")
    await read(await upstream.send(make_call(headers=(("authorization", "Bearer caller"),))))
    sent = [value for name, value in server.calls[0].headers if name == "authorization"]
    assert sent == ["Bearer own"]


async def test_reply_has_status_body_and_end_to_end_fields(upstream: HttpUpstream) -> None:
    """What the server said comes back, less the framing of its connection."""
    reply = await upstream.send(make_call())
    body = json.loads(await read(reply))
    assert reply.status == 200
    assert reply.headers == (
        ("content-type", "application/json"),
        ("x-fake-call", "1"),
        ("x-request-id", "req_1"),
    )
    assert body["choices"][0]["message"]["content"].endswith("echo: one two three")


async def test_chunks_arrive_while_the_server_is_still_answering(
    server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """The first events of a stream can be read before the server has sent the others."""
    resume = asyncio.Event()
    server.queue.append(Script(after_events=2, resume=resume))
    reply = await upstream.send(make_call(stream=True))
    chunks = reply.chunks()
    got = b""
    while got.count(b"data: ") < 2:
        got += await anext(chunks)
    assert b"[DONE]" not in got
    resume.set()
    got += b"".join([chunk async for chunk in chunks])
    await reply.aclose()
    assert got.endswith(b"data: [DONE]\n\n")


async def test_connections_are_kept_and_used_again(
    server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """Sequential calls, streamed or not, share one connection."""
    for stream in (False, True, False, True):
        await read(await upstream.send(make_call(stream=stream)))
    assert server.call_count == 4
    assert server.connection_count == 1


async def test_forward_passes_any_operation_through(
    server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """Requests that are not cached, of any content type, travel the same way."""
    models = await upstream.forward("GET", "models", "", (), b"")
    listed = json.loads(await read(models))
    body = json.dumps({"model": "fake", "input": "text"}).encode()
    json_type = (("content-type", "application/json"),)
    embeddings = await upstream.forward("POST", "embeddings", "", json_type, body)
    vectors = json.loads(await read(embeddings))
    server.queue.append(Script(html=True))
    page = await upstream.forward("GET", "anything", "a=b", (), b"")
    assert listed["object"] == "list"
    assert len(vectors["data"]) == 1
    assert (await read(page)).startswith(b"<html>")
    assert "content-type" not in dict(server.calls[0].headers)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "status_4xx"),
        (401, "status_4xx"),
        (404, "status_4xx"),
        (429, "status_429"),
        (500, "status_5xx"),
        (503, "status_5xx"),
    ],
)
async def test_error_status_is_an_answer_and_an_event(
    status: int, kind: str, upstream: HttpUpstream, events: Events
) -> None:
    """A refusal comes back whole, with its ``retry-after``, is not retried, and is counted."""
    reply = await upstream.send(make_call(f"fake-{status}"))
    body = json.loads(await read(reply))
    assert reply.status == status
    assert body["error"]["code"] == f"fake_{status}"
    assert dict(reply.headers).get("retry-after") == ("7" if status == 429 else None)
    assert dict(reply.headers)["x-fake-call"] == "1"
    assert events.seen == [failure(kind)]


async def test_html_error_page_is_passed_on(upstream: HttpUpstream, server: FakeUpstream) -> None:
    """A proxy's page under an error status is an answer; only a 200 has to be one of ours."""
    server.queue.append(Script(status=503, html=True))
    reply = await upstream.send(make_call())
    assert (await read(reply)).startswith(b"<html>")
    assert reply.status == 503


@pytest.mark.parametrize("fault", [Fault.CLOSE, Fault.RESET])
@pytest.mark.parametrize("stream", [False, True])
async def test_broken_body_raises_after_what_came(
    fault: Fault,
    stream: bool,  # noqa: FBT001  (a parametrized value)
    upstream: HttpUpstream,
    server: FakeUpstream,
    events: Events,
) -> None:
    """A body that ends early is never mistaken for a whole one, and is not asked for again."""
    server.scripts["fake"] = Script(fault=fault)
    reply = await upstream.send(make_call(stream=stream))
    with pytest.raises(UpstreamBroken, match="main broke off its answer"):
        await read(reply)
    assert server.call_count == 1
    assert events.seen == [failure("broken")]


@pytest.mark.parametrize("fault", [Fault.NO_REPLY, Fault.NOT_HTTP])
async def test_no_http_reply_raises_broken(
    fault: Fault, upstream: HttpUpstream, server: FakeUpstream, events: Events
) -> None:
    """On a new connection the server took the request: it is not sent a second time."""
    server.scripts["fake"] = Script(fault=fault)
    with pytest.raises(UpstreamBroken, match="main broke off, or did not speak HTTP"):
        await upstream.send(make_call())
    assert server.call_count == 1
    assert events.seen == [failure("broken")]


async def test_errors_quote_neither_key_nor_answer(
    server: FakeUpstream, make_upstream: MakeUpstream
) -> None:
    """What is told of a failure can be logged: no secret of ours, no text of the server's."""
    upstream = make_upstream(server.base_url, api_key="our-secret")
    with pytest.raises(UpstreamBroken) as caught:
        await upstream.send(make_call("fake-not-http"))
    told = "".join(traceback.format_exception(caught.value))
    assert "our-secret" not in told
    assert "this is not HTTP" not in told


async def test_page_in_place_of_an_answer_raises_broken(
    upstream: HttpUpstream, events: Events
) -> None:
    """A 200 that is neither JSON nor events, such as a login page, is not an answer."""
    with pytest.raises(UpstreamBroken, match="main answered text/html"):
        await upstream.send(make_call("fake-html"))
    assert events.seen == [failure("broken")]


async def test_garbage_inside_a_well_framed_body_is_passed_on(upstream: HttpUpstream) -> None:
    """What the bytes mean is judged where they are parsed, not here."""
    reply = await upstream.send(make_call("fake-garbage", stream=True))
    assert (await read(reply)).endswith(b"oops\n\n")


async def test_silent_server_times_out_on_the_first_byte(
    server: FakeUpstream, make_upstream: MakeUpstream, events: Events
) -> None:
    """No head in time is a timeout that says so, and the server is let go."""
    upstream = make_upstream(server.base_url, first_byte_timeout_seconds=0.05)
    with pytest.raises(UpstreamTimeout, match=r"main gave no reply within 0\.05 s"):
        await upstream.send(make_call("fake-silent"))
    await server.calls[0].abandoned.wait()
    assert server.call_count == 1
    assert events.seen == [failure("timeout")]


@pytest.mark.parametrize("stream", [False, True])
async def test_hanging_body_times_out_between_chunks(
    stream: bool,  # noqa: FBT001  (a parametrized value)
    server: FakeUpstream,
    make_upstream: MakeUpstream,
    events: Events,
) -> None:
    """A body that stops is a timeout that says so, and the server is let go."""
    upstream = make_upstream(server.base_url, chunk_timeout_seconds=0.05)
    reply = await upstream.send(make_call("fake-hang", stream=stream))
    with pytest.raises(UpstreamTimeout, match=r"main sent no next chunk within 0\.05 s"):
        await read(reply)
    await server.calls[0].abandoned.wait()
    assert events.seen == [failure("timeout")]


async def test_unanswered_connection_times_out(make_upstream: MakeUpstream, events: Events) -> None:
    """A host that does not answer the handshake is a timeout that says so."""
    with silent() as full:
        address = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        upstream = make_upstream(address, connect_timeout_seconds=0.05)
        with pytest.raises(UpstreamConnectTimeout, match=r"main gave no connection within 0\.05 s"):
            await upstream.send(make_call())
    assert events.seen == [failure("timeout")]


async def test_refused_connection_is_unreachable_after_retries(
    make_upstream: MakeUpstream, events: Events
) -> None:
    """Nobody listens: the error says so, once, after the tries that are safe."""
    async with FakeUpstream() as gone:
        upstream = make_upstream(gone.base_url)
    with pytest.raises(UpstreamUnreachable, match="main cannot be reached"):
        await upstream.send(make_call())
    assert events.seen == [failure("unreachable")]


async def test_refused_connection_is_tried_again(
    make_upstream: MakeUpstream, events: Events
) -> None:
    """A server that comes back between two tries answers, and nothing is counted as failed."""
    server = FakeUpstream()
    async with server:
        upstream = make_upstream(server.base_url)
    sending = asyncio.create_task(upstream.send(make_call()))
    await asyncio.sleep(0.02)  # lets the first try fail; were it slower, it would succeed
    async with server:
        reply = await sending
        await read(reply)
    assert reply.status == 200
    assert server.call_count == 1
    assert events.seen == []


async def test_closing_a_reply_early_makes_the_server_stop(
    server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """A reply that is closed unread drops its connection; the next call gets its own answer."""
    reply = await upstream.send(make_call("fake-hang", stream=True))
    await anext(reply.chunks())
    await reply.aclose()
    await server.calls[0].abandoned.wait()
    answer = json.loads(await read(await upstream.send(make_call(seed=1))))
    assert answer["choices"][0]["message"]["content"].endswith("echo: one two three")


async def test_cancelling_a_call_makes_the_server_stop(
    server: FakeUpstream, upstream: HttpUpstream, events: Events
) -> None:
    """A caller who leaves before the head takes the upstream's work along; that is no failure."""
    sending = asyncio.create_task(upstream.send(make_call("fake-silent")))
    await server.wait_for_calls(1)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await server.calls[0].abandoned.wait()
    assert events.seen == []


async def test_concurrent_calls_get_their_own_answers(upstream: HttpUpstream) -> None:
    """Fifty calls at once, a third of them abandoned, never mix their answers."""

    async def ask(number: int) -> str:
        question = [{"role": "user", "content": f"question {number}"}]
        stream = number % 3 == 0
        reply = await upstream.send(make_call(messages=question, stream=stream))
        if stream:
            await reply.aclose()
            return f"question {number}"
        body = json.loads(await read(reply))
        return str(body["choices"][0]["message"]["content"]).partition("echo: ")[2]

    answers = await asyncio.gather(*(ask(number) for number in range(50)))
    assert answers == [f"question {number}" for number in range(50)]


async def test_huge_answer_passes_whole(upstream: HttpUpstream) -> None:
    """An answer of megabytes arrives complete, though nobody holds it in one piece."""
    reply = await upstream.send(make_call("fake-huge"))
    content = json.loads(await read(reply))["choices"][0]["message"]["content"]
    assert content.split()[-1] == "word199999"
