"""A repeat is answered from the cache, in whatever shape, and looks as a fresh answer does."""

import json
from typing import Any

import pytest
from support.gateway import Gateway, StartGateway, question

from stepwell.testing.fake_upstream import FakeUpstream

STREAM = {"stream": True}
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": question("How do I get a refund? 如何退款？"),
    "/v1/completions": {"model": "fake", "prompt": "Once upon a time"},
    "/v1/responses": {"model": "fake", "input": "Tell me a story."},
}
PATHS = list(BODIES)


@pytest.mark.parametrize("path", PATHS)
async def test_a_repeat_is_a_hit(gateway: Gateway, upstream: FakeUpstream, path: str) -> None:
    """The model server is asked once; the repeat has the same bytes and says where it is from."""
    first = await gateway.post(BODIES[path], path=path)
    second = await gateway.post(BODIES[path], path=path)

    assert (first.status, first.cache_status) == (200, "stepwell; fwd=miss; stored")
    assert second.status == 200
    assert second.cache_status in {
        f"stepwell; hit; ttl={ttl}; detail=exact" for ttl in (3598, 3599)
    }
    assert second.headers["x-cache"] == "HIT"
    assert int(second.headers["age"]) <= 1
    assert second.headers["content-type"] == first.headers["content-type"]
    assert second.body == first.body
    assert upstream.call_count == 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("asked", [STREAM, WITH_USAGE], ids=["plain", "with usage"])
@pytest.mark.parametrize("model", ["fake", "fake-vllm"])
async def test_streams_are_the_model_servers_own_bytes(
    gateway: Gateway, upstream: FakeUpstream, path: str, asked: dict[str, Any], model: str
) -> None:
    """Missed or hit, a stream is byte for byte what the model server sends a caller itself."""
    extra = STREAM if path == "/v1/responses" else asked
    body = {**BODIES[path], **extra, "model": model}
    async with gateway.http.post(upstream.base_url + path.removeprefix("/v1"), json=body) as reply:
        direct = await reply.read()

    missed = await gateway.post(body, path=path)
    hit = await gateway.post(body, path=path)

    assert missed.body == direct
    assert hit.body == direct
    assert (missed.headers["x-cache"], hit.headers["x-cache"]) == ("MISS", "HIT")
    assert hit.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("path", PATHS)
async def test_an_answer_that_was_streamed_serves_those_who_do_not_stream(
    gateway: Gateway, upstream: FakeUpstream, path: str
) -> None:
    """Both ask for the same, so they share an entry; the JSON equals a fresh one."""
    body = BODIES[path]
    async with gateway.http.post(upstream.base_url + path.removeprefix("/v1"), json=body) as reply:
        direct = await reply.read()

    await gateway.post({**body, **STREAM}, path=path)
    hit = await gateway.post(body, path=path)

    expected = json.loads(direct)
    if path == "/v1/chat/completions":
        # OpenAI writes this empty list into whole answers only; a stream does not tell of it.
        del expected["choices"][0]["message"]["annotations"]
    assert hit.headers["x-cache"] == "HIT"
    assert json.loads(hit.body) == expected


@pytest.mark.parametrize("path", PATHS)
async def test_an_answer_that_was_not_streamed_serves_those_who_stream(
    gateway: Gateway, path: str
) -> None:
    """The events add up to the answer that is stored."""
    body = BODIES[path]
    stored = await gateway.post(body, path=path)
    stream = await gateway.post({**body, **STREAM}, path=path)

    assert stream.headers["x-cache"] == "HIT"
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert b'"usage":{' not in stream.body or path == "/v1/responses"
    assert stream.body.count(b"data: ") >= 3
    text = {
        "/v1/chat/completions": lambda answer: answer["choices"][0]["message"]["content"],
        "/v1/completions": lambda answer: answer["choices"][0]["text"],
        "/v1/responses": lambda answer: answer["output"][0]["content"][0]["text"],
    }[path](json.loads(stored.body))
    deltas = [
        json.loads(line[6:])
        for line in stream.body.decode().splitlines()
        if line.startswith("data: {")
    ]
    streamed = "".join(_delta(path, delta) for delta in deltas)
    assert streamed == text


def _delta(path: str, event: dict[str, Any]) -> str:
    if path == "/v1/responses":
        return str(event["delta"]) if event["type"] == "response.output_text.delta" else ""
    choice = event["choices"][0] if event["choices"] else {}
    if path == "/v1/completions":
        return str(choice.get("text", ""))
    return str(choice.get("delta", {}).get("content") or "")


async def test_a_stream_stored_without_usage_is_a_miss_for_who_needs_it(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """A server that refuses ``stream_options`` still serves; nothing is made up."""
    body = question("hello", model="fake-no-stream-options")
    streamed = await gateway.post({**body, **STREAM})
    again = await gateway.post({**body, **STREAM})
    whole = await gateway.post(body)

    assert [answer.headers["x-cache"] for answer in (streamed, again, whole)] == [
        "MISS",
        "HIT",
        "MISS",
    ]
    assert json.loads(whole.body)["usage"]["total_tokens"] > 0
    assert (await gateway.post(body)).headers["x-cache"] == "HIT"


@pytest.mark.parametrize(
    "same",
    [
        {"temperature": 1},
        {"top_p": 1.0, "n": 1, "presence_penalty": 0},
        {"stop": None},
        {"messages": [{"content": " hi\r\n", "role": "user"}]},
    ],
)
async def test_the_same_meaning_is_a_hit(gateway: Gateway, same: dict[str, Any]) -> None:
    """Defaults, order and blanks around a text do not matter."""
    await gateway.ask("hi")
    assert (await gateway.post({**question("hi"), **same})).headers["x-cache"] == "HIT"


@pytest.mark.parametrize(
    "other",
    [
        {"model": "fake-vllm"},
        {"temperature": 0},
        {"seed": 1},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"response_format": {"type": "json_object"}},
        {"invented": 1},
        {"messages": [{"role": "system", "content": "hi"}]},
        {"messages": [{"role": "user", "content": "Hi"}]},
    ],
)
async def test_another_meaning_is_a_miss(gateway: Gateway, other: dict[str, Any]) -> None:
    """Whatever may change the answer is asked anew."""
    await gateway.ask("hi")
    assert (await gateway.post({**question("hi"), **other})).headers["x-cache"] == "MISS"


async def test_entries_survive_a_restart(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """What one run stored, the next one serves."""
    async with start_gateway() as gateway:
        first = await gateway.ask("hi")
    async with start_gateway() as gateway:
        second = await gateway.ask("hi")
    assert (second.headers["x-cache"], second.body) == ("HIT", first.body)
    assert upstream.call_count == 1


async def test_two_gateways_share_a_data_directory(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """What one stores, the other finds."""
    async with start_gateway() as one, start_gateway() as other:
        await one.ask("hi")
        await one.settle()
        assert (await other.ask("hi")).headers["x-cache"] == "HIT"
    assert upstream.call_count == 1


async def test_configurations_that_differ_in_their_keys_share_no_entry(
    start_gateway: StartGateway,
) -> None:
    """One that folds case must not fill the store of one that does not."""
    folding = {"exact": {"normalize": ["newlines", "trim", "fold"]}}
    async with start_gateway(**folding) as loose, start_gateway() as strict:
        await loose.ask("HELLO")
        assert (await loose.ask("hello?")).headers["x-cache"] == "HIT"
        assert (await strict.ask("hello")).headers["x-cache"] == "MISS"


async def test_unknown_fields_and_controls(gateway: Gateway, upstream: FakeUpstream) -> None:
    """What is not ours reaches the model server; what is ours does not."""
    body = question("hi", invented={"deep": [1, 2.5]}, cache={"ttl": 60}, metadata={"a": "b"})
    answer = await gateway.post(body)
    assert answer.status == 200
    sent = upstream.calls[-1].json()
    assert sent["invented"] == {"deep": [1, 2.5]}
    assert sent["metadata"] == {"a": "b"}
    assert "cache" not in sent
