"""Which class a request belongs to, and the gates between an answer and the store."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from support.gateway import Gateway, StartGateway, question
from support.metrics import reaches, total

from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script


async def class_of(gateway: Gateway, **fields: Any) -> str:
    """Ask for something new; return the class it was counted under."""
    text = fields.pop("text", "the question")
    before = await _by_class(gateway)
    assert (await gateway.ask(text, cache={"no-cache": True}, **fields)).status == 200
    after = await _by_class(gateway)
    (name,) = [name for name in after if after[name] != before.get(name, 0)]
    return name


async def _by_class(gateway: Gateway) -> dict[str, float]:
    names = ["general", "translation", "formatting", "faq", "code", "realtime", "factual", "mine"]
    return {
        name: await total(gateway, "stepwell_requests_total", **{"class": name}) for name in names
    }


def named(name: str, where: str) -> dict[str, Any]:
    """Return how a request names its class."""
    if where == "header":
        return {"headers": {"x-stepwell-class": name}}
    return {"metadata": {"stepwell_class": name}}


@pytest.mark.parametrize("where", ["header", "metadata"])
async def test_the_request_names_its_class(
    gateway: Gateway, upstream: FakeUpstream, where: str
) -> None:
    """Whatever the text looks like; the model server does not hear of it."""
    assert await class_of(gateway, text="Translate to German: hi", **named("code", where)) == "code"
    received = upstream.calls[-1]
    assert b"stepwell" not in received.body
    assert all(not name.startswith("x-stepwell") for name, _ in received.headers)


async def test_header_and_body_may_agree_but_not_differ(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Two classes for one request are a mistake."""
    both = {**named("code", "header"), **named("code", "metadata")}
    assert await class_of(gateway, **both) == "code"
    both = {**named("code", "header"), **named("faq", "metadata")}
    assert (await gateway.ask("hi", **both)).status == 400
    assert upstream.call_count == 1


@pytest.mark.parametrize("where", ["header", "metadata"])
async def test_an_unknown_class_is_refused(
    start_gateway: StartGateway, upstream: FakeUpstream, where: str
) -> None:
    """With the names that exist, the operator's own among them."""
    async with start_gateway(classes={"mine": {"ttl_seconds": 60}}) as gateway:
        answer = await gateway.ask("hi", **named("mnie", where))
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (400, "unknown_request_class")
    assert "'mnie'" in error["message"]
    assert error["message"].endswith(
        "code, factual, faq, formatting, general, mine, realtime, translation"
    )
    assert upstream.call_count == 0


SYSTEM = "You answer in one word."
ROUTES: list[dict[str, Any]] = [
    {"class": "mine", "system_sha256": hashlib.sha256(SYSTEM.encode()).hexdigest()},
    {"class": "faq", "model": "fake-v*", "pattern": "(?i)refund"},
    {"class": "realtime", "model": "fake-vllm"},
    {"class": "code", "endpoint": "completions"},
]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "fake-vllm", "text": "About my REFUND"}, "faq"),
        ({"model": "fake-vllm"}, "realtime"),
        ({"text": "About my refund"}, "general"),
        ({"model": "fake-vllm", **named("mine", "header")}, "mine"),
        (
            {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "?"}]},
            "mine",
        ),
    ],
    ids=str,
)
async def test_the_operators_routes_choose(
    start_gateway: StartGateway, fields: dict[str, Any], expected: str
) -> None:
    """The first that fits, unless the request itself says."""
    settings = {"classes": {"mine": {"ttl_seconds": 60}}, "routes": ROUTES}
    async with start_gateway(**settings) as gateway:
        assert await class_of(gateway, **fields) == expected


async def test_a_route_may_be_for_one_endpoint(start_gateway: StartGateway) -> None:
    """Here, everything that is a plain completion."""
    settings = {"classes": {"mine": {"ttl_seconds": 60}}, "routes": ROUTES}
    async with start_gateway(**settings) as gateway:
        await gateway.post({"model": "fake", "prompt": "hi"}, path="/v1/completions")
        assert await total(gateway, "stepwell_requests_total", **{"class": "code"}) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Translate into German: Good morning, everybody.", "translation"),
        ("What is the weather in Paris right now?", "realtime"),
        ("How do I get a refund?", "faq"),
        ("def f(x):\n    return x + 1\n", "code"),
        ("Tell me something.", "general"),
    ],
)
async def test_the_classifier_suggests_the_rest(gateway: Gateway, text: str, expected: str) -> None:
    """Where nobody else says anything."""
    assert await class_of(gateway, text=text) == expected


async def test_a_class_that_is_never_cached_is_passed_on(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Neither looked up nor stored nor shared, and the reply says so."""
    for _ in range(2):
        answer = await gateway.ask("the question", **named("factual", "header"))
        assert answer.headers["x-stepwell-bypass"] == "class factual"
        assert answer.cache_status == 'stepwell; fwd=bypass; detail="class factual"'
    assert upstream.call_count == 2
    refused = {"gate": "class_never", "class": "factual"}
    assert await total(gateway, "stepwell_fill_refused_total", **refused) == 2
    # The same question under another class has an entry of its own.
    assert (await gateway.ask("the question")).headers["x-cache"] == "MISS"


BYPASSED: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/chat/completions", question("hi", web_search_options={}), "web_search_options"),
    ("/v1/chat/completions", question("hi", store=True), "store"),
    ("/v1/responses", {"model": "fake", "input": "hi", "background": True}, "background"),
    (
        "/v1/responses",
        {"model": "fake", "input": "hi", "previous_response_id": "resp_1"},
        "previous_response_id",
    ),
    (
        "/v1/responses",
        {"model": "fake", "input": "hi", "tools": [{"type": "web_search"}]},
        "hosted_tool",
    ),
]


@pytest.mark.parametrize(("path", "body", "reason"), BYPASSED, ids=str)
async def test_what_asks_for_more_than_an_answer_is_passed_on(
    gateway: Gateway, upstream: FakeUpstream, path: str, body: dict[str, Any], reason: str
) -> None:
    """Every time, with the reason; no gate is counted, as none was asked."""
    for _ in range(2):
        answer = await gateway.post(body, path=path)
        assert (answer.status, answer.headers["x-stepwell-bypass"]) == (200, reason)
    assert upstream.call_count == 2
    assert await total(gateway, "stepwell_fill_refused_total") == 0
    assert await total(gateway, "stepwell_requests_total", outcome="bypass") == 2


GATES: dict[str, tuple[Script, dict[str, Any]]] = {
    "no_store": (Script(), {"cache": {"no-store": True}}),
    "ttl": (Script(), {"cache": {"ttl": 0}}),
    "status": (Script(status=500), {}),
    "incomplete": (Script(fault=Fault.GARBAGE), {}),
    "empty": (Script(words=0), {}),
    "filtered": (Script(finish_reason="content_filter"), {}),
    "truncated": (Script(words=150, finish_reason="length"), {}),
    "too_large": (Script(words=200_000), {}),
}


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_gate_keeps_an_answer_out(
    gateway: Gateway, upstream: FakeUpstream, gate: str, *, stream: bool
) -> None:
    """Each is counted once by its name; the caller has the answer all the same."""
    script, fields = GATES[gate]
    if stream:
        fields = {**fields, "stream": True}
        # Events are many times as long as the words in them.
        script = replace(script, words=script.words and script.words // 30)
    upstream.scripts["fake"] = script
    answer = await gateway.ask("the question", **fields)
    refused = {"gate": gate, "class": "general"}
    await reaches(gateway, "stepwell_fill_refused_total", 1, **refused)
    assert await total(gateway, "stepwell_fill_refused_total") == 1
    assert await total(gateway, "stepwell_stored_total") == 0
    assert answer.status == script.status
    if not stream:
        assert answer.cache_status == "stepwell; fwd=miss"

    upstream.scripts["fake"] = Script()
    assert (await gateway.ask("the question")).headers["x-cache"] == "MISS"


async def test_a_class_may_store_truncated_answers(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Where the operator says so."""
    upstream.scripts["fake"] = Script(words=5, finish_reason="length")
    async with start_gateway(classes={"general": {"store_truncated": True}}) as gateway:
        seen = [(await gateway.ask("hi")).headers["x-cache"] for _ in range(2)]
    assert seen == ["MISS", "HIT"]


async def test_a_class_bounds_the_size_of_its_answers(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """To the byte; a stream, which is longer on the wire, by its own length."""
    size = len((await _direct(upstream)).encode())
    for max_bytes, expected in ((size, "HIT"), (size - 1, "MISS")):
        settings = {"classes": {"general": {"max_answer_bytes": max_bytes}}}
        async with start_gateway(**settings) as gateway:
            await gateway.ask("hi", key=f"sk-{max_bytes}")
            again = await gateway.ask("hi", key=f"sk-{max_bytes}")
            assert again.headers["x-cache"] == expected


async def _direct(upstream: FakeUpstream) -> str:

    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{upstream.base_url}/chat/completions", json=question("hi")) as reply,
    ):
        return await reply.text()
