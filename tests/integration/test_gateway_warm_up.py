"""System prompts that replicas read before requests need them."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.fleet import SYSTEM, Fleet, fleet

from stepwell.cli.main import main
from stepwell.testing.fake_upstream import Script

WARM: dict[str, Any] = {"prefix": {"warm": [{"model": "m", "system": SYSTEM}]}}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


async def test_the_first_request_finds_its_prompt_on_every_replica(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2, settings=WARM) as fleet_:
        await until(lambda: fleet_.calls == [1, 1])
        body = fleet_.replicas[0].calls[-1].json()
        assert (body["max_tokens"], body["messages"][0]["content"]) == (1, SYSTEM)
        for number in range(6):
            await fleet_.say(f"{number} is what is asked first")
        cached = await fleet_.metric("stepwell_prefix_foretold_tokens_total", kind="cached")
        assert cached >= 6 * 300
        assert await fleet_.metric("stepwell_warm_ups_total") == 2
        assert await fleet_.metric("stepwell_replica_requests_total", why="warm-up") == 2


async def test_an_upstream_that_is_one_server_is_warmed_too(tmp_path: Path) -> None:
    async with fleet(tmp_path, 1, settings=WARM) as fleet_:
        await until(lambda: fleet_.calls == [1])


async def test_each_tenants_copy_has_its_salt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALICES", "sk-alice")
    settings: dict[str, Any] = {
        "auth": {"mode": "keys", "keys": [{"tenant": "alice", "key_env": "ALICES"}]},
        "prefix": {"warm": [{"model": "m", "system": SYSTEM, "tenant": "alice"}]},
    }
    async with fleet(tmp_path, 1, settings=settings, engine="vllm") as fleet_:
        await until(lambda: fleet_.calls == [1])
        assert (await fleet_.say("hi", key="sk-alice")).status == 200
        first, second = [
            call.json()["cache_salt"]
            for call in fleet_.replicas[0].calls
            if call.path == "/v1/chat/completions"
        ]
        assert first == second
        assert (await fleet_.reports())[0]["agreed"]["cached_tokens"] > 300


async def test_one_that_comes_back_is_warmed_again(tmp_path: Path) -> None:
    async with fleet(tmp_path, 2, settings=WARM) as fleet_:
        await until(lambda: fleet_.calls == [1, 1])
        await fleet_.replicas[0].__aexit__()
        # Requests find out; all are answered.
        for number in range(12):
            assert (await fleet_.say(f"{number}", f"{number}", f"{number}")).status == 200
            if (await fleet_.reports())[0]["losses"]:
                break
        fleet_.replicas[0].calls.clear()
        await fleet_.replicas[0].__aenter__()
        await until(lambda: fleet_.calls[0] >= 1)
        assert fleet_.replicas[0].calls[-1].json()["max_tokens"] == 1


async def test_a_replica_that_refuses_it_is_told_of_and_serves_requests(tmp_path: Path) -> None:
    async with fleet(tmp_path, 1) as other:
        replica = other.replicas[0]
        replica.scripts["m"] = Script(status=400)
        settings = {**WARM, "upstreams": {"llm": {"replicas": [replica.base_url]}}}
        async with fleet(tmp_path, 0, settings=settings) as fleet_:
            await until(lambda: other.calls == [1])
            replica.scripts["m"] = Script()
            assert (await fleet_.say("hi")).status == 200
            failures = await fleet_.metric("stepwell_failures_total", component="warm-up.llm")
            assert failures == 1


async def test_of_two_gateways_on_one_directory_one_warms(tmp_path: Path) -> None:
    """When it has gone, the other does."""
    async with fleet(tmp_path / "models", 1) as models, AsyncExitStack() as first:
        upstreams = {"llm": {"replicas": [models.replicas[0].base_url]}}
        settings = {**WARM, "upstreams": upstreams}
        await first.enter_async_context(fleet(tmp_path, 0, settings=settings))
        await until(lambda: models.calls == [1])
        async with fleet(tmp_path, 0, settings=settings):
            await asyncio.sleep(1.2)
            assert models.calls == [1]
            await first.aclose()
            await until(lambda: models.calls == [2])


class TestByHand:
    async def run(self, fleet_: Fleet, tmp_path: Path, *arguments: str, warm: str = "") -> int:
        urls = [replica.base_url for replica in fleet_.replicas]
        file = tmp_path / "stepwell.toml"
        file.write_text(f"{warm}\n[upstreams.llm]\nreplicas = {json.dumps(urls)}\n")
        call = ["warm", "--config", str(file), "--data", str(tmp_path / "data"), *arguments]
        return await asyncio.to_thread(main, call)

    async def test_says_what_was_cached_before_and_is_now(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        system = tmp_path / "system.txt"
        system.write_text(SYSTEM)
        async with fleet(tmp_path, 2) as fleet_:
            await fleet_.say("hi")
            holder = fleet_.calls.index(1)
            arguments = ["--system", str(system), "--model", "m"]
            assert await self.run(fleet_, tmp_path, *arguments) == 0
            head, *rows = capsys.readouterr().out.splitlines()
            assert head.split()[-4:] == ["cached", "before", "cached", "now"]
            assert all(float(row.split()[-4]) < 20 for row in rows)
            before = [int(row.split()[-2]) for row in rows]
            assert (before[holder], before[1 - holder]) == (302, 0)
            assert [int(row.split()[-1]) for row in rows] == [303, 303]

    async def test_those_of_the_settings(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "system.txt").write_text(SYSTEM)
        warm = '[[prefix.warm]]\nmodel = "m"\nsystem_file = "system.txt"'
        async with fleet(tmp_path, 1) as fleet_:
            assert await self.run(fleet_, tmp_path, warm=warm) == 0
            assert capsys.readouterr().out.splitlines()[1].startswith("prefix.warm.0")

    async def test_one_that_fails_is_named(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        warm = '[[prefix.warm]]\nmodel = "m"\nsystem = "Be brief."'
        async with fleet(tmp_path, 2) as fleet_:
            fleet_.replicas[0].scripts["m"] = Script(status=404)
            assert await self.run(fleet_, tmp_path, warm=warm) == 1
            said = capsys.readouterr()
            assert "answered 404" in said.err
            assert said.out.splitlines()[1].split()[-1] == "failed"

    async def test_through_the_gateway(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It needs nothing but its address: upstreams, secret and salts are the gateway's."""
        system = tmp_path / "system.txt"
        system.write_text(SYSTEM)
        call = ["warm", "--system", str(system), "--model", "m", "--gateway"]
        async with fleet(tmp_path, 2) as fleet_:
            await fleet_.move((await fleet_.reports())[1]["replica"], "draining")
            assert await asyncio.to_thread(main, [*call, fleet_.gateway.origin]) == 0
            _, first, second = capsys.readouterr().out.splitlines()
            assert (first.split()[:2], first.split()[-2:]) == (
                ["prefix.warm.0", "llm"],
                ["0", "303"],
            )
            assert second.split()[-1] == "draining"
            assert (await fleet_.say("hi")).status == 200
            assert (await fleet_.reports())[0]["agreed"]["cached_tokens"] > 600
            fleet_.replicas[0].scripts["m"] = Script(status=500)
            assert await asyncio.to_thread(main, [*call, fleet_.gateway.origin]) == 1
            said = capsys.readouterr()
            assert "answered 500" in said.err
            assert said.out.splitlines()[1].split()[-1] == "failed"

    async def test_what_runs_in_the_gateway_is_read_through_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The one of the settings, where none is named."""
        file = tmp_path / "stepwell.toml"
        text = '[[prefix.warm]]\nmodel = "m"\nsystem = "Be brief."\n[upstreams.llm]\n'
        async with fleet(tmp_path, 1) as fleet_:
            port = fleet_.gateway.origin.rpartition(":")[2]
            file.write_text(f'{text}kind = "embedded"\n[server]\nport = {port}\n')
            assert await asyncio.to_thread(main, ["warm", "--config", str(file)]) == 0
            assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["prefix.warm.0", "llm"]
            assert fleet_.calls == [2]

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ([], "Nothing to warm"),
            (["--model", "m"], "--system is missing"),
            (["--system", "none.txt"], "--model is missing"),
            (["--system", "none.txt", "--model", "m"], "none.txt cannot be read"),
            (["--system", "none.txt", "--model", "m", "--upstream", "x"], "allowed: llm"),
        ],
    )
    async def test_a_wrong_call_says_how(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        arguments: list[str],
        expected: str,
    ) -> None:
        async with fleet(tmp_path, 1) as fleet_:
            assert await self.run(fleet_, tmp_path, *arguments) == 2
            assert expected in capsys.readouterr().err
