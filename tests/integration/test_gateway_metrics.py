"""The metrics page: well-formed, and every request is on it once, however it ended."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from support.gateway import Gateway, StartGateway, question
from support.metrics import reaches, read_metrics, total

import stepwell
from stepwell.telemetry.catalogue import CATALOGUE, Kind
from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script

REQUESTS = "stepwell_requests_total"


async def one_of_each(gateway: Gateway, upstream: FakeUpstream) -> dict[str, int]:
    """Send requests that end in every way there is; return how many in each."""
    chat = "/v1/chat/completions"
    await gateway.ask("hi")
    await gateway.ask("hi", stream=True)
    await gateway.ask("hi")  # the short way knows it by now
    await gateway.ask("hi", key=None)
    await gateway.ask("later", headers={"cache-control": "only-if-cached"})
    await gateway.post(b"not JSON", path=chat)
    await gateway.post({"model": "fake"}, path=chat)
    await gateway.get(chat)
    upstream.scripts["held"] = Script(hold=(go_on := asyncio.Event()))
    together = [asyncio.create_task(gateway.ask("q", model="held")) for _ in range(2)]
    await upstream.wait_for_calls(3)
    await gateway.ask("barrier")
    go_on.set()
    await asyncio.gather(*together)
    await gateway.ask("q", model="fake-not-http")
    await gateway.ask("q", model="fake-500")
    await gateway.ask("q", model="fake-reset", stream=True)
    await _leave(gateway, upstream, question("q", model="fake-hang", stream=True))
    await _leave(gateway, upstream, question("q", model="fake-silent"))
    return {
        "hit": 2,
        "miss": 4,
        "collapsed": 1,
        "bypass": 1,
        "rejected": 4,
        "error": 2,
        "cancelled": 2,
    }


async def _leave(gateway: Gateway, upstream: FakeUpstream, body: dict[str, Any]) -> None:
    calls = upstream.call_count
    asking = asyncio.create_task(gateway.post(body))
    await upstream.wait_for_calls(calls + 1)
    asking.cancel()
    await upstream.calls[-1].abandoned.wait()


async def test_every_request_is_counted_once(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Answered, refused, failed or left: the outcomes add up to what was sent."""
    expected = await one_of_each(gateway, upstream)
    await reaches(gateway, REQUESTS, sum(expected.values()))
    counted = {
        outcome: await total(gateway, REQUESTS, outcome=outcome) for outcome in [*expected, "stale"]
    }
    assert counted == {**expected, "stale": 0}
    assert await total(gateway, REQUESTS) == sum(expected.values())

    families = await read_metrics(gateway)
    timed = sum(
        sample.value
        for sample in families["stepwell_request_seconds"].samples
        if sample.name.endswith("_count")
    )
    assert timed == sum(expected.values())


async def test_the_page_is_as_prometheus_wants_it(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Its own linter has nothing to say about names, types, help or values."""
    await one_of_each(gateway, upstream)
    answer = await gateway.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH")
    process = await asyncio.create_subprocess_exec(
        *(promtool, "check", "metrics"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate(answer.body)
    assert (process.returncode, said.decode()) == (0, "")


async def test_the_page_holds_what_the_catalogue_says(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Every family with its type and labels, and no other; histograms add up."""
    await one_of_each(gateway, upstream)
    families = await read_metrics(gateway)
    assert {(family.name, family.type) for family in families.values()} == {
        (metric.name.removesuffix("_total"), metric.kind) for metric in CATALOGUE
    }
    labels = {metric.name.removesuffix("_total"): set(metric.labels) for metric in CATALOGUE}
    for name, family in families.items():
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels[name]
            assert sample.value >= 0
    for metric in CATALOGUE:
        if metric.kind is Kind.HISTOGRAM:
            _check_histogram(families[metric.name].samples)


def _check_histogram(samples: list[Any]) -> None:
    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    counts: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in samples:
        labels = tuple(sorted(item for item in sample.labels.items() if item[0] != "le"))
        if sample.name.endswith("_bucket"):
            bound = float(sample.labels["le"])
            buckets.setdefault(labels, []).append((bound, sample.value))
        elif sample.name.endswith("_count"):
            counts[labels] = sample.value
    assert set(buckets) == set(counts)
    for labels, found in buckets.items():
        assert found == sorted(found)
        assert [value for _, value in found] == sorted(value for _, value in found)
        assert found[-1] == (float("inf"), counts[labels])


async def test_openmetrics_is_there_for_who_asks(gateway: Gateway, upstream: FakeUpstream) -> None:
    """The stricter format, by its own parser."""
    await one_of_each(gateway, upstream)
    answer = await gateway.get(
        "/metrics", {"accept": "application/openmetrics-text; version=1.0.0"}
    )
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = list(parse_openmetrics(answer.body.decode()))  # type: ignore[no-untyped-call]
    assert len(families) == len(CATALOGUE)


async def test_callers_cannot_make_the_page_grow(gateway: Gateway) -> None:
    """Names of models are theirs to invent; past a bound they are one series."""
    for number in range(210):
        await gateway.ask("hi", model=f"invented-{number}")
    families = await read_metrics(gateway)
    models = {sample.labels["model"] for sample in families["stepwell_spent_tokens"].samples}
    assert len(models) <= 201
    assert "other" in models
    assert await total(gateway, REQUESTS, outcome="miss") == 210


async def test_a_strange_model_name_does_not_break_the_page(gateway: Gateway) -> None:
    """Quotes, backslashes, line ends and what is no text at all."""
    names = ['a"b', "a\\b", "a\nb", "a\ud800b", "模型", "x" * 1_000]
    for name in names:
        await gateway.post(json.dumps(question("hi", model=name)).encode())
    assert await total(gateway, REQUESTS) == len(names)


async def test_what_was_spent_and_saved(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Tokens as the model server counted them; a follower saves as a hit does."""
    upstream.scripts["held"] = Script(hold=(go_on := asyncio.Event()))
    asking = [asyncio.create_task(gateway.ask("one two three", model="held")) for _ in range(3)]
    await upstream.wait_for_calls(1)
    await gateway.ask("barrier", key=None)
    go_on.set()
    answers = await asyncio.gather(*asking)
    usage = json.loads(answers[0].body)["usage"]
    await gateway.ask("one two three", model="held")
    for kind in ("prompt", "completion"):
        tokens = {"kind": kind, "model": "held"}
        spent = await total(gateway, "stepwell_spent_tokens_total", **tokens)
        saved = await total(gateway, "stepwell_saved_tokens_total", **tokens)
        assert (spent, saved) == (usage[f"{kind}_tokens"], 3 * usage[f"{kind}_tokens"])
    assert await total(gateway, "stepwell_saved_seconds_total") > 0


async def test_calls_are_timed_and_failures_named(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Whole answers, cached or not, by upstream; failures by their kind."""
    await gateway.ask("hi")
    await gateway.ask("hi", key=None)
    for name in ("fake-500", "fake-429", "fake-not-http"):
        await gateway.ask("hi", model=name)
    for name in ("stepwell_upstream_seconds", "stepwell_upstream_first_byte_seconds"):
        assert await total(gateway, f"{name}_count", upstream="fake") == 2
    kinds = {
        sample.labels["kind"]: sample.value
        for sample in (await read_metrics(gateway))["stepwell_upstream_errors"].samples
        if sample.name.endswith("_total")
    }
    assert kinds == {"status_5xx": 1, "status_429": 1, "broken": 1}


async def test_gauges_say_how_it_is_now(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """What is held, and what is under way."""
    upstream.scripts["held"] = Script(fault=Fault.SILENT)
    async with start_gateway() as gateway:
        for text in ("one", "two"):
            await gateway.ask(text)
        asking = asyncio.create_task(gateway.ask("q", model="held"))
        await upstream.wait_for_calls(3)
        page = (await gateway.get("/metrics")).body.decode()
        asking.cancel()
        await upstream.calls[-1].abandoned.wait()
        after = (await gateway.get("/metrics")).body.decode()
    assert re.search(r'^stepwell_entries\{tier="memory"\} 2\.0$', page, re.MULTILINE)
    assert "stepwell_in_flight 1.0" in page
    assert "stepwell_in_flight 0.0" in after
    assert "stepwell_workers 1.0" in page


async def test_what_is_forwarded_is_counted_too(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Once each, by how it ended; it is none of the cache's hits and misses."""
    wrong = {"auth": {"mode": "keys", "keys": [{"tenant": "a", "key_sha256": "0" * 64}]}}
    key = {"authorization": "Bearer sk-test"}
    upstreams = {
        "down": {"base_url": "http://127.0.0.1:9/v1", "models": ["down"]},
        "fake": {"base_url": upstream.base_url},
    }
    off = {"enabled": "off"}
    async with start_gateway(upstreams=upstreams, embedding=off) as gateway:
        made = await gateway.post({"model": "m", "input": "hi"}, path="/v1/embeddings")
        listed = await gateway.get("/v1/models", key)
        assert (made.status, listed.status) == (200, 200)
        assert (await gateway.post({"input": "hi"}, path="/v1/embeddings")).status == 400
        assert (await gateway.get("/v1/models/down", key)).status == 502
        family = (await read_metrics(gateway))["stepwell_requests"]
        counts = {sample.labels["outcome"]: sample.value for sample in family.samples}
        assert counts == {"bypass": 2, "rejected": 1, "error": 1}
    async with start_gateway(**wrong) as gateway:
        before = await total(gateway, REQUESTS, outcome="rejected")
        assert (await gateway.get("/v1/models", key)).status == 401
        assert await total(gateway, REQUESTS, outcome="rejected") == before + 1


async def test_others_on_the_data_directory(
    start_gateway: StartGateway, upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Programs that use the directory meanwhile have their own counts; the gateway keeps its."""
    async with start_gateway() as gateway:
        for _ in range(2):
            await gateway.ask("hi")
        assert await total(gateway, REQUESTS) == 2
        for _ in range(5):
            async with stepwell.Cache(upstream=upstream.base_url, data_dir=tmp_path / "data") as it:
                await it.complete(question("hi"))
        assert await total(gateway, REQUESTS) == 2
        statement = json.loads((await gateway.get("/admin/stats")).body)
        assert statement["requests"] == 7
