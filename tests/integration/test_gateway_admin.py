"""What an operator may do, and that nobody else may."""

import json
from typing import Any

import pytest
from support.gateway import Answer, Gateway, StartGateway

from stepwell.testing.fake_upstream import FakeUpstream

INVALIDATE = "/admin/invalidate"


async def post(
    gateway: Gateway, path: str, body: Any, headers: dict[str, str] | None = None
) -> Answer:
    """Send something to an admin route, without a key."""
    return await gateway.post(body, path=path, key=None, headers=headers)


async def invalidate(gateway: Gateway, **body: Any) -> dict[str, int]:
    """Count, or remove, some entries; return what was said."""
    answer = await post(gateway, INVALIDATE, body)
    assert answer.status == 200
    said: dict[str, int] = json.loads(answer.body)
    return said


async def fill(gateway: Gateway) -> dict[str, Answer]:
    """Store three answers that differ in everything; return the replies by question."""
    asked: dict[str, dict[str, Any]] = {
        "one": {"headers": {"x-stepwell-tags": "a, b", "x-stepwell-class": "faq"}},
        "two": {"model": "fake-vllm", "metadata": {"stepwell_tags": "b"}},
        "three": {"key": "sk-other", "cache": {"namespace": "n"}},
    }
    return {text: await gateway.ask(text, **fields) for text, fields in asked.items()}


async def left(gateway: Gateway) -> list[str]:
    """Return which of the three are still there."""
    asked: dict[str, dict[str, Any]] = {
        "one": {},
        "two": {"model": "fake-vllm"},
        "three": {"key": "sk-other", "cache": {"namespace": "n"}},
    }
    answers = {text: await gateway.ask(text, **fields) for text, fields in asked.items()}
    return [text for text, answer in answers.items() if answer.headers["x-cache"] == "HIT"]


async def test_nothing_goes_unless_it_is_said(gateway: Gateway) -> None:
    """A dry run is the default: it counts."""
    await fill(gateway)
    assert await invalidate(gateway, everything=True) == {"matched": 3, "removed": 0}
    assert await left(gateway) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("selector", "gone"),
    [
        ({"model": "fake-vllm"}, ["two"]),
        ({"class": "faq"}, ["one"]),
        ({"class": "general"}, ["two", "three"]),
        ({"tag": "a"}, ["one"]),
        ({"tag": "b"}, ["one", "two"]),
        ({"tag": "b", "model": "fake"}, ["one"]),
        ({"tag": "b", "class": "general", "model": "fake-vllm"}, ["two"]),
        ({"tag": "c"}, []),
        ({"everything": True}, ["one", "two", "three"]),
    ],
    ids=str,
)
async def test_what_is_meant_goes_and_nothing_else(
    gateway: Gateway, selector: dict[str, Any], gone: list[str]
) -> None:
    """Everything that is given must match; a dry run says the same number."""
    await fill(gateway)
    counted = await invalidate(gateway, **selector)
    removed = await invalidate(gateway, **selector, dry_run=False)
    assert counted == {"matched": len(gone), "removed": 0}
    assert removed == {"matched": len(gone), "removed": len(gone)}
    assert await left(gateway) == [text for text in ("one", "two", "three") if text not in gone]


async def test_an_entry_goes_by_the_key_of_its_reply(gateway: Gateway) -> None:
    """`X-Stepwell-Key`, as it stands in the reply."""
    replies = await fill(gateway)
    key = replies["one"].headers["x-stepwell-key"]
    assert await invalidate(gateway, key=key, dry_run=False) == {"matched": 1, "removed": 1}
    assert await left(gateway) == ["two", "three"]


async def test_a_tenants_entries_go_by_its_namespace(
    start_gateway: StartGateway, capfd: pytest.CaptureFixture[str]
) -> None:
    """As it stands in the log; a sub-namespace is one of its own."""
    async with start_gateway(log={"target": "stderr"}) as gateway:
        await fill(gateway)
        await gateway.ask("four", key="sk-other")
    async with start_gateway() as gateway:
        lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
        tenants = [json.loads(line)["tenant"] for line in lines]
        assert [tenants.count(tenant) for tenant in tenants] == [2, 2, 1, 1]
        body = {"namespace": tenants[0], "dry_run": False}
        assert await invalidate(gateway, **body) == {"matched": 2, "removed": 2}
        assert await left(gateway) == ["three"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"dry_run": False},
        {"everything": False, "dry_run": False},
        {"everything": True, "model": "fake", "dry_run": False},
        {"key": "ab", "dry_run": False},
        {"key": "zz" * 32},
        {"namespace": "00" * 32},
        {"tags": ["a"], "dry_run": False},
        {"model": 1},
        {"dry_run": "no", "model": "fake"},
        [],
        b"{",
        b"\xff",
        b"",
    ],
    ids=str,
)
async def test_what_is_not_clear_removes_nothing(gateway: Gateway, body: Any) -> None:
    """Least of all everything: that must be said, and alone."""
    await fill(gateway)
    answer = await post(gateway, INVALIDATE, body)
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["type"] == "invalid_request_error"
    assert await left(gateway) == ["one", "two", "three"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_only_json_is_read(gateway: Gateway, kind: str) -> None:
    """A page of another site can make a browser send the others without asking."""
    await fill(gateway)
    body = b'{"everything": true, "dry_run": false}'
    for path in (INVALIDATE, "/admin/sources"):
        assert (await post(gateway, path, body, {"content-type": kind})).status == 415
    assert await left(gateway) == ["one", "two", "three"]


async def test_a_body_has_a_bound(gateway: Gateway) -> None:
    """64 KiB is more than any of these needs."""
    answer = await post(gateway, INVALIDATE, {"model": "m" * (64 << 10)})
    assert answer.status == 413


ROUTES: list[tuple[str, dict[str, Any] | None]] = [
    ("/admin/stats", None),
    (INVALIDATE, {"everything": True, "dry_run": False}),
    ("/admin/sources", {"name": "faq", "value": "v1"}),
]


async def call(
    gateway: Gateway, path: str, body: dict[str, Any] | None, headers: dict[str, str]
) -> Answer:
    """Use one of the admin routes."""
    if body is None:
        return await gateway.get(path, headers)
    return await post(gateway, path, body, headers)


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "evil.example"},
        {"host": "localhost.evil.example:80"},
        {"host": "10.0.0.1"},
        {"x-forwarded-for": "127.0.0.1"},
        {"x-forwarded-for": "203.0.113.9"},
    ],
    ids=str,
)
async def test_without_a_token_only_the_machine_itself_is_let_in(
    gateway: Gateway, fields: dict[str, str]
) -> None:
    """Not a page in its browser by another name (DNS rebinding), nor who comes by a proxy."""
    for path, body in ROUTES:
        answer = await call(gateway, path, body, fields)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (403, "admin_off")


async def test_the_machine_itself_is_let_in(gateway: Gateway) -> None:
    """By any of its loopback names."""
    for host in ("127.0.0.1", "localhost", "localhost:1234", "[::1]:80"):
        for path, body in ROUTES:
            assert (await call(gateway, path, body, {"host": host})).status == 200


WRONG: tuple[dict[str, str], ...] = (
    {},
    {"authorization": "Bearer secret"},
    {"authorization": "secret-token"},
)
FROM_AFAR: tuple[dict[str, str], ...] = (
    {},
    {"host": "stepwell.example"},
    {"x-forwarded-for": "203.0.113.9"},
)


async def test_with_a_token_it_is_the_token_that_counts(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback alone is not enough then, and neither is a caller's key."""
    monkeypatch.setenv("ADMIN_TOKEN", "secret-token")
    right = {"authorization": "Bearer secret-token"}
    async with start_gateway(server={"admin_token_env": "ADMIN_TOKEN"}) as gateway:
        for path, body in ROUTES:
            for wrong in WRONG:
                answer = await call(gateway, path, body, wrong)
                assert answer.status == 401
                assert json.loads(answer.body)["error"]["code"] == "invalid_api_key"
            for more in FROM_AFAR:
                assert (await call(gateway, path, body, {**right, **more})).status == 200


@pytest.mark.parametrize(
    "body",
    [
        {"name": "faq"},
        {"value": "v1"},
        {"name": "faq", "value": 1},
        {"name": "faq", "value": "v1", "namespace": "team-a"},
        {"name": "faq", "value": "v1", "for": "all"},
        {"name": "", "value": "v1"},
        {"name": "f" * 129, "value": "v1"},
        {"name": "faq", "value": "v" * 257},
        {"name": "faq", "value": "v1\n"},
    ],
    ids=str,
)
async def test_a_move_that_is_not_clear_moves_nothing(gateway: Gateway, body: Any) -> None:
    """A name, a value, and perhaps a namespace."""
    assert (await post(gateway, "/admin/sources", body)).status == 400


async def test_a_source_may_be_moved_for_one_tenant(
    start_gateway: StartGateway, capfd: pytest.CaptureFixture[str]
) -> None:
    """The others' answers stay fresh."""
    async with start_gateway(log={"target": "stderr"}) as gateway:
        for key in ("sk-a", "sk-b"):
            await gateway.ask("hi", key=key, headers={"x-stepwell-class": "faq"})
        lines: list[str] = []
        while len(lines) < 2:
            await gateway.get("/healthz")
            lines += [line for line in capfd.readouterr().err.splitlines() if line[:1] == "{"]
        moved = {
            "name": "last_updated",
            "value": "2026",
            "namespace": json.loads(lines[0])["tenant"],
        }
        assert (await post(gateway, "/admin/sources", moved)).body == b'{"moved":true}'
        seen = [
            (await gateway.ask("hi", key=key, headers={"x-stepwell-class": "faq"})).headers[
                "x-cache"
            ]
            for key in ("sk-a", "sk-b")
        ]
    assert seen == ["MISS", "HIT"]


async def test_the_ledger(gateway: Gateway, upstream: FakeUpstream) -> None:
    """What the cache saved, as JSON, up to the last request."""
    for _ in range(3):
        await gateway.ask("hi")
    answer = await gateway.get("/admin/stats")
    assert answer.headers["content-type"] == "application/json"
    statement = json.loads(answer.body)
    assert statement["requests"] == 3
    assert upstream.call_count == 1


@pytest.mark.parametrize("path", ["/admin", "/admin/", "/admin/invalidate/", "/admin/unknown"])
async def test_there_is_nothing_else(gateway: Gateway, path: str) -> None:
    """404 in OpenAI's words."""
    answer = await gateway.get(path)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, "not_found")
