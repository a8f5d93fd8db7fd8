"""Answers to other words, through the whole gateway with the real embedder."""

import asyncio
import json
from typing import Any

import pytest
from support.gateway import Answer, Gateway, StartGateway, question
from support.metrics import reaches

from stepwell.testing.fake_upstream import FakeUpstream

pytestmark = pytest.mark.embedder

STORED = "How do I return shoes that I bought online?"
LOOSELY_ASKED = "I bought shoes online, how do I send them back?"
ASKED = "What is the way to return shoes I bought online?"
STORED_ZH = "在网上买的鞋子怎么退货？"
ASKED_ZH = "网上买的鞋子如何退货"

NO_STORE = {"Cache-Control": "no-store"}


async def fill(gateway: Gateway, text: str = STORED, **fields: Any) -> Answer:
    """Ask for the first time, and wait until the answer can be found by other words."""
    answer = await gateway.ask(text, **fields)
    assert answer.headers["x-cache"] == "MISS"
    await gateway.settle()
    return answer


def text_of(answer: Answer) -> str:
    text: str = json.loads(answer.body)["choices"][0]["message"]["content"]
    return text


@pytest.mark.parametrize(("stored", "asked"), [(STORED, ASKED), (STORED_ZH, ASKED_ZH)])
async def test_other_words_get_the_same_answer(
    start_semantic: StartGateway, upstream: FakeUpstream, stored: str, asked: str
) -> None:
    """The model server is asked once, and the reply says how alike the questions are."""
    async with start_semantic() as gateway:
        first = await fill(gateway, stored)
        second = await gateway.ask(asked)
        assert second.headers["x-cache"] == "HIT"
        assert second.cache_status.endswith("detail=semantic")
        assert 0.8 < float(second.headers["x-stepwell-similarity"]) < 1
        assert second.headers["x-stepwell-key"] == first.headers["x-stepwell-key"]
        assert second.body == first.body
        streamed = await gateway.ask(asked, stream=True)
        assert streamed.headers["x-cache"] == "HIT"
        assert streamed.body.endswith(b"data: [DONE]\n\n")
        assert upstream.call_count == 1
        await reaches(gateway, "stepwell_semantic_lookups_total", 2, outcome="match")
        await reaches(gateway, "stepwell_requests_total", 2, layer="semantic", outcome="hit")


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("How do I convert 5 km to miles?", "How do I convert 50 km to miles?"),
        ("How do I enable two-factor login?", "How do I disable two-factor login?"),
        ("如何开启两步验证？", "如何关闭两步验证？"),
        ("这个药可以和酒一起吃吗", "这个药不可以和酒一起吃吗"),
        ("How do I convert JSON to CSV?", "How do I convert CSV to JSON?"),
        ("从北京到上海的火车票多少钱", "从上海到北京的火车票多少钱"),
        ("Where is my order 48213?", "Where is my order 48231?"),
        ("怎么取消订阅", "退款什么时候到"),
        (STORED, STORED_ZH),
    ],
)
async def test_what_only_looks_alike_is_not_served(
    start_semantic: StartGateway, stored: str, asked: str
) -> None:
    """Another number, the opposite, the other way round, another language."""
    async with start_semantic(classes={"general": {"level": "faq"}}) as gateway:
        headers = {"X-Stepwell-Class": "general"}
        await fill(gateway, stored, headers=headers)
        answer = await gateway.ask(asked, headers=headers)
        assert answer.headers["x-cache"] == "MISS"
        assert asked in text_of(answer)


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
OTHER_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAB"}}
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {}}}]


def with_image(text: str, image: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": text}, image]
    return {"messages": [{"role": "user", "content": content}]}


def with_system(text: str, system: str) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": text},
        ]
    }


def after(text: str, earlier: str) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": earlier},
            {"role": "assistant", "content": "I see."},
            {"role": "user", "content": text},
        ]
    }


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ({}, {"model": "fake-2"}),
        ({}, {"tools": TOOLS}),
        ({}, {"response_format": {"type": "json_object"}}),
        ({}, {"max_tokens": 7}),
        ({}, {"seed": 1}),
        ({"temperature": 0.0}, {"temperature": 0.5}),
        (with_image(STORED, IMAGE), with_image(ASKED, OTHER_IMAGE)),
        (with_image(STORED, IMAGE), {}),
        (with_system(STORED, "You are a lawyer."), with_system(ASKED, "You are a poet.")),
        (with_system(STORED, "You are a lawyer."), {}),
        (after(STORED, "I live in Spain."), after(ASKED, "I live in Norway.")),
        (after(STORED, "I live in Spain."), {}),
    ],
)
async def test_everything_else_must_be_equal(
    start_semantic: StartGateway, stored: dict[str, Any], asked: dict[str, Any]
) -> None:
    """Model, tools, format, limits, images, system prompt, what was said before."""
    async with start_semantic() as gateway:
        first = await gateway.post({**question(STORED), **stored})
        assert first.headers["x-cache"] == "MISS"
        await gateway.settle()
        second = await gateway.post({**question(ASKED), **asked})
        assert second.headers["x-cache"] == "MISS"
        assert second.headers["x-stepwell-key"] != first.headers["x-stepwell-key"]
        # The same with the stored request's fields is a hit, so it was they that mattered.
        last = dict(stored)
        if "messages" in last:
            last = json.loads(json.dumps(last).replace(STORED, ASKED))
        third = await gateway.post({**question(ASKED), **last})
        assert third.headers["x-cache"] == "HIT"
        assert third.headers["x-stepwell-key"] == first.headers["x-stepwell-key"]


async def test_tenants_never_share(start_semantic: StartGateway) -> None:
    """Not even when everybody asks the same."""
    async with start_semantic() as gateway:
        await fill(gateway, key="sk-one")
        other = await gateway.ask(ASKED, key="sk-two")
        assert other.headers["x-cache"] == "MISS"
        nobody = await gateway.ask(ASKED, key=None)
        assert nobody.headers["x-cache"] == "BYPASS"
        again = await gateway.ask(ASKED, key="sk-one")
        assert again.headers["x-cache"] == "HIT"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "?",
        "🙂",
        "\u0000\u0001\u0007",
        "１２３４５",
        "𠮷野家はどこですか 你好 مرحبا",
        "x" * 100_000,
        "请" * 100_000,
        "How " * 2_000,
        "```" * 500,
        '"' * 999,
    ],
)
async def test_odd_texts_are_answered(start_semantic: StartGateway, text: str) -> None:
    """By the model server, each its own answer; a repeat is an exact hit."""
    async with start_semantic() as gateway:
        await fill(gateway)
        first = await gateway.ask(text)
        assert (first.status, first.headers["x-cache"]) == (200, "MISS")
        repeat = await gateway.ask(text)
        assert repeat.cache_status.endswith("detail=exact")
        near = await gateway.ask(text + " and what else?")
        assert near.headers["x-cache"] == "MISS"


@pytest.mark.parametrize("text", [STORED, STORED_ZH])
async def test_the_same_words_at_another_temperature(
    start_semantic: StartGateway, text: str
) -> None:
    """Within the tolerance it is the same question, at every level; beyond it is another."""
    async with start_semantic() as gateway:
        await fill(gateway, text, temperature=0.7)
        for level in ("general", "strict"):
            near = await gateway.ask(
                text.replace(" ", "  "),
                temperature=0.75,
                headers={"X-Stepwell-Level": level, "Cache-Control": "no-store"},
            )
            assert near.headers["x-cache"] == "HIT"
        far = await gateway.ask(text, temperature=0.9, headers={"Cache-Control": "no-store"})
        assert far.headers["x-cache"] == "MISS"


async def test_a_caller_tightens(start_semantic: StartGateway) -> None:
    """By a level or a similarity; what cannot be read is refused."""
    async with start_semantic() as gateway:
        await fill(gateway)
        for field, value in (("Level", "strict"), ("Min-Similarity", "0.999")):
            answer = await gateway.ask(
                LOOSELY_ASKED, headers={f"X-Stepwell-{field}": value, "Cache-Control": "no-store"}
            )
            assert answer.headers["x-cache"] == "MISS"
        loose = await gateway.ask(LOOSELY_ASKED, headers={"X-Stepwell-Min-Similarity": "0.1"})
        assert loose.headers["x-cache"] == "HIT"
        for field, value in (("Level", "lax"), ("Min-Similarity", "1.5"), ("Min-Similarity", "x")):
            refused = await gateway.ask(ASKED, headers={f"X-Stepwell-{field}": value})
            assert refused.status == 400
            assert json.loads(refused.body)["error"]["param"] == f"X-Stepwell-{field}"


async def test_what_goes_is_not_found_by_other_words(start_semantic: StartGateway) -> None:
    """Invalidated by tag, or expired."""
    async with start_semantic() as gateway:
        await fill(gateway, headers={"X-Stepwell-Tags": "faq"})
        assert (await gateway.ask(ASKED)).headers["x-cache"] == "HIT"
        await gateway.post({"tag": "faq", "dry_run": False}, path="/admin/invalidate", key=None)
        assert (await gateway.ask(ASKED)).headers["x-cache"] == "MISS"
    async with start_semantic() as gateway:
        await fill(gateway, "How do I wash wool?", cache={"ttl": 1})
        await asyncio.sleep(1.1)
        assert (await gateway.ask("What is the way to wash wool?")).headers["x-cache"] == "MISS"


async def test_feedback(start_semantic: StartGateway, upstream: FakeUpstream) -> None:
    """A hit said to be wrong never comes again, also not after a restart."""
    async with start_semantic() as gateway:
        await fill(gateway)
        hit = (await gateway.ask(ASKED)).headers["x-stepwell-hit"]
        body = {"hit": hit, "verdict": "wrong"}
        said = await gateway.post(body, path="/admin/feedback", key=None)
        assert said.status == 200
        assert json.loads(said.body)["found"] is True
        no_store = {"Cache-Control": "no-store"}
        assert (await gateway.ask(ASKED, headers=no_store)).headers["x-cache"] == "MISS"
        # The entry still answers the question it was made for.
        assert (await gateway.ask(STORED)).headers["x-cache"] == "HIT"
    async with start_semantic() as gateway:
        assert (await gateway.ask(ASKED, headers=no_store)).headers["x-cache"] == "MISS"
        right = {"hit": hit, "verdict": "right"}
        await gateway.post(right, path="/admin/feedback", key=None)
        assert (await gateway.ask(ASKED)).headers["x-cache"] == "HIT"
        wrong = {"hit": hit, "verdict": "wrong", "delete": True}
        await gateway.post(wrong, path="/admin/feedback", key=None)
        assert (await gateway.ask(STORED)).headers["x-cache"] == "MISS"
        unknown = {"hit": "A" * 70, "verdict": "wrong"}
        said = await gateway.post(unknown, path="/admin/feedback", key=None)
        assert json.loads(said.body)["found"] is False
        for bad, param in (
            ({"hit": "x", "verdict": "wrong"}, None),
            ({"hit": hit, "verdict": "maybe"}, "verdict"),
            ({}, None),
        ):
            refused = await gateway.post(bad, path="/admin/feedback", key=None)
            assert refused.status == 400
            assert json.loads(refused.body)["error"]["param"] == param


async def test_a_restart_and_another_worker_find_what_was_stored(
    start_semantic: StartGateway, upstream: FakeUpstream
) -> None:
    """The index is opened again; what another worker stores is found within a second."""
    async with start_semantic() as gateway:
        await fill(gateway)
    async with start_semantic() as one, start_semantic() as other:
        assert (await one.ask(ASKED)).headers["x-cache"] == "HIT"
        await fill(one, "How do I wash wool by hand?")
        await asyncio.sleep(1.0)
        found = await other.ask("What is the way to wash wool by hand?")
        assert found.headers["x-cache"] == "HIT"
    assert upstream.call_count == 2


async def test_exact_only_classes(start_semantic: StartGateway) -> None:
    """A translation answers this text and no other."""
    async with start_semantic() as gateway:
        headers = {"X-Stepwell-Class": "translation"}
        await fill(gateway, headers=headers)
        assert (await gateway.ask(ASKED, headers=headers)).headers["x-cache"] == "MISS"


@pytest.mark.parametrize("rules", [{"shadow": True}, {"level": "strict"}])
async def test_a_caller_loosens_nothing_by_naming_a_class(
    start_semantic: StartGateway, rules: dict[str, Any]
) -> None:
    """Not in a header, and not in the body; the operator's own route does."""
    tables: dict[str, Any] = {
        "classes": {"general": rules, "loose": {"level": "faq", "ttl_seconds": 3600}},
        "semantic": {"levels": {"strict": 0.9999}},
    }
    last = {"class": "general"}
    in_header = {"headers": {"X-Stepwell-Class": "loose", **NO_STORE}}
    in_body = {"headers": NO_STORE, "metadata": {"stepwell_class": "loose"}}
    async with start_semantic(**tables, routes=[last]) as gateway:
        await fill(gateway)
        for fields in ({"headers": NO_STORE}, in_header, in_body):
            assert (await gateway.ask(ASKED, **fields)).headers["x-cache"] == "MISS"
    async with start_semantic(**tables, routes=[{"class": "loose"}]) as gateway:
        assert (await gateway.ask(ASKED, headers=NO_STORE)).headers["x-cache"] == "HIT"
