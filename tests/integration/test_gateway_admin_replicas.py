"""Looking at replicas, and taking one out of service."""

import asyncio
import json
from pathlib import Path

import pytest
from support.fleet import fleet
from support.gateway import Gateway, running_gateway

from stepwell.testing.fake_upstream import FakeUpstream, Script


async def test_each_replica_is_shown_as_it_is(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        for turn in range(3):
            await fleet_.say(f"question {turn}")
        holder = fleet_.calls.index(3)
        reports = await fleet_.reports()
        told, other = reports[holder], reports[1 - holder]
        assert [report["upstream"] for report in reports] == ["llm", "llm"]
        assert fleet_.replicas[holder].base_url == f"http://{told['replica']}/v1"
        assert (told["wanted"], told["condition"], told["load"]) == ("serving", "ready", 0)
        assert told["held_tokens"] > 300
        agreed = told["agreed"]
        assert agreed["requests"] == 3
        assert 0 < agreed["met_tokens"] <= agreed["cached_tokens"] < agreed["prompt_tokens"]
        assert (other["held_tokens"], other["agreed"]["requests"]) == (0, 0)


async def test_what_is_in_flight_is_shown(tmp_path: Path) -> None:
    async with fleet(tmp_path, 1) as fleet_:
        held = asyncio.Event()
        fleet_.replicas[0].scripts["m"] = Script(hold=held)
        asking = asyncio.create_task(fleet_.say("one"))
        await fleet_.replicas[0].wait_for_calls(1)
        (report,) = await fleet_.reports()
        assert report["load"] >= 1
        held.set()
        assert (await asking).status == 200
        assert (await fleet_.reports())[0]["load"] == 0


async def test_one_that_is_down_is_shown_with_how_long(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        await fleet_.say("one")
        holder = fleet_.calls.index(1)
        await fleet_.replicas[holder].__aexit__()
        await fleet_.say("two")
        report = (await fleet_.reports())[holder]
        assert report["condition"] == "down"
        assert 0 < report["down_seconds"] <= 1
        assert (report["held_tokens"], report["losses"]) == (0, 1)
        await fleet_.replicas[holder].__aenter__()


async def test_one_that_drains_gets_no_work_until_it_serves_again(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        await fleet_.say("one")
        holder = fleet_.calls.index(1)
        name = (await fleet_.reports())[holder]["replica"]
        moved = await fleet_.move(name, "draining")
        assert (moved.status, json.loads(moved.body)) == (200, {"moved": True})
        assert json.loads((await fleet_.move(name, "draining")).body) == {"moved": False}
        report = (await fleet_.reports())[holder]
        assert (report["wanted"], report["condition"]) == ("draining", "draining")
        await asyncio.gather(*[fleet_.say(f"question {number}") for number in range(4)])
        assert fleet_.calls[holder] == 1
        # What it holds is not forgotten: it may serve again.
        assert report["held_tokens"] > 300
        await fleet_.move(name, "serving")
        await fleet_.move((await fleet_.reports())[1 - holder]["replica"], "draining")
        assert (await fleet_.say("again?")).status == 200
        assert fleet_.calls[holder] == 2


async def test_when_all_drain_no_request_fails(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        for report in await fleet_.reports():
            await fleet_.move(report["replica"], "draining")
        assert (await fleet_.say("anybody?")).status == 200


async def test_every_worker_obeys_though_it_never_asks_its_cache(tmp_path: Path) -> None:
    """Of two gateways on one directory, one is told; the other has only requests of nobody."""
    async with FakeUpstream() as one, FakeUpstream() as two:
        upstream = {"replicas": [one.base_url, two.base_url]}
        settings = {"upstreams": {"llm": upstream}}
        data = tmp_path / "data"
        async with (
            running_gateway(data, "", settings) as told,
            running_gateway(data, "", settings) as other,
        ):
            before = json.loads((await other.get("/admin/replicas")).body)["replicas"]
            body = {"upstream": "llm", "replica": before[0]["replica"], "state": "draining"}
            assert (await told.post(body, path="/admin/replicas", key=None)).status == 200
            for number in range(6):
                await other.ask(f"{number} is what this begins with", key=None)
            assert (one.call_count, two.call_count) == (0, 6)
            after = json.loads((await other.get("/admin/replicas")).body)["replicas"]
            assert [report["wanted"] for report in after] == ["draining", "serving"]


@pytest.mark.parametrize(
    ("upstream", "replica", "code", "known"),
    [
        ("llm", "nobody:1", "replica_not_found", "127.0.0.1:"),
        ("nobody", "nobody:1", "upstream_not_found", "known: llm"),
        ("", "", "upstream_not_found", "known: llm"),
    ],
)
async def test_unknown_names_are_refused_with_the_known_ones(
    tmp_path: Path, upstream: str, replica: str, code: str, known: str
) -> None:
    async with fleet(tmp_path, 1) as fleet_:
        answer = await fleet_.move(replica, "draining", upstream)
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"]) == (404, code)
        assert known in error["message"]


async def test_a_state_that_is_none_is_refused_with_those_there_are(tmp_path: Path) -> None:
    async with fleet(tmp_path, 1) as fleet_:
        (report,) = await fleet_.reports()
        answer = await fleet_.move(report["replica"], "gone")
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["param"]) == (400, "state")
        assert "serving, draining" in error["message"]
        assert (await fleet_.reports())[0]["wanted"] == "serving"


async def test_a_caller_cannot_drain_a_replica(tmp_path: Path) -> None:
    """Requests state values of sources, too: of their own tenant's only."""
    async with fleet(tmp_path, 2) as fleet_:
        (report, _) = await fleet_.reports()
        stated = f"replica:llm/{report['replica']}=draining"
        answer = await fleet_.gateway.ask("hi", headers={"X-Stepwell-Sources": stated})
        assert answer.status in {200, 400}
        assert [one["wanted"] for one in await fleet_.reports()] == ["serving"] * 2


async def test_an_upstream_without_replicas_is_not_among_them(gateway: Gateway) -> None:
    said = await gateway.get("/admin/replicas")
    assert (said.status, json.loads(said.body)) == (200, {"replicas": []})


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_operators_only(tmp_path: Path, method: str) -> None:
    async with fleet(tmp_path, 1) as fleet_:
        forwarded = {"x-forwarded-for": "10.0.0.9"}
        if method == "GET":
            answer = await fleet_.gateway.get("/admin/replicas", headers=forwarded)
        else:
            answer = await fleet_.gateway.post({}, path="/admin/replicas", headers=forwarded)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (403, "admin_off")


async def test_what_was_said_stays_said_over_a_restart(tmp_path: Path) -> None:
    async with fleet(tmp_path / "models", 2) as models:
        urls = [replica.base_url for replica in models.replicas]
        settings = {"upstreams": {"llm": {"replicas": urls}}}
        async with fleet(tmp_path, 0, settings=settings) as before:
            await before.move((await before.reports())[0]["replica"], "draining")
        async with fleet(tmp_path, 0, settings=settings) as after:
            states = [report["wanted"] for report in await after.reports()]
            assert states == ["draining", "serving"]
            assert (await after.say("hi")).status == 200
            assert models.calls == [0, 1]
