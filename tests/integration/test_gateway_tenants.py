"""Nobody has an answer, or learns of one, that was made for somebody else."""

import asyncio
import hashlib
import json
from typing import Any

import pytest
from support.gateway import Answer, Gateway, StartGateway, question

from stepwell.testing.fake_upstream import FakeUpstream, Received, Script


async def verdict(gateway: Gateway, key: str | None, **fields: Any) -> str:
    """Ask the same question with some key; return what the answer says of itself."""
    return str((await gateway.ask("the question", key=key, **fields)).headers["x-cache"])


def authorization(received: Received) -> str | None:
    """Return the field the model server saw."""
    return dict(received.headers).get("authorization")


class TestPassthrough:
    """Each bearer token is a tenant; the model server checks it."""

    async def test_two_tokens_never_share(self, gateway: Gateway, upstream: FakeUpstream) -> None:
        """Each has its own entry, under its own key."""
        seen = [await verdict(gateway, key) for key in ("sk-a", "sk-b", "sk-a", "sk-b")]
        assert seen == ["MISS", "MISS", "HIT", "HIT"]
        keys = {
            (await gateway.ask("the question", key=key)).headers["x-stepwell-key"]
            for key in ("sk-a", "sk-b")
        }
        assert len(keys) == 2
        assert upstream.call_count == 2

    @pytest.mark.parametrize("near", ["sk-A", "sk-aa", "sk-", "sk-a sk-a", "name:sk-a"])
    async def test_tokens_that_look_alike_are_different(self, gateway: Gateway, near: str) -> None:
        """To the byte."""
        await verdict(gateway, "sk-a")
        assert await verdict(gateway, near) == "MISS"

    @pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
    async def test_the_scheme_is_written_as_one_likes(self, gateway: Gateway, scheme: str) -> None:
        """RFC 9110 (11.1): its case does not matter."""
        await verdict(gateway, "sk-a")
        fields = {"headers": {"authorization": f"{scheme} sk-a"}}
        assert await verdict(gateway, None, **fields) == "HIT"

    async def test_concurrent_requests_of_two_tokens_share_no_call(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """The same question at the same time: one call for each, with its own token."""
        go_on = asyncio.Event()
        upstream.scripts["fake"] = Script(hold=go_on)
        keys = ["sk-a", "sk-b"] * 5
        asked = [asyncio.create_task(gateway.ask("the question", key=key)) for key in keys]
        await upstream.wait_for_calls(2)
        go_on.set()
        answers = [await task for task in asked]
        assert [answer.status for answer in answers] == [200] * 10
        assert sorted(map(str, map(authorization, upstream.calls))) == [
            "Bearer sk-a",
            "Bearer sk-b",
        ]

    async def test_a_source_that_one_states_is_not_the_others(self, gateway: Gateway) -> None:
        """Its entries stay fresh."""
        v1 = {"headers": {"x-stepwell-sources": "faq=v1"}}
        v2 = {"headers": {"x-stepwell-sources": "faq=v2"}}
        for key in ("sk-a", "sk-b"):
            await verdict(gateway, key, **v1)
        assert await verdict(gateway, "sk-a", **v2) == "MISS"
        assert await verdict(gateway, "sk-b", **v1) == "HIT"
        assert await verdict(gateway, "sk-b") == "HIT"

    async def test_a_sub_namespace_does_not_lead_to_another_tenant(self, gateway: Gateway) -> None:
        """Its name means something only inside the tenant's own space."""
        space = {"cache": {"namespace": "shared"}}
        assert [await verdict(gateway, key, **space) for key in ("sk-a", "sk-b")] == ["MISS"] * 2
        for name in ("sk-a", "token:sk-a"):
            assert await verdict(gateway, "sk-b", cache={"namespace": name}) == "MISS"

    async def test_without_a_key_nothing_is_cached(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """Whoever asks is nobody in particular, so nothing is looked up or stored."""
        for fields in ({}, {}, {"headers": {"authorization": "Basic c2stYQ=="}}):
            answer = await gateway.ask("the question", key=None, **fields)
            assert answer.status == 200
            assert answer.headers["x-stepwell-bypass"] == "no API key"
            assert answer.headers["x-cache"] == "BYPASS"
            assert answer.cache_status == 'stepwell; fwd=bypass; detail="no API key"'
            assert "x-stepwell-key" not in answer.headers
        assert upstream.call_count == 3
        counted = await gateway.post({"everything": True}, path="/admin/invalidate", key=None)
        assert json.loads(counted.body)["matched"] == 0

    async def test_the_token_reaches_the_model_server(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """As it came, for every operation; fields that are not for it do not."""
        await gateway.ask("hi", key="sk-a", headers={"x-secret": "1", "cookie": "a=b"})
        await gateway.post({"model": "m", "input": "hi"}, path="/v1/embeddings", key="sk-b")
        await gateway.get("/v1/models", {"authorization": "Bearer sk-c"})
        # A text that is embedded to see whether the model is the same may come along.
        seen = {authorization(received) for received in upstream.calls}
        assert seen == {"Bearer sk-a", "Bearer sk-b", "Bearer sk-c"}
        sent = {name for name, _ in upstream.calls[0].headers}
        assert not sent & {"x-secret", "cookie", "x-stepwell-class"}

    async def test_a_model_server_with_a_key_of_its_own_does_not_see_the_callers(
        self,
        start_gateway: StartGateway,
        upstream: FakeUpstream,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """`api_key_env`: callers are still told apart by their own."""
        monkeypatch.setenv("UPSTREAM_KEY", "sk-upstream")
        table = {"base_url": upstream.base_url, "api_key_env": "UPSTREAM_KEY"}
        async with start_gateway(upstreams={"fake": table}) as gateway:
            assert [await verdict(gateway, key) for key in ("sk-a", "sk-b", "sk-a")] == [
                "MISS",
                "MISS",
                "HIT",
            ]
            await gateway.ask("hi", key=None)
        assert {authorization(received) for received in upstream.calls} == {"Bearer sk-upstream"}


def keys_mode(**keys: str) -> dict[str, Any]:
    """Return settings that let in only ``keys``; each argument is a key and its tenant."""
    return {
        "auth": {
            "mode": "keys",
            "keys": [
                {"tenant": tenant, "key_sha256": hashlib.sha256(key.encode()).hexdigest()}
                for key, tenant in keys.items()
            ],
        }
    }


class TestKeys:
    """Only known keys are let in."""

    @pytest.fixture
    async def settings(self) -> dict[str, Any]:
        """Two keys of one team, one of another."""
        return keys_mode(one="team-a", two="team-a", three="team-b")

    async def test_keys_of_one_tenant_share(
        self, start_gateway: StartGateway, settings: dict[str, Any]
    ) -> None:
        """And those of two do not."""
        async with start_gateway(**settings) as gateway:
            seen = [await verdict(gateway, key) for key in ("one", "two", "three", "three")]
        assert seen == ["MISS", "HIT", "MISS", "HIT"]

    @pytest.mark.parametrize("key", ["four", "", "ONE", None])
    async def test_others_are_turned_away_before_anything_is_looked_up(
        self,
        start_gateway: StartGateway,
        upstream: FakeUpstream,
        settings: dict[str, Any],
        key: str | None,
    ) -> None:
        """401 in OpenAI's words on every route under ``/v1``, whatever is stored."""
        async with start_gateway(**settings) as gateway:
            await verdict(gateway, "one")
            asked = upstream.call_count
            fields = {} if key is None else {"authorization": f"Bearer {key}"}
            answers = [
                await gateway.ask("the question", key=key),
                await gateway.ask("the question", key=key, stream=True),
                await gateway.post(b"not even JSON", key=key),
                await gateway.post({"model": "m"}, path="/v1/embeddings", key=key),
                await gateway.get("/v1/models", fields),
                await gateway.get("/v1/models/fake", fields),
                await gateway.get("/v1/chat/completions", fields),
            ]
        for answer in answers:
            assert answer.status == 401
            assert json.loads(answer.body)["error"]["code"] == "invalid_api_key"
            assert "x-cache" not in answer.headers
        assert upstream.call_count == asked

    async def test_a_repeat_with_another_key_is_no_repeat(
        self, start_gateway: StartGateway, settings: dict[str, Any]
    ) -> None:
        """The short way knows a request by its key, too: the same bytes, but turned away."""
        async with start_gateway(**settings) as gateway:
            for _ in range(3):
                await verdict(gateway, "one")
            assert (await gateway.ask("the question", key="four")).status == 401
            assert (await gateway.ask("the question", key=None)).status == 401
            assert await verdict(gateway, "three") == "MISS"

    async def test_the_callers_key_stays_here(
        self, start_gateway: StartGateway, upstream: FakeUpstream, settings: dict[str, Any]
    ) -> None:
        """It is the gateway's, and no business of a model server's."""
        async with start_gateway(**settings) as gateway:
            await verdict(gateway, "one")
            await gateway.post({"model": "m", "input": "hi"}, path="/v1/embeddings", key="one")
            await gateway.get("/v1/models", {"authorization": "Bearer one"})
        assert len(upstream.calls) >= 3
        assert {authorization(received) for received in upstream.calls} == {None}

    async def test_a_tenants_name_is_nobodys_token(
        self, start_gateway: StartGateway, settings: dict[str, Any]
    ) -> None:
        """A gateway that told callers apart by token, on the same data, finds nothing."""
        async with start_gateway(**settings) as named:
            await verdict(named, "one")
        async with start_gateway() as by_token:
            assert await verdict(by_token, "team-a") == "MISS"


class TestShared:
    """Everybody is one tenant."""

    async def test_all_share(self, start_gateway: StartGateway, upstream: FakeUpstream) -> None:
        """With any key or none; calls as well as entries."""
        go_on = asyncio.Event()
        upstream.scripts["held"] = Script(hold=go_on)
        async with start_gateway(auth={"mode": "shared"}) as gateway:
            seen = [await verdict(gateway, key) for key in ("sk-a", "sk-b", None)]
            asked: list[asyncio.Task[Answer]] = [
                asyncio.create_task(gateway.post(question("q", model="held"), key=key))
                for key in ("sk-a", "sk-b", None)
            ]
            await upstream.wait_for_calls(2)
            await gateway.ask("barrier")
            go_on.set()
            together = sorted([(await task).headers["x-cache"] for task in asked])
        assert seen == ["MISS", "HIT", "HIT"]
        assert together == ["COLLAPSED", "COLLAPSED", "MISS"]

    async def test_sub_namespaces_keep_apart(self, start_gateway: StartGateway) -> None:
        """The one way to do so in this mode."""
        async with start_gateway(auth={"mode": "shared"}) as gateway:
            seen = [
                await verdict(gateway, None, cache={"namespace": name}) for name in ("a", "b", "a")
            ]
        assert seen == ["MISS", "MISS", "HIT"]
