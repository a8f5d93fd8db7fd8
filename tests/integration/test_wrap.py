"""`stepwell.wrap`: the official client, with a cache inside."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

import stepwell
from stepwell.testing.fake_upstream import FakeUpstream, Script

MESSAGES: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def client(upstream: FakeUpstream) -> AsyncIterator[openai.AsyncOpenAI]:
    """A wrapped asynchronous client."""
    async with (
        openai.AsyncOpenAI(base_url=upstream.base_url, api_key="sk-a", max_retries=0) as inner,
        stepwell.wrap(inner) as wrapped,
    ):
        yield wrapped


async def outcome(client: openai.AsyncOpenAI, **fields: Any) -> tuple[str, Any]:
    """Ask once; return ``X-Cache`` and the parsed answer."""
    asked: dict[str, Any] = {"model": "fake", "messages": MESSAGES, **fields}
    raw = await client.chat.completions.with_raw_response.create(**asked)
    return raw.headers["x-cache"], raw.parse()


async def test_answers_are_the_clients_own_objects(
    client: openai.AsyncOpenAI, upstream: FakeUpstream
) -> None:
    """The repeat is equal to the first in every field, and of the same type."""
    first, second = await outcome(client), await outcome(client)
    assert (first[0], second[0]) == ("MISS", "HIT")
    assert isinstance(second[1], openai.types.chat.ChatCompletion)
    assert first[1] == second[1]
    assert upstream.call_count == 1


async def test_streams(client: openai.AsyncOpenAI, upstream: FakeUpstream) -> None:
    """A stream is read as ever, live and replayed."""
    texts = []
    for _ in range(2):
        stream = await client.chat.completions.create(
            model="fake", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        texts.append("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
        assert chunks[-1].usage is not None
    assert texts[0] == texts[1] != ""
    assert upstream.call_count == 1


async def test_streams_come_live(client: openai.AsyncOpenAI, upstream: FakeUpstream) -> None:
    """The first chunk is there before the model server has sent the last."""
    resume = asyncio.Event()
    upstream.queue.append(Script(resume=resume, after_events=2))
    stream = await client.chat.completions.create(model="fake", messages=MESSAGES, stream=True)
    async with asyncio.timeout(5):
        first = await anext(stream)
    resume.set()
    assert first.choices[0].delta.role == "assistant"
    assert len([chunk async for chunk in stream]) > 1


async def test_responses_and_completions(
    client: openai.AsyncOpenAI, upstream: FakeUpstream
) -> None:
    """All three operations are cached; others pass through."""
    for _ in range(2):
        response = await client.responses.create(model="fake", input="hi")
        completion = await client.completions.create(model="fake", prompt="hi")
        assert response.output_text
        assert completion.choices[0].text
    assert upstream.call_count == 2
    assert [model.id async for model in client.models.list()]
    assert upstream.call_count == 3


async def test_errors_are_the_clients_own(
    client: openai.AsyncOpenAI, upstream: FakeUpstream
) -> None:
    """Statuses, broken connections and bad requests raise what they always raise."""
    with pytest.raises(openai.RateLimitError) as limited:
        await outcome(client, model="fake-429")
    assert limited.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.APIConnectionError):
        await outcome(client, model="fake-no-reply")
    with pytest.raises(openai.BadRequestError):
        await outcome(client, messages="no list")
    with pytest.raises(openai.APITimeoutError):
        await outcome(client.with_options(timeout=0.05), model="fake-silent")


async def test_two_keys_are_two_tenants(upstream: FakeUpstream, tmp_path: Path) -> None:
    """Clients with different keys share nothing, those with the same key do."""
    seen = []
    for key in ("sk-a", "sk-b", "sk-a"):
        async with openai.AsyncOpenAI(base_url=upstream.base_url, api_key=key) as inner:
            async with stepwell.wrap(inner, data_dir=tmp_path) as wrapped:
                seen.append((await outcome(wrapped))[0])
    assert seen == ["MISS", "MISS", "HIT"]


async def test_the_wrapped_client_stays_usable(
    client: openai.AsyncOpenAI, upstream: FakeUpstream
) -> None:
    """``with_options`` keeps the cache; the client that was wrapped has none."""
    await outcome(client)
    assert (await outcome(client.with_options(max_retries=1)))[0] == "HIT"


@pytest.fixture
def in_thread() -> Iterator[Callable[..., Any]]:
    """Run synchronous code beside the loop that serves the fake."""
    with ThreadPoolExecutor() as pool:
        yield lambda work: asyncio.get_running_loop().run_in_executor(pool, work)


async def test_the_synchronous_client(
    upstream: FakeUpstream, in_thread: Callable[..., Any]
) -> None:
    """The same, without async."""

    def work() -> list[Any]:
        with openai.OpenAI(base_url=upstream.base_url, api_key="k", max_retries=0) as inner:
            with stepwell.wrap(inner) as client:
                seen: list[Any] = []
                for _ in range(2):
                    raw = client.chat.completions.with_raw_response.create(
                        model="fake", messages=MESSAGES
                    )
                    seen.append((raw.headers["x-cache"], raw.parse().choices[0].message.content))
                stream = client.chat.completions.create(
                    model="fake", messages=MESSAGES, stream=True
                )
                seen.append("".join(chunk.choices[0].delta.content or "" for chunk in stream))
                with pytest.raises(openai.InternalServerError):
                    client.chat.completions.create(model="fake-500", messages=MESSAGES)
                return seen

    first, second, streamed = await in_thread(work)
    assert (first[0], second[0]) == ("MISS", "HIT")
    assert first[1] == second[1] == streamed
    assert upstream.call_count == 2


async def test_threads_share_one_call(
    upstream: FakeUpstream, in_thread: Callable[..., Any]
) -> None:
    """Single-flight across the threads of a program."""
    hold = asyncio.Event()
    upstream.queue.append(Script(hold=hold))

    def work() -> set[str]:
        with openai.OpenAI(base_url=upstream.base_url, api_key="k") as inner:
            with stepwell.wrap(inner) as client, ThreadPoolExecutor(8) as pool:
                ask = client.chat.completions.create
                asks = [pool.submit(ask, model="fake", messages=MESSAGES) for _ in range(8)]
                loop.call_soon_threadsafe(hold.set)
                return {str(done.result().choices[0].message.content) for done in asks}

    loop = asyncio.get_running_loop()
    assert len(await in_thread(work)) == 1
    assert upstream.call_count == 1


def test_what_is_no_client_is_refused() -> None:
    """It says what it wants."""
    with pytest.raises(TypeError, match="not an OpenAI client"):
        stepwell.wrap(object())
