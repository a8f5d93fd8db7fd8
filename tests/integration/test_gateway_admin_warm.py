"""A prompt that an operator has the model servers read, through the gateway."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.fleet import SYSTEM, Fleet, fleet
from support.gateway import Answer, Gateway, StartGateway

from stepwell.testing.fake_upstream import Script

PATH = "/admin/warm"


async def warm(gateway: Gateway, **body: Any) -> Answer:
    """Ask for it; ``body`` stands over a prompt of every day."""
    return await gateway.post({"model": "m", "system": SYSTEM, **body}, path=PATH, key=None)


async def readings(fleet_: Fleet, **body: Any) -> list[dict[str, Any]]:
    answer = await warm(fleet_.gateway, **body)
    assert answer.status == 200, answer.body
    said = json.loads(answer.body)
    assert said["upstream"] == "llm"
    replicas: list[dict[str, Any]] = said["replicas"]
    return replicas


async def test_each_replica_reads_it_and_says_what_that_took(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        first, again = await readings(fleet_), await readings(fleet_)
        names = [report["replica"] for report in await fleet_.reports()]
        assert [one["replica"] for one in first] == names
        assert {one["outcome"] for one in (*first, *again)} == {"read"}
        assert [(one["tokens"], one["cached"]) for one in first] == [(304, 0)] * 2
        assert [one["cached"] for one in again] == [303] * 2
        assert all(0 < one["seconds"] < 20 for one in (*first, *again))
        sent = fleet_.replicas[0].calls[-1].json()
        assert (sent["max_tokens"], sent["messages"][0]["content"]) == (1, SYSTEM)
        assert await fleet_.metric("stepwell_warm_ups_total") == 4
        # What it has learnt by that counts: the next request goes where the prompt is.
        await fleet_.say("hi")
        foretold = await fleet_.metric("stepwell_prefix_foretold_tokens_total", kind="met")
        assert foretold >= 300


async def test_who_drains_is_left_out_and_who_fails_is_named(tmp_path: Path) -> None:
    async with fleet(tmp_path, 3) as fleet_:
        drained, failing, last = [report["replica"] for report in await fleet_.reports()]
        await fleet_.move(drained, "draining")
        fleet_.replicas[1].scripts["m"] = Script(status=400)
        left_out, failed, read = await readings(fleet_)
        assert left_out == {"outcome": "left_out", "replica": drained, "condition": "draining"}
        assert (failed["outcome"], failed["replica"]) == ("failed", failing)
        assert "answered 400" in failed["why"]
        assert (read["outcome"], read["replica"]) == ("read", last)
        assert fleet_.calls == [0, 1, 1]


async def test_one_server_whose_prefixes_nobody_follows(start_gateway: StartGateway) -> None:
    """As the embedded model is by default."""
    async with start_gateway() as gateway:
        said = json.loads((await warm(gateway)).body)
        (one,) = said["replicas"]
        assert (said["upstream"], one["replica"], one["outcome"]) == ("fake", "fake", "read")
        assert one["tokens"] > 0


async def test_a_tenants_copy_has_its_salt_and_its_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALICES", "sk-alice")
    auth = {"mode": "keys", "keys": [{"tenant": "alice", "key_env": "ALICES"}]}
    tools = [{"type": "function", "function": {"name": "f"}}]
    async with fleet(tmp_path, 1, settings={"auth": auth}, engine="vllm") as fleet_:
        await readings(fleet_, tenant="alice", tools=tools)
        assert (await fleet_.say("hi", key="sk-alice", tools=tools)).status == 200
        first, second = [
            call.json() for call in fleet_.replicas[0].calls if call.path == "/v1/chat/completions"
        ]
        assert first["cache_salt"] == second["cache_salt"]
        assert first["tools"] == second["tools"] == tools


async def test_several_at_once_are_all_read(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        said = await asyncio.gather(*(readings(fleet_) for _ in range(4)))
        assert {one["outcome"] for replicas in said for one in replicas} == {"read"}
        assert fleet_.calls == [4, 4]
        assert [report["load"] for report in await fleet_.reports()] == [0, 0]


async def test_they_read_on_when_who_asked_has_left(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        first, second = fleet_.replicas
        first.scripts["m"] = Script(hold=(hold := asyncio.Event()))
        asking = asyncio.create_task(warm(fleet_.gateway))
        await first.wait_for_calls(1)
        asking.cancel()
        await asyncio.wait([asking])
        hold.set()
        await second.wait_for_calls(1)


async def test_a_gateway_that_stops_breaks_it_off(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        first, second = fleet_.replicas
        first.scripts["m"] = Script(hold=asyncio.Event())
        asking = asyncio.create_task(warm(fleet_.gateway))
        await first.wait_for_calls(1)
    with pytest.raises(aiohttp.ClientError):
        await asking
    assert second.call_count == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"upstream": "nobody"}, "allowed: llm"),
        ({"upstream": ""}, "allowed: llm"),
        ({"model": "other"}, "no upstream serves"),
        ({"model": ""}, "$.model"),
        ({"system": ""}, "$.system"),
        ({"tools": []}, "$.tools"),
        ({"tools": ["f"]}, "$.tools"),
        ({"tenant": "nobody"}, "auth.mode"),
        ({"pin_seconds": -1}, "$.pin_seconds"),
        ({"pin_seconds": 60}, 'kind = "torch"'),
        ({"public": True}, 'kind = "torch"'),
        ({"public": True, "tenant": "a"}, "public and tenant"),
        ({"pinned": True}, "pinned"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_why(
    tmp_path: Path, body: dict[str, Any], expected: str
) -> None:
    async with fleet(tmp_path, 1, models=["m"]) as fleet_:
        answer = await warm(fleet_.gateway, **body)
        assert answer.status == 400
        assert expected in json.loads(answer.body)["error"]["message"]
        assert fleet_.calls == [0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"model": "m", "system": "\\ud800"}',
        b'{"model": "m", "system": "a", "tools": [{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}]}",
        b'{"model": "m", "system": "a", "tools": [{"a": ' + b"9" * 400 + b"}]}",
        b'{"model": "m", "system": "a", "pin_seconds": 1e999}',
    ],
)
async def test_what_two_parsers_read_differently_is_refused(tmp_path: Path, body: bytes) -> None:
    async with fleet(tmp_path, 1) as fleet_:
        assert (await fleet_.gateway.post(body, path=PATH, key=None)).status == 400
        assert fleet_.calls == [0]


async def test_it_may_be_as_long_as_a_request_and_no_longer(tmp_path: Path) -> None:
    settings = {"server": {"max_body_bytes": 200_000}}
    async with fleet(tmp_path, 1, settings=settings) as fleet_:
        assert (await warm(fleet_.gateway, system="a " * 50_000)).status == 200
        assert (await warm(fleet_.gateway, system="a " * 100_000)).status == 413


async def test_operators_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t" * 32)
    body = {"model": "m", "system": SYSTEM}
    async with fleet(tmp_path / "open", 1) as fleet_:
        forwarded = {"x-forwarded-for": "10.0.0.9"}
        answer = await fleet_.gateway.post(body, path=PATH, headers=forwarded)
        assert (answer.status, fleet_.calls) == (403, [0])
        form = {"content-type": "text/plain"}
        assert (await fleet_.gateway.post(body, path=PATH, headers=form)).status == 415
    settings = {"server": {"admin_token_env": "TOKEN"}}
    async with fleet(tmp_path / "shut", 1, settings=settings) as fleet_:
        assert (await warm(fleet_.gateway)).status == 401
        assert (await fleet_.gateway.post(body, path=PATH, key="t" * 32)).status == 200
