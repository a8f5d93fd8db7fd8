"""LangChain's cache of answers: its own conformance tests, and what they do not ask."""

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import BaseCache
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, Generation
from langchain_tests.integration_tests import AsyncCacheTestSuite, SyncCacheTestSuite
from support.redis_servers import redis_servers

from stepwell.adapters.langchain import StepwellCache
from stepwell.core.errors import ConfigError

ANSWER = Generation(text="Paris")


class TestSync(SyncCacheTestSuite):
    @pytest.fixture
    def cache(self, tmp_path: Path) -> Iterator[BaseCache]:
        cache = StepwellCache(data_dir=tmp_path)
        yield cache
        cache.close()


class TestAsync(AsyncCacheTestSuite):
    @pytest.fixture
    async def cache(self, tmp_path: Path) -> AsyncIterator[BaseCache]:
        cache = StepwellCache(data_dir=tmp_path)
        yield cache
        cache.close()


@pytest.fixture
def cache() -> Iterator[StepwellCache]:
    cache = StepwellCache()
    yield cache
    cache.close()
    cache.close()


def chat_model(cache: BaseCache, *answers: AIMessage) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(answers), cache=cache)


async def test_a_chat_model_answers_once(cache: StepwellCache) -> None:
    """Tool calls and usage come back as they were; other words and parameters are others."""
    calls = [{"name": "search", "args": {"q": "退款"}, "id": "1", "type": "tool_call"}]
    usage = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
    given: dict[str, Any] = {"tool_calls": calls, "usage_metadata": usage}
    model = chat_model(cache, AIMessage("", **given), AIMessage("two"), AIMessage("three"))
    first = model.invoke("如何退款？")
    again = await model.ainvoke("如何退款？")
    assert isinstance(first, AIMessage)
    assert isinstance(again, AIMessage)
    assert again.tool_calls == first.tool_calls == calls
    assert again.usage_metadata is not None
    assert again.usage_metadata["output_tokens"] == 5
    assert model.invoke("如何退货？").content == "two"
    assert model.invoke("如何退款？", stop=["。"]).content == "three"


def test_what_was_got_can_be_changed(cache: StepwellCache) -> None:
    """The next one gets the answer as it was kept."""
    message: BaseMessage = AIMessage("Paris", additional_kwargs={"a": [1]})
    cache.update("capital?", "llm", [ChatGeneration(message=message)])
    message.additional_kwargs["a"].append(2)
    for _ in range(2):
        found = cache.lookup("capital?", "llm")
        assert found is not None
        assert isinstance(found[0], ChatGeneration)
        assert found[0].message.additional_kwargs == {"a": [1]}
        found[0].message.additional_kwargs["a"].append(3)


def test_parts_do_not_run_together(cache: StepwellCache) -> None:
    cache.update("ab", "c", [ANSWER])
    assert cache.lookup("a", "bc") is None
    assert cache.lookup("abc", "") is None
    assert cache.lookup("\ud800", "c") is None


@pytest.mark.parametrize(
    "answer",
    [
        Generation(text="", generation_info={"at": datetime(2026, 1, 1, tzinfo=UTC)}),
        Generation(text="", generation_info={"raw": object()}),
        Generation(text="\ud800"),
        Generation(text="x" * (1 << 20)),
        ChatGeneration(message=HumanMessage("", additional_kwargs={"raw": b"\xff"})),
    ],
    ids=["datetime", "object", "surrogate", "large", "bytes"],
)
def test_what_would_not_come_back_is_not_kept(cache: StepwellCache, answer: Generation) -> None:
    cache.update("p", "llm", [ANSWER, answer])
    assert cache.lookup("p", "llm") is None


@pytest.mark.parametrize("kept", [b"{}", b"[1]", b'[{"kind": "Path"}]', b"[", b'[{"kind": "str"}]'])
def test_what_another_wrote_is_a_miss(tmp_path: Path, kept: bytes) -> None:
    """Whoever can write into the store cannot choose what is made of it."""
    cache = StepwellCache(data_dir=tmp_path)
    cache._portal.call(cache._own.memo.put(("p", "llm"), kept))
    assert cache.lookup("p", "llm") is None
    cache.close()


def test_the_next_process_finds_it_and_another_tenant_does_not(tmp_path: Path) -> None:
    writer = StepwellCache(data_dir=tmp_path)
    writer.update("p", "llm", [ANSWER])
    reader, other = StepwellCache(data_dir=tmp_path), StepwellCache(data_dir=tmp_path, tenant="b")
    assert reader.lookup("p", "llm") == [ANSWER]
    assert other.lookup("p", "llm") is None
    other.clear()
    assert writer.lookup("p", "llm") == [ANSWER]
    writer.clear()
    assert reader.lookup("p", "llm") is None
    for cache in (writer, reader, other):
        cache.close()


def test_answers_expire() -> None:
    cache = StepwellCache(ttl_seconds=0.0)
    cache.update("p", "llm", [ANSWER])
    assert cache.lookup("p", "llm") is None
    cache.close()


def test_many_threads(cache: StepwellCache) -> None:
    def use(number: int) -> bool:
        cache.update(f"p{number % 7}", "llm", [Generation(text=str(number % 7))])
        return cache.lookup(f"p{number % 7}", "llm") == [Generation(text=str(number % 7))]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(200)))


def test_redis_dies(tmp_path: Path) -> None:
    """Shared while it lives; then asked in vain, and nothing fails."""
    with redis_servers() as launcher:
        server = launcher.start()
        settings = {"stores": {"redis": {"url": server.url}}}
        one, two = (StepwellCache(settings, data_dir=tmp_path) for _ in range(2))
        one.update("p", "llm", [ANSWER])
        assert two.lookup("p", "llm") == [ANSWER]
        server.kill()
        two.update("q", "llm", [ANSWER])
        assert one.lookup("q", "llm") is None
        one.close()
        two.close()


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(ConfigError, match=r"stores\.memory\.max_bytes"):
        StepwellCache({"stores": {"memory": {"max_bytes": "much"}}})
