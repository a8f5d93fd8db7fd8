"""What a client sees of the engine, by its HTTP application alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from integration.torch_engine.conftest import MakeParts
from support.torch_models import CONTEXT_TOKENS, write_tiny_model

from stepwell.assembly.torch_parts import TorchParts
from stepwell.engines.torch.loading import load

CHAT = "/v1/chat/completions"
KEY = {"authorization": "Bearer key"}


def chat(text: str = "Say it.", **members: Any) -> dict[str, Any]:
    system = {"role": "system", "content": "You are kind. " * 30}
    messages = [system, {"role": "user", "content": text}]
    return {"model": "tiny", "messages": messages, "max_tokens": 6, "temperature": 0, **members}


@pytest.fixture
def parts(make_parts: MakeParts) -> TorchParts:
    return make_parts()


@pytest.fixture
async def client(parts: TorchParts) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(parts.app.asgi)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://engine", headers=KEY
    ) as opened:
        yield opened


async def test_repeat_says_what_was_cached(client: httpx.AsyncClient) -> None:
    first = (await client.post(CHAT, json=chat())).json()
    second = (await client.post(CHAT, json=chat())).json()
    usage = second["usage"]
    assert first["choices"] == second["choices"]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    expected = (usage["prompt_tokens"] - 1) // 16 * 16
    assert usage["prompt_tokens_details"]["cached_tokens"] == expected
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize(
    ("path", "body"),
    [(CHAT, chat()), ("/v1/completions", {"model": "tiny", "prompt": "the", "max_tokens": 9})],
)
async def test_stream_joins_to_the_whole_answer(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    seeded = {**body, "temperature": 1, "seed": 3}
    whole = (await client.post(path, json=seeded)).json()
    asked = {**seeded, "stream": True, "stream_options": {"include_usage": True}}
    lines = (await client.post(path, json=asked)).text.strip().split("\n\n")
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    choices = [choice for event in events for choice in event["choices"]]
    if path == CHAT:
        text = "".join(choice["delta"].get("content", "") for choice in choices)
        assert text == whole["choices"][0]["message"]["content"]
    else:
        assert "".join(choice["text"] for choice in choices) == whole["choices"][0]["text"]
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert events[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]


async def test_answer_ends_before_a_stop_text(client: httpx.AsyncClient) -> None:
    body = {"model": "tiny", "prompt": "abc", "max_tokens": 40, "seed": 5}
    whole = (await client.post("/v1/completions", json=body)).json()["choices"][0]["text"]
    middle = len(whole) // 2
    stop = whole[middle : middle + 3]
    cut = (await client.post("/v1/completions", json={**body, "stop": stop})).json()["choices"][0]
    assert cut["text"] == whole[: whole.index(stop)]
    assert cut["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"model": "other"}, 404, "model"),
        ({"model": 5}, 400, "model"),
        ({"temperature": "hot"}, 400, "temperature"),
        ({"temperature": 2.5}, 400, "temperature"),
        ({"top_p": 0}, 400, "top_p"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": 1 << 40}, 400, "max_tokens"),
        ({"seed": 1 << 70}, 400, "seed"),
        ({"stop": ["a"] * 17}, 400, "stop"),
        ({"stop": ""}, 400, "stop"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "user"}]}, 400, "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, None),
        ({"messages": [{"role": "user", "content": None}]}, 400, "messages[0]"),
        ({"messages": [{"role": "tool", "tool_call_id": "1"}]}, 400, "messages[0]"),
        ({"messages": [{"role": "user", "content": "a " * 32_000}]}, 400, None),
        ({"cache_salt": ""}, 400, "cache_salt"),
        ({"n": 2}, 400, "n"),
        ({"tools": [{"type": "function"}]}, 400, "tools"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format"),
        ({"logprobs": True}, 400, "logprobs"),
    ],
)
async def test_what_cannot_be_done_is_told(
    client: httpx.AsyncClient, change: dict[str, Any], status: int, param: str | None
) -> None:
    """Each with the member at fault, streamed or not; nothing is computed."""
    for stream in (False, True):
        reply = await client.post(CHAT, json=chat(**{**change, "stream": stream}))
        error = reply.json()["error"]
        assert reply.status_code == status
        if param is not None:
            assert error["param"] == param


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"model": "tiny"}'])
async def test_bodies_that_are_no_requests(client: httpx.AsyncClient, body: bytes) -> None:
    assert (await client.post(CHAT, content=body)).status_code == 400
    assert (await client.post("/tokenize", content=body)).status_code == 400


async def test_too_large_a_body_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post(CHAT, content=b" " * (17 << 20))).status_code == 413


async def test_what_no_context_could_hold_is_refused_unread(client: httpx.AsyncClient) -> None:
    """Encoding it would take seconds and gigabytes, of which others wait for their turn."""
    text = "a" * (2048 * 64)
    for path, body in (
        (CHAT, chat(messages=[{"role": "user", "content": text}])),
        ("/v1/completions", {"model": "tiny", "prompt": text}),
        ("/tokenize", {"model": "tiny", "prompt": text}),
    ):
        reply = await client.post(path, json=body)
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert error["code"] == "context_length_exceeded"
        assert "characters" in error["message"]


async def test_neutral_values_are_no_fault(client: httpx.AsyncClient) -> None:
    """Clients send defaults along; members of no meaning here are ignored."""
    body = chat(n=1, presence_penalty=0, logprobs=False, tools=None, user="u", metadata={"a": "b"})
    assert (await client.post(CHAT, json=body)).status_code == 200


async def test_routes_and_keys(client: httpx.AsyncClient) -> None:
    assert (await client.get("/health", headers={"authorization": ""})).status_code == 200
    for wrong in ("", "Bearer other", "key"):
        reply = await client.post(CHAT, json=chat(), headers={"authorization": wrong})
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
    models = (await client.get("/v1/models")).json()["data"]
    assert [(one["id"], one["max_model_len"]) for one in models] == [("tiny", CONTEXT_TOKENS)]
    assert (await client.get("/v1/nowhere")).status_code == 404
    assert (await client.get(CHAT)).status_code == 405


async def test_tokenize_names_the_tokens_that_would_be_computed(
    client: httpx.AsyncClient,
) -> None:
    """A gateway can so foretell what is cached."""
    named = (await client.post("/tokenize", json=chat())).json()
    usage = (await client.post(CHAT, json=chat())).json()["usage"]
    assert named["count"] == len(named["tokens"]) == usage["prompt_tokens"]
    text = (await client.post("/tokenize", json={"prompt": "the"})).json()
    assert text["count"] == 1
    given = {"model": "tiny", "prompt": named["tokens"], "max_tokens": 1}
    again = (await client.post("/v1/completions", json=given)).json()["usage"]
    assert again["prompt_tokens_details"]["cached_tokens"] > 0


async def test_an_answer_of_before_may_have_no_text(client: httpx.AsyncClient) -> None:
    """One that called tools: the model sees that it said nothing. Parts are put together."""

    async def tokens(answer: dict[str, Any]) -> list[int]:
        asked = chat()
        said = [{"role": "assistant", **answer}, {"role": "tool", "content": "4"}]
        body = {**asked, "messages": [*asked["messages"], *said]}
        assert (await client.post(CHAT, json=body)).status_code == 200
        named: list[int] = (await client.post("/tokenize", json=body)).json()["tokens"]
        return named

    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    silent = await tokens({"content": ""})
    assert await tokens({"content": None, "tool_calls": calls}) == silent
    assert await tokens({"tool_calls": calls}) == silent
    parts = [{"type": "text", "text": "Let me "}, {"type": "text", "text": "see."}]
    assert await tokens({"content": parts}) == await tokens({"content": "Let me see."})


async def test_a_beginning_of_the_text_that_is_none_of_the_tokens(
    client: httpx.AsyncClient, make_parts: MakeParts
) -> None:
    """ "t" goes on as "the", one token: what was kept of the end is of no use, and not used."""
    begin, end = "You are kind. " * 30 + "\n", "\nSay it."
    first, second = begin + "t" * 3 + "t", begin + "t" * 3 + "the" + end
    asked = {"model": "tiny", "max_tokens": 8, "temperature": 0}

    async def ask(with_: httpx.AsyncClient, prompt: str) -> tuple[str, int]:
        reply = (await with_.post("/v1/completions", json={**asked, "prompt": prompt})).json()
        cached: int = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
        return reply["choices"][0]["text"], cached

    named = [
        (await client.post("/tokenize", json={"model": "tiny", "prompt": prompt})).json()["tokens"]
        for prompt in (first, second)
    ]
    assert second.startswith(first)
    assert named[1][: len(named[0])] != named[0]
    await ask(client, first)
    said, cached = await ask(client, second)
    same = next(at for at, (one, two) in enumerate(zip(*named, strict=False)) if one != two)
    assert cached == same // 16 * 16
    cold = httpx.ASGITransport(make_parts().app.asgi)
    async with httpx.AsyncClient(transport=cold, base_url="http://engine", headers=KEY) as other:
        assert await ask(other, second) == (said, 0)


async def test_salts_keep_prefixes_apart(client: httpx.AsyncClient) -> None:
    async def cached(**members: str) -> int:
        usage = (await client.post(CHAT, json=chat(**members))).json()["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    assert await cached(cache_salt="a") == 0
    assert await cached(cache_salt="b") == 0
    assert await cached() == 0
    assert await cached(cache_salt="a") > 0


async def test_metrics_tell_what_was_saved(parts: TorchParts, client: httpx.AsyncClient) -> None:
    for _ in range(2):
        await client.post(CHAT, json=chat())
        while parts.answerer.engine.active:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.001)
    text = (await client.get("/metrics")).text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(figures['stepwell_engine_prompt_tokens_total{source="kept"}']) > 0
    assert float(figures['stepwell_kv_bytes{shelf="exact"}']) > 0
    assert float(figures["stepwell_kv_saved_seconds_total"]) > 0
    assert float(figures["stepwell_engine_cache_faults_total"]) == 0


async def test_client_that_leaves_frees_the_engine(parts: TorchParts) -> None:
    """In the middle of an answer that is not streamed, too."""
    sent: list[Any] = []
    left = asyncio.Event()
    scope = {
        "type": "http",
        "method": "POST",
        "path": CHAT,
        "headers": [(name.encode(), value.encode()) for name, value in KEY.items()],
        "query_string": b"",
    }
    body = json.dumps(chat(max_tokens=1000, temperature=1, seed=1)).encode()
    received = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        if (message := next(received, None)) is not None:
            return message
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    serving = asyncio.create_task(parts.app.asgi(scope, receive, send))
    engine = parts.answerer.engine
    while engine.counts.generated_tokens < 3:  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0.001)
    left.set()
    await serving
    while engine.active:  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0.001)
    assert engine.counts.generated_tokens < 900
    assert parts.cache.figures().leases == 0


THINKING = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n"
    "{{ message['content'].split('</think>')[-1] }}<|end|>\n{% endfor %}"
    "<|start|>assistant{{ '\\n' }}"
)
DATED = "{{ strftime_now('%f') }} is the time. " + THINKING


async def turns(parts: TorchParts) -> list[tuple[str, int]]:
    """Return what two turns say, and how much of the second prompt was cached."""
    transport = httpx.ASGITransport(parts.app.asgi)
    said: list[tuple[str, int]] = []
    body = chat(max_tokens=20, seed=1)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://engine", headers=KEY
    ) as client:
        for _ in range(2):
            reply = (await client.post(CHAT, json=body)).json()
            text = reply["choices"][0]["message"]["content"]
            said.append((text, reply["usage"]["prompt_tokens_details"]["cached_tokens"]))
            answer = {"role": "assistant", "content": f"hm</think>{text}"}
            messages = [*body["messages"], answer, {"role": "user", "content": "And?"}]
            body = {**body, "messages": messages}
    return said


async def test_templates_that_change_what_was_said(make_parts: MakeParts, tmp_path: Path) -> None:
    """Think blocks that are left out, and a time at the head, cost reuse and never an answer."""
    for number, (template, least, most) in enumerate(((THINKING, 350, 999), (DATED, 0, 16))):
        folder = write_tiny_model(tmp_path / str(number), template=template)
        model = load(folder, name="tiny", dtype="float32", cache=tmp_path / "digests")
        (_, first), (_, second) = await turns(make_parts(model))
        assert first == 0
        assert least <= second <= most


async def test_template_that_refuses_is_told(make_parts: MakeParts, tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "m", template="{{ raise_exception('no system role') }}")
    model = load(folder, name="tiny", dtype="float32", cache=tmp_path / "digests")
    transport = httpx.ASGITransport(make_parts(model).app.asgi)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://engine", headers=KEY
    ) as client:
        reply = await client.post(CHAT, json=chat())
    assert reply.status_code == 400
    assert "no system role" in reply.json()["error"]["message"]
