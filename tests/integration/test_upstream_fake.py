"""The fake upstream speaks OpenAI's protocol as OpenAI's own client reads it, and fails as told."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import aiohttp
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from stepwell.testing.fake_prefixes import FakePrefixCache
from stepwell.testing.fake_upstream import FakeUpstream, Script

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "one two"}]


@pytest.fixture
async def server() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as running:
        yield running


@pytest.fixture
async def client(server: FakeUpstream) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=0) as made:
        yield made


async def exchange(server: FakeUpstream, body: bytes) -> bytes:
    """Return the raw streamed reply to a chat request."""
    port = int(server.base_url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    raw = await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()
    return raw


async def test_chat_is_read_by_openais_client(client: openai.AsyncOpenAI) -> None:
    """The answer echoes the question; every choice that was asked for is there."""
    answer = await client.chat.completions.create(model="fake", messages=MESSAGES, n=2)
    texts = [choice.message.content or "" for choice in answer.choices]
    assert [text.partition("echo: ")[2] for text in texts] == ["one two", "one two"]
    assert texts[0] != texts[1]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 2


async def test_stream_joins_to_the_whole_answer(client: openai.AsyncOpenAI) -> None:
    """A stream says what the plain answer says, and its usage only when asked."""
    whole = await client.chat.completions.create(model="fake", messages=MESSAGES)
    stream = await client.chat.completions.create(
        model="fake", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.model_dump() == whole.usage.model_dump()


async def test_completions_are_read_by_openais_client(client: openai.AsyncOpenAI) -> None:
    """The older operation works in both forms."""
    whole = await client.completions.create(model="fake", prompt="one two")
    stream = await client.completions.create(model="fake", prompt="one two", stream=True)
    text = "".join([choice.text async for chunk in stream for choice in chunk.choices])
    assert text == whole.choices[0].text


async def test_responses_are_read_by_openais_client(client: openai.AsyncOpenAI) -> None:
    """The newer operation works in both forms, and its stream ends with the whole answer."""
    whole = await client.responses.create(model="fake", input="one two")
    stream = await client.responses.create(model="fake", input="one two", stream=True)
    events = [event async for event in stream]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert whole.output_text.endswith("echo: one two")
    assert text == whole.output_text
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == whole.output_text


async def test_cut_response_is_incomplete(client: openai.AsyncOpenAI) -> None:
    """An answer that hit its length says so in this operation's words."""
    whole = await client.responses.create(model="fake-length", input="one")
    stream = await client.responses.create(model="fake-length", input="one", stream=True)
    events = [event async for event in stream]
    assert whole.status == "incomplete"
    assert events[-1].type == "response.incomplete"


async def test_models_and_embeddings_are_read_by_openais_client(
    client: openai.AsyncOpenAI,
) -> None:
    """Every scripted model is listed; a vector depends on its text and nothing else."""
    names = [model.id async for model in client.models.list()]
    made = await client.embeddings.create(
        model="fake", input=["a", "b", "a"], encoding_format="float"
    )
    vectors = [item.embedding for item in made.data]
    assert "fake-429" in names
    assert vectors[0] == vectors[2] != vectors[1]


async def test_statuses_are_the_errors_of_openais_client(client: openai.AsyncOpenAI) -> None:
    """Scripted statuses come with a body and fields that the client understands."""
    with pytest.raises(openai.RateLimitError) as limited:
        await client.chat.completions.create(model="fake-429", messages=MESSAGES)
    with pytest.raises(openai.InternalServerError):
        await client.chat.completions.create(model="fake-503", messages=MESSAGES)
    assert limited.value.response.headers["retry-after"] == "7"
    assert limited.value.code == "fake_429"


async def test_error_event_is_the_clients_error(client: openai.AsyncOpenAI) -> None:
    """An error inside a stream is raised by the client after what came before it."""
    stream = await client.chat.completions.create(
        model="fake-error-event", messages=MESSAGES, stream=True
    )
    with pytest.raises(openai.APIError, match="The server had an error"):
        _ = [chunk async for chunk in stream]


async def test_stream_options_can_be_refused(client: openai.AsyncOpenAI) -> None:
    """A server that does not know the member answers 400, and otherwise streams."""
    stream = await client.chat.completions.create(
        model="fake-no-stream-options", messages=MESSAGES, stream=True
    )
    assert [chunk async for chunk in stream]
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(
            model="fake-no-stream-options",
            messages=MESSAGES,
            stream=True,
            stream_options={"include_usage": True},
        )


async def test_bytes_differ_as_servers_do(server: FakeUpstream) -> None:
    """OpenAI writes null usage into each event, vLLM does not; some servers end without DONE."""
    asked = b'{"model":"%b","stream":true,"stream_options":{"include_usage":true},"messages":[]}'
    openai_like = await exchange(server, asked % b"fake")
    vllm_like = await exchange(server, asked % b"fake-vllm")
    endless = await exchange(server, asked % b"fake-no-done")
    assert openai_like.count(b'"usage":null') == openai_like.count(b"data: {") - 1
    assert b'"usage":null' not in vllm_like
    assert openai_like.count(b"data: [DONE]") == vllm_like.count(b"data: [DONE]") == 1
    assert b"[DONE]" not in endless


async def test_equal_requests_get_equal_bytes(server: FakeUpstream) -> None:
    """But for the call's number, an answer is a function of its request."""
    body = b'{"model":"fake","stream":true,"messages":[{"role":"user","content":"one"}]}'
    first, second, other = [
        (await exchange(server, asked)).partition(b"\r\n\r\n")[2]
        for asked in (body, body, body.replace(b"one", b"two"))
    ]
    assert first == second != other


async def test_call_is_held_until_released(
    server: FakeUpstream, client: openai.AsyncOpenAI
) -> None:
    """A test can look around while calls are on their way."""
    hold = asyncio.Event()
    server.queue.append(Script(hold=hold))
    asking = asyncio.create_task(client.chat.completions.create(model="fake", messages=MESSAGES))
    await server.wait_for_calls(1)
    assert not asking.done()
    hold.set()
    assert (await asking).choices


async def test_server_comes_back_at_the_same_address(client: openai.AsyncOpenAI) -> None:
    """Left and entered again, it is the same server to its clients."""
    server = FakeUpstream()
    async with server:
        address = server.base_url
    async with server, openai.AsyncOpenAI(base_url=address, api_key="k") as again:
        assert [model async for model in again.models.list()]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize", "/apply-template"])
@pytest.mark.parametrize(
    "body",
    [
        {"messages": ["one", None, 3, [], {}, {"role": 3, "content": {"a": 1}}]},
        {"messages": "one"},
        {"content": None},
        {"content": 3, "prompt": [1, 2]},
    ],
)
async def test_prompts_of_no_known_form_have_words_too(path: str, body: dict[str, object]) -> None:
    async with FakeUpstream(prefixes=FakePrefixCache()) as server, aiohttp.ClientSession() as http:
        async with http.post(server.base_url.removesuffix("/v1") + path, json=body) as reply:
            assert reply.status == 200


def test_module_serves_until_interrupted() -> None:
    """By hand it prints its address, simulates a prefix cache, and ends on an interrupt."""
    command = [sys.executable, "-m", "stepwell.testing.fake_upstream", "--prefixes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline().decode()
            base_url = line.removeprefix("Serving ").partition(",")[0]
            with openai.OpenAI(base_url=base_url, api_key="k", max_retries=0) as client:
                cached = [cached_tokens(client) for _ in range(2)]
            process.send_signal(2)
            _, complaints = process.communicate(timeout=30)
        finally:
            process.kill()  # else a failure would wait for it without end
    assert base_url.startswith("http://127.0.0.1:")
    assert cached == [0, 3]
    assert complaints == b""


def cached_tokens(client: openai.OpenAI) -> int | None:
    answer = client.chat.completions.create(model="m", messages=MESSAGES)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    return answer.usage.prompt_tokens_details.cached_tokens
