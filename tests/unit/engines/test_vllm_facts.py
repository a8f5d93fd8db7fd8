"""What a vLLM server's metrics page says of it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.errors import UpstreamBroken, UpstreamUnreachable
from stepwell.core.ports import Headers
from stepwell.engines import vllm_facts
from stepwell.engines.vllm_facts import VllmFacts, VllmWatch, read_facts

PAGE = """\
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79612323768e+09
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32",\
enable_prefix_caching="True",kv_cache_size_tokens="23296"} 1.0
"""
FACTS = VllmFacts("1.79612323768e+09", 32, 23296)


def test_all_that_is_said() -> None:
    assert read_facts(PAGE) == FACTS


def test_off_is_heard() -> None:
    off = PAGE.replace('caching="True"', 'caching="False"')
    assert not read_facts(off).caches_prefixes


@pytest.mark.parametrize("said", ["None", "", "-1", "1.5", "0", "lots", "9" * 6_000])
def test_what_is_no_count(said: str) -> None:
    facts = read_facts(PAGE.replace('"23296"', f'"{said}"'))
    assert facts == VllmFacts(FACTS.started, 32, None)


@given(st.text())
def test_any_other_page(page: str) -> None:
    assert read_facts(page).caches_prefixes or "enable_prefix_caching" in page
    assert read_facts("") == VllmFacts()


def test_a_page_made_to_be_slow_is_read_at_once() -> None:
    """Each of these would take hours, were all of it tried from each place."""
    for slow in ("a" * 1_000_000, 'a="' * 300_000, "a," * 500_000):
        assert read_facts("vllm:cache_config_info{" + slow + "}\n") == VllmFacts()


class Page:
    """A server's replies, one after the other; the last one again and again."""

    def __init__(self, *replies: "Reply | Exception") -> None:
        self.replies = list(replies)
        self.asked = 0

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> "Reply":
        assert (method, path, query, body) == ("GET", "metrics", "", b"")
        self.asked += 1
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


class Reply:
    def __init__(self, *parts: bytes | Exception, status: int = 200) -> None:
        self.parts = parts
        self.status = status
        self.headers: Headers = ()
        self.closed = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part

    async def aclose(self) -> None:
        self.closed += 1


async def test_whatever_comes_it_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_facts, "EVERY_SECONDS", 0.001)
    odd = [
        Reply(b"x", status=404),
        Reply(b"x", UpstreamBroken("broken", upstream="llm")),
        Reply(*[b"x" * (1 << 20)] * 6),
    ]
    page = Page(UpstreamUnreachable("gone", upstream="llm"), *odd, Reply(PAGE.encode()))
    taken: asyncio.Queue[VllmFacts] = asyncio.Queue()
    watch = VllmWatch(page, taken.put_nowait)
    async with asyncio.timeout(5):
        assert await taken.get() == FACTS
        assert await taken.get() == FACTS
    await watch.aclose()
    asked = page.asked
    await watch.aclose()
    await asyncio.sleep(0.01)
    assert page.asked == asked
    assert [reply.closed for reply in odd] == [1, 1, 1]
