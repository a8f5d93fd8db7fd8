"""``stepwell replicas``, as an operator runs it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fleet import Fleet, fleet
from support.gateway import Gateway, StartGateway
from support.raw_server import serving

from stepwell.cli.admin_client import AdminClient
from stepwell.cli.main import main
from stepwell.core.errors import ConfigError
from stepwell.testing.fake_upstream import FakeUpstream

Run = Callable[..., Any]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command beside the gateway; return status, output and what is said beside it."""

    async def run(fleet_: Fleet | Gateway, *arguments: str) -> tuple[int, str, str]:
        gateway = fleet_.gateway if isinstance(fleet_, Fleet) else fleet_
        call = ["replicas", "--gateway", gateway.origin, *arguments]
        status = await asyncio.to_thread(main, call)
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


async def test_shows_each_replica(tmp_path: Path, run: Run) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        await fleet_.say("one")
        await fleet_.say("two")
        status, out, _ = await run(fleet_)
        head, *rows = out.splitlines()
        assert (status, head.split()[:3]) == (0, ["upstream", "replica", "condition"])
        assert [row.split()[:3] for row in rows] == [
            ["llm", report["replica"], "ready"] for report in await fleet_.reports()
        ]
        assert any("%" in row for row in rows)
        _, out, _ = await run(fleet_, "--json")
        assert json.loads(out)["replicas"] == await fleet_.reports()


async def test_drains_one_and_lets_it_serve_again(tmp_path: Path, run: Run) -> None:
    async with fleet(tmp_path, 2) as fleet_:
        name = (await fleet_.reports())[0]["replica"]
        status, out, err = await run(fleet_, "--drain", name)
        assert (status, err) == (0, f"{name} of llm is draining.\n")
        assert out.splitlines()[1].split()[2] == "draining"
        _, _, err = await run(fleet_, "--drain", name, "--upstream", "llm")
        assert err == f"{name} of llm was already draining.\n"
        await fleet_.replicas[0].__aexit__()
        await run(fleet_, "--serve", name)
        assert (await fleet_.reports())[0]["wanted"] == "serving"
        await fleet_.replicas[0].__aenter__()


async def test_says_what_is_wrong_and_what_there_is(tmp_path: Path, run: Run) -> None:
    async with fleet(tmp_path, 1) as fleet_:
        name = (await fleet_.reports())[0]["replica"]
        for arguments in (["--drain", "nobody"], ["--serve", name, "--upstream", "other"]):
            status, out, err = await run(fleet_, *arguments)
            assert (status, out) == (2, "")
            assert f"known: {name} (llm)." in err


async def test_one_name_in_two_upstreams(
    start_gateway: StartGateway, upstream: FakeUpstream, run: Run
) -> None:
    urls = [upstream.base_url]
    tables = {"a": {"replicas": urls, "models": ["a"]}, "b": {"replicas": urls}}
    async with start_gateway(upstreams=tables) as gateway:
        name = json.loads((await gateway.get("/admin/replicas")).body)["replicas"][0]["replica"]
        status, _, err = await run(gateway, "--drain", name)
        assert (status, "add --upstream: a, b." in err) == (2, True)
        assert (await run(gateway, "--drain", name, "--upstream", "b"))[0] == 0
        reports = json.loads((await gateway.get("/admin/replicas")).body)["replicas"]
        assert [one["wanted"] for one in reports] == ["serving", "draining"]


async def test_a_gateway_without_replicas(gateway: Gateway, run: Run) -> None:
    status, out, _ = await run(gateway)
    assert (status, out.startswith("No upstream has replicas")) == (0, True)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:9", "nothing answers at http://127.0.0.1:9"),
        ("127.0.0.1:8080", "allowed: such as http://127.0.0.1:8080"),
        ("http://127.0.0.1:99999", "allowed: such as http://"),
        ("ftp://127.0.0.1", "allowed: such as http://"),
        ("http://", "allowed: such as http://"),
    ],
)
def test_an_address_that_is_none(url: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        AdminClient(url, None).get("/admin/replicas")


async def test_another_server_there(tmp_path: Path) -> None:
    """It answers, but is no gateway: what it says is not printed as if it were."""
    async with fleet(tmp_path, 1) as fleet_:
        client = AdminClient(fleet_.gateway.origin, None)
        with pytest.raises(ConfigError, match="answers 200 and no JSON"):
            await asyncio.to_thread(client.get, "/metrics")
        with pytest.raises(ConfigError, match="answers 404: "):
            await asyncio.to_thread(client.get, "/nowhere")


async def test_what_a_server_says_cannot_write_on_the_terminal() -> None:
    said = json.dumps({"error": {"message": "\x1b[31mred\n" + "x" * 5_000}}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-length: {len(said)}\r\n\r\n"
        writer.write(head.encode() + said)
        await writer.drain()

    async with serving(answer) as port:
        client = AdminClient(f"http://127.0.0.1:{port}", None)
        with pytest.raises(ConfigError, match="answers 400: ") as refused:
            await asyncio.to_thread(client.get, "/admin/replicas")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 1_200


async def test_the_settings_say_where_and_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADMIN", "sesame")
    async with fleet(tmp_path, 1, settings={"server": {"admin_token_env": "ADMIN"}}) as fleet_:
        port = fleet_.gateway.origin.rpartition(":")[2]
        file = tmp_path / "stepwell.toml"
        file.write_text(f'[server]\nhost = "0.0.0.0"\nport = {port}\nadmin_token_env = "ADMIN"\n')
        call = ["replicas", "--config", str(file)]
        assert await asyncio.to_thread(main, call) == 0
        monkeypatch.setenv("OTHER", "wrong")
        assert await asyncio.to_thread(main, [*call, "--admin-token-env", "OTHER"]) == 2
        assert "answers 401: The admin token is wrong." in capsys.readouterr().err
