"""Model servers that fail in every way: callers hear what happened, and nothing wrong is kept."""

import asyncio
import json
from typing import Any

import pytest
from support.gateway import Answer, Gateway, StartGateway, question
from support.metrics import reaches, total
from support.raw_http import error_of

from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script

NO_DISK = {"disk": {"enabled": False}}
"""Then a request that is being answered has looked everything up."""
WHOLE: dict[str, Any] = {}
STREAMED = {"stream": True}
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}
FORMS = pytest.mark.parametrize(
    "form", [WHOLE, STREAMED, WITH_USAGE], ids=["whole", "stream", "usage"]
)
STREAMS = pytest.mark.parametrize("form", [STREAMED, WITH_USAGE], ids=["stream", "usage"])
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": question("hi"),
    "/v1/completions": {"model": "fake", "prompt": "hi"},
    "/v1/responses": {"model": "fake", "input": "hi"},
}


async def assert_nothing_was_kept(
    gateway: Gateway,
    upstream: FakeUpstream,
    body: dict[str, Any],
    path: str = "/v1/chat/completions",
) -> None:
    """Check that the same question is asked again, and then answered well and from the cache."""
    calls = upstream.call_count
    again = await gateway.post(body, path=path)
    repeat = await gateway.post(body, path=path)
    assert (again.status, upstream.call_count) == (200, calls + 1)
    assert [answer.headers["x-cache"] for answer in (again, repeat)] == ["MISS", "HIT"]
    assert b"echo: " in again.body
    assert repeat.body == again.body


@FORMS
async def test_an_error_status_is_the_callers(
    gateway: Gateway, upstream: FakeUpstream, form: dict[str, Any]
) -> None:
    """Status, body and Retry-After reach it unchanged, and the next caller asks again."""
    for status in (400, 401, 404, 422, 429, 500, 503):
        script = Script(status=status, retry_after_seconds=7)
        body = question(f"What is {status}?", **form)
        upstream.queue.append(script)
        async with gateway.http.post(upstream.base_url + "/chat/completions", json=body) as reply:
            direct = await reply.read()

        asked_twice = status in {400, 422} and form == STREAMED  # Once with stream_options.
        upstream.queue += [script] * (2 if asked_twice else 1)
        answer = await gateway.post(body)
        assert (answer.status, answer.body) == (status, direct)
        assert answer.headers["retry-after"] == "7"
        assert answer.headers["content-type"] == "application/json"
        assert answer.cache_status == "stepwell; fwd=miss"
        await assert_nothing_was_kept(gateway, upstream, body)


NO_ANSWERS = {
    "no reply": (Script(fault=Fault.NO_REPLY), 502, "upstream_broken"),
    "not HTTP": (Script(fault=Fault.NOT_HTTP), 502, "upstream_broken"),
    "silent": (Script(fault=Fault.SILENT), 504, "upstream_timeout"),
    "web page": (Script(html=True), 502, "upstream_broken"),
}


@FORMS
async def test_what_is_no_answer_is_a_bad_gateway(
    start_gateway: StartGateway, upstream: FakeUpstream, form: dict[str, Any]
) -> None:
    """In OpenAI's form, without a word about addresses."""
    async with start_gateway(upstreams=impatient(upstream)) as gateway:
        for name, (script, status, code) in NO_ANSWERS.items():
            body = question(name, **form)
            upstream.queue.append(script)
            answer = await gateway.post(body)
            assert (answer.status, error_of(answer)["code"]) == (status, code)
            assert error_of(answer)["type"] == "upstream_error"
            assert b"127.0.0.1" not in answer.body
            await assert_nothing_was_kept(gateway, upstream, body)


def impatient(upstream: FakeUpstream) -> dict[str, Any]:
    timeouts = {"first_byte_timeout_seconds": 0.3, "chunk_timeout_seconds": 0.3}
    return {"fake": {"base_url": upstream.base_url, **timeouts}}


async def test_a_web_page_with_an_error_status_is_passed_on(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """It is some proxy's, and tells more than we know."""
    upstream.queue.append(Script(html=True, status=503))
    answer = await gateway.ask("hi")
    assert (answer.status, answer.headers["content-type"]) == (503, "text/html")
    assert answer.body.startswith(b"<html>")
    await assert_nothing_was_kept(gateway, upstream, question("hi"))


async def test_a_server_that_is_down_is_a_bad_gateway(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Until it is up again; what is cached is served meanwhile."""
    async with start_gateway() as gateway:
        cached = await gateway.ask("cached")
        await upstream.__aexit__()
        for path in ("/v1/chat/completions", "/v1/embeddings"):
            answer = await gateway.post(question("hi"), path=path)
            assert (answer.status, error_of(answer)["code"]) == (502, "upstream_unreachable")
        listed = await gateway.get("/v1/models", {"authorization": "Bearer sk-test"})
        assert (listed.status, error_of(listed)["code"]) == (502, "upstream_unreachable")
        assert (await gateway.ask("cached")).body == cached.body
        await upstream.__aenter__()
        assert (await gateway.ask("hi")).status == 200


BREAKS = {
    Fault.CLOSE: (502, "upstream_broken"),
    Fault.RESET: (502, "upstream_broken"),
    Fault.HANG: (504, "upstream_timeout"),
}


@pytest.mark.parametrize("path", BODIES)
async def test_an_answer_that_breaks_off(
    start_gateway: StartGateway, upstream: FakeUpstream, path: str
) -> None:
    """A whole one becomes an error; a stream ends with an error event, and not as if complete."""
    async with start_gateway(upstreams=impatient(upstream)) as gateway:
        for fault, (status, code) in BREAKS.items():
            body = {**BODIES[path], "user": fault.name}
            upstream.queue += [Script(fault=fault)] * 2
            whole = await gateway.post(body, path=path)
            assert (whole.status, error_of(whole)["code"]) == (status, code)
            stream = await gateway.post({**body, **STREAMED}, path=path)
            assert stream.status == 200
            *events, last = events_of(stream)
            assert len(events) == 2
            assert last["error"]["code"] == code
            assert b"[DONE]" not in stream.body
            assert b"response.completed" not in stream.body
            await assert_nothing_was_kept(gateway, upstream, {**body, **STREAMED}, path)
        assert await total(gateway, "stepwell_requests_total", outcome="error") == 6


def events_of(answer: Answer) -> list[dict[str, Any]]:
    """Return the JSON of all events, which must be well-formed, ``[DONE]`` left out."""
    datas = [
        line.removeprefix("data: ")
        for event in answer.body.decode().split("\n\n")
        for line in event.split("\n")
        if line.startswith("data: ")
    ]
    return [json.loads(data) for data in datas if data != "[DONE]"]


@STREAMS
async def test_a_bad_stream_is_passed_on_and_not_kept(
    gateway: Gateway, upstream: FakeUpstream, form: dict[str, Any]
) -> None:
    """What ended as HTTP has it is the caller's to judge, byte for byte."""
    for fault in (Fault.GARBAGE, Fault.ERROR_EVENT, Fault.NO_DONE):
        body = question(fault.name, **form)
        upstream.queue += [Script(fault=fault)] * 2
        async with gateway.http.post(upstream.base_url + "/chat/completions", json=body) as reply:
            direct = await reply.read()
        assert (await gateway.post(body)).body == direct
        await assert_nothing_was_kept(gateway, upstream, body)


async def test_half_an_answer_is_not_kept(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Even where its framing says that it is whole."""
    upstream.queue.append(Script(fault=Fault.GARBAGE))
    answer = await gateway.ask("hi")
    assert answer.status == 200
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.body)
    await assert_nothing_was_kept(gateway, upstream, question("hi"))


async def test_what_a_server_says_unasked_is_nobodys_answer(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """A second reply to one request must not answer the next one."""
    upstream.queue.append(Script(fault=Fault.TRAILING))
    answers = [await gateway.ask(text) for text in ("one", "two", "three")]
    for answer, text in zip(answers, ("one", "two", "three"), strict=True):
        assert f"echo: {text}".encode() in answer.body
        assert (answer.status, answer.headers["x-cache"]) == (200, "MISS")


@FORMS
async def test_an_empty_answer_is_not_kept(
    gateway: Gateway, upstream: FakeUpstream, form: dict[str, Any]
) -> None:
    """It is most likely a fault, and worth asking again."""
    body = question("hi", **form)
    upstream.queue.append(Script(words=0))
    assert (await gateway.post(body)).status == 200
    await assert_nothing_was_kept(gateway, upstream, body)


@FORMS
async def test_a_truncated_answer_is_kept_where_the_class_says_so(
    start_gateway: StartGateway, upstream: FakeUpstream, form: dict[str, Any]
) -> None:
    """By default it is not: the caller's limit is seldom what the next one wants."""
    body = question("hi", model="fake-length", **form)
    async with start_gateway() as gateway:
        for _ in range(2):
            assert (await gateway.post(body)).headers["x-cache"] == "MISS"
    async with start_gateway(classes={"general": {"store_truncated": True}}) as gateway:
        first = await gateway.post(body)
        second = await gateway.post(body)
    assert (first.headers["x-cache"], second.headers["x-cache"]) == ("MISS", "HIT")
    assert second.body == first.body


@pytest.mark.parametrize("max_answer_bytes", [64, 8_000])
async def test_an_answer_that_is_too_large_is_passed_on_and_not_kept(
    start_gateway: StartGateway, upstream: FakeUpstream, max_answer_bytes: int
) -> None:
    """Byte for byte, to all who asked for it at the same time."""
    upstream.scripts["large"] = Script(words=1_000)
    classes = {"general": {"max_answer_bytes": max_answer_bytes}}
    async with start_gateway(classes=classes) as gateway:
        for form in (WHOLE, STREAMED, WITH_USAGE):
            body = question("hi", model="large", user=str(form), **form)
            url = upstream.base_url + "/chat/completions"
            async with gateway.http.post(url, json=body) as reply:
                direct = await reply.read()
            assert len(direct) > max_answer_bytes
            answers = await asyncio.gather(*[gateway.post(body) for _ in range(3)])
            answers.append(await gateway.post(body))
            assert [answer.body for answer in answers] == [direct] * 4
            assert answers[-1].headers["x-cache"] == "MISS"


async def test_an_answer_of_10_megabytes_is_passed_on(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """It is not even held until it is whole."""
    upstream.scripts["huge"] = Script(words=800_000)
    answer = await gateway.ask("hi", model="huge")
    assert len(answer.body) > 8 << 20
    assert json.loads(answer.body)["choices"][0]["message"]["content"].endswith("word799999 ")
    assert await total(gateway, "stepwell_stored_total") == 0


async def test_who_waited_for_a_call_that_failed_asks_for_itself(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """One who asked gets the error; the others share a second call."""
    async with start_gateway(stores=NO_DISK) as gateway:
        answers = await ask_together(gateway, upstream, 5, question("hi"), Fault.NO_REPLY)
    assert sorted(answer.status for answer in answers) == [200] * 4 + [502]
    assert upstream.call_count == 2


async def test_a_stream_that_breaks_does_so_for_all_who_read_it(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Nobody takes its part for the whole."""
    body = question("hi", **STREAMED)
    async with start_gateway(stores=NO_DISK) as gateway:
        for answer in await ask_together(gateway, upstream, 3, body, Fault.RESET):
            assert events_of(answer)[-1]["error"]["code"] == "upstream_broken"
            assert b"[DONE]" not in answer.body
        assert upstream.call_count == 1
        await assert_nothing_was_kept(gateway, upstream, body)


async def ask_together(
    gateway: Gateway, upstream: FakeUpstream, count: int, body: dict[str, Any], fault: Fault
) -> list[Answer]:
    """Ask the same several times, so that all wait for one call, which then fails."""
    hold = asyncio.Event()
    upstream.queue.append(Script(hold=hold, fault=fault))
    asking = [asyncio.create_task(gateway.post(body)) for _ in range(count)]
    await reaches(gateway, "stepwell_in_flight", count)
    hold.set()
    return await asyncio.gather(*asking)
