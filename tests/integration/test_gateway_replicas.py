"""A gateway in front of several replicas of one model server."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from support.dead_ports import refusing, silent
from support.fleet import Fleet, fleet
from support.gateway import running_gateway

from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script


@pytest.mark.parametrize("engine", [None, "vllm", "llamacpp"])
async def test_a_conversation_stays_where_its_prefix_is(tmp_path: Path, engine: str | None) -> None:
    async with fleet(tmp_path, 3, engine=engine) as fleet_:
        texts = ["Hello there, how are you?"]
        for turn in range(4):
            answer = await fleet_.say(*texts)
            assert answer.status == 200
            texts += [f"Fine, thanks, for the {turn}th time.", f"And what about {turn}?"]
        assert sorted(fleet_.calls) == [0, 0, 4]
        foretold = await fleet_.metric("stepwell_prefix_foretold_tokens_total", kind="foretold")
        cached = await fleet_.metric("stepwell_prefix_foretold_tokens_total", kind="cached")
        assert cached > 900
        assert 0.9 * cached <= foretold <= 1.05 * cached
        assert await fleet_.metric("stepwell_replica_requests_total") == 4


async def test_each_replica_gets_a_part_of_what_is_new(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        body = {"model": "m"}
        for number in range(24):
            content = (
                f"{number} is the first word of this prompt, which nobody has asked before. " * 9
            )
            await fleet_.gateway.post({**body, "messages": [{"role": "user", "content": content}]})
        assert min(fleet_.calls) >= 5
        assert sum(fleet_.calls) == 24


async def test_a_replica_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    """No request fails; when it is back, it gets work again."""
    async with fleet(tmp_path, 2) as fleet_:
        await fleet_.say("one")
        holder = fleet_.calls.index(1)
        gone = fleet_.replicas[holder]
        await gone.__aexit__()
        answers = await asyncio.gather(*[fleet_.say(f"question {number}") for number in range(8)])
        assert [answer.status for answer in answers] == [200] * 8
        assert fleet_.calls[1 - holder] == 8
        await gone.__aenter__()
        await fleet_.replicas[1 - holder].__aexit__()
        assert (await fleet_.say("one more")).status == 200
        assert fleet_.calls[holder] == 2


@pytest.mark.parametrize("port", [refusing, silent])
@pytest.mark.parametrize("engine", [None, "llamacpp"])
async def test_where_no_connection_can_be_made_nothing_was_sent(
    tmp_path: Path, port: Callable[[], AbstractContextManager[socket.socket]], engine: str | None
) -> None:
    """So another is sent it: be the connection refused, or the host one that has vanished."""
    with port() as dead:
        async with fleet(
            tmp_path, 1, dead=[dead], engine=engine, connect_timeout_seconds=0.1
        ) as fleet_:
            answers = await asyncio.gather(*[fleet_.say(f"{number}?") for number in range(8)])
            assert [answer.status for answer in answers] == [200] * 8
            assert fleet_.calls == [8]
            (live, _) = await fleet_.reports()
            # The dead one, if it is not known yet to be dead, is the only one that is ready now.
            assert (await fleet_.move(live["replica"], "draining")).status == 200
            assert (await fleet_.say("And this?")).status == 200
            states = [replica["condition"] for replica in await fleet_.reports()]
            assert states == ["draining", "down"]


async def test_one_that_breaks_before_its_head_costs_that_answer(tmp_path: Path) -> None:
    """It may have computed it: nobody is asked again. What comes next finds it closed."""
    async with fleet(tmp_path, 2) as fleet_:
        for replica in fleet_.replicas:
            replica.queue.append(Script(fault=Fault.NO_REPLY))
        answer = await fleet_.say("one")
        assert (answer.status, sum(fleet_.calls)) == (502, 1)
        assert b"upstream_broken" in answer.body


async def test_all_gone_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        for replica in fleet_.replicas:
            await replica.__aexit__()
        answer = await fleet_.say("anybody?")
        assert answer.status == 502
        for replica in fleet_.replicas:
            await replica.__aenter__()
        # Though both are believed to be down: the request is worth a try.
        assert (await fleet_.say("anybody?")).status == 200


@pytest.mark.parametrize("status", [429, 502, 503])
async def test_one_that_is_not_ready_costs_a_try(tmp_path: Path, status: int) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        await fleet_.say("one")
        holder = fleet_.calls.index(1)
        fleet_.replicas[holder].scripts["m"] = Script(status=status)
        assert (await fleet_.say("two")).status == 200
        assert fleet_.calls[1 - holder] == 1
        other = fleet_.replicas[1 - holder]
        other.scripts["m"] = Script(status=status)
        assert (await fleet_.say("three")).status == status


async def test_an_error_of_the_request_is_not_tried_elsewhere(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        for replica in fleet_.replicas:
            replica.scripts["m"] = Script(status=400)
        assert (await fleet_.say("one")).status == 400
        assert sum(fleet_.calls) == 1


async def test_one_that_dies_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    """What was handed on cannot be taken back: the stream ends with an error, and nothing more."""
    async with fleet(tmp_path, 2) as fleet_:
        for replica in fleet_.replicas:
            replica.scripts["m"] = Script(fault=Fault.RESET, after_events=2)
        answer = await fleet_.say("one", stream=True)
        assert answer.status == 200
        assert b'"error"' in answer.body
        assert sum(fleet_.calls) == 1


class TestTokensThatComeLate:
    """Where one server is steered, its answers do not wait until it has named a prompt's tokens."""

    async def test_they_are_counted_when_they_come(self, tmp_path: Path) -> None:
        let_go = asyncio.Event()
        async with fleet(tmp_path, 1, engine="vllm", prefix=PATIENT) as fleet_:
            fleet_.replicas[0].paths["/tokenize"] = Script(hold=let_go)
            for text in ("one", "two"):
                assert (await fleet_.say(text)).status == 200
            (report,) = await fleet_.reports()
            assert (report["agreed"]["requests"], report["held_tokens"]) == (0, 0)
            let_go.set()
            agreed = await agreed_on(fleet_, 2)
            # Though both have been computed by now, nothing was known when they were sent.
            assert agreed["foretold_tokens"] == 0 < agreed["cached_tokens"]
            await fleet_.say("three")
            agreed = await agreed_on(fleet_, 3)
            assert agreed["met_tokens"] == agreed["foretold_tokens"] > 250

    async def test_the_text_stands_for_those_that_never_come(self, tmp_path: Path) -> None:
        prefix = {"token_timeout_seconds": 0.05}
        async with fleet(tmp_path, 1, engine="vllm", prefix=prefix) as fleet_:
            fleet_.replicas[0].paths["/tokenize"] = Script(hold=asyncio.Event())
            for number in (1, 2):
                assert (await fleet_.say(f"{number}?")).status == 200
                agreed = await agreed_on(fleet_, number)
            assert agreed["foretold_tokens"] > 250
            failed = await fleet_.metric("stepwell_failures_total", component="tokens.llm")
            assert failed == 2


PATIENT = {"token_timeout_seconds": 30}


async def agreed_on(fleet_: Fleet, requests: int) -> dict[str, Any]:
    """Return what was foretold and reported, once so many requests are compared."""
    async with asyncio.timeout(10):
        while True:
            (report,) = await fleet_.reports()
            agreed: dict[str, Any] = report["agreed"]
            if agreed["requests"] >= requests:
                return agreed
            await asyncio.sleep(0.01)


class TestSalts:
    async def test_each_tenant_has_its_own_that_no_client_chooses(self, tmp_path: Path) -> None:
        async with fleet(tmp_path, 1, engine="vllm") as fleet_:
            await fleet_.say("one", key="sk-alice")
            await fleet_.say("two", key="sk-alice", cache_salt="bob's?")
            await fleet_.say("three", key="sk-bob")
            salts = [
                call.json()["cache_salt"]
                for call in fleet_.replicas[0].calls
                if call.path == "/v1/chat/completions"
            ]
            assert salts[0] == salts[1] != salts[2]
            cached = await fleet_.metric("stepwell_prefix_foretold_tokens_total", kind="cached")
            # Alice's second request alone meets a prefix: hers.
            assert 250 < cached < 350

    async def test_off_means_that_all_share(self, tmp_path: Path) -> None:
        table: dict[str, Any] = {"engine": "vllm", "prefix": {"salt": "off"}}
        async with fleet(tmp_path, 1, **table) as fleet_:
            await fleet_.say("one", key="sk-alice")
            await fleet_.say("two", key="sk-bob")
            for call in fleet_.replicas[0].calls:
                assert "cache_salt" not in call.json()
            cached = await fleet_.metric("stepwell_prefix_foretold_tokens_total", kind="cached")
            assert cached > 250


async def test_a_server_without_the_routes_is_read_as_text(tmp_path: Path) -> None:
    """What it says is an engine has no tokenizer's route: nothing fails."""
    async with FakeUpstream() as plain:
        settings = {"upstreams": {"llm": {"base_url": plain.base_url, "engine": "llamacpp"}}}
        async with running_gateway(tmp_path / "data", "", settings) as gateway:
            answer = await gateway.ask("Hello?")
            assert answer.status == 200
            assert (await gateway.ask("Hello?")).cache_status.startswith("stepwell; hit")
