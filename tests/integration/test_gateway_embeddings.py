"""``/v1/embeddings`` through a real gateway: what is asked of the model server, and what is not."""

import asyncio
import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

import openai
import pytest
from support.gateway import SECRET, Answer, Gateway, StartGateway
from support.metrics import total

from stepwell.keys.namespace import Tenant
from stepwell.testing.fake_embeddings import tokens_of, vector_of
from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script, VectorFault

PATH = "/v1/embeddings"
QUIET = {"canary_seconds": 0}
"""No text is embedded beside those that are asked for, so that calls can be counted."""

TEXTS = "stepwell_embedding_texts_total"


async def embed(
    gateway: Gateway,
    given: Any,
    *,
    model: str = "fake",
    key: str | None = "sk-test",
    headers: dict[str, str] | None = None,
    **fields: Any,
) -> Answer:
    body = {"model": model, "input": given, **fields}
    return await gateway.post(body, path=PATH, key=key, headers=headers)


def vectors(answer: Answer) -> list[list[float]]:
    assert answer.status == 200, answer.body
    items = json.loads(answer.body)["data"]
    assert [item["index"] for item in items] == list(range(len(items)))
    return [item["embedding"] for item in items]


def right(inputs: Sequence[object], dimensions: int = 8) -> list[list[float]]:
    """Return the vectors as they are read from JSON: with as many digits as 32 bits need."""
    return [[float(f"{number:.9g}") for number in vector_of(one, dimensions)] for one in inputs]


def close(found: list[list[float]], wanted: list[list[float]]) -> bool:
    """Return whether both are the same 32-bit numbers."""
    return [struct.pack(f"<{len(v)}f", *v) for v in found] == [
        struct.pack(f"<{len(v)}f", *v) for v in wanted
    ]


def sent(upstream: FakeUpstream) -> list[Any]:
    """Return what the model server was given to embed, call by call."""
    return [received.json()["input"] for received in upstream.calls]


@pytest.fixture
async def gateway(start_gateway: StartGateway) -> Any:
    async with start_gateway(embedding=QUIET) as running:
        yield running


class TestBatches:
    async def test_only_what_is_missing_is_sent(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """Each text once, in whichever order and however often it is asked for."""
        first = await embed(gateway, ["a b", "c", "a b"])
        again = await embed(gateway, ["c", "d", "a b", "d"])
        assert sent(upstream) == [["a b", "c"], ["d"]]
        assert close(vectors(first), right(["a b", "c", "a b"]))
        assert close(vectors(again), right(["c", "d", "a b", "d"]))
        assert first.cache_status == "stepwell; fwd=miss; stored"
        assert again.cache_status.startswith("stepwell; fwd=partial; stored; detail=")
        assert "2 from memory" in again.cache_status

    async def test_a_hit_is_the_miss_again(self, gateway: Gateway, upstream: FakeUpstream) -> None:
        """The same bytes, tokens included, and another header."""
        first = await embed(gateway, "one two three")
        again = await embed(gateway, "one two three")
        assert first.body == again.body
        assert json.loads(again.body)["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
        assert again.cache_status == "stepwell; hit; detail=embedding"
        assert (first.headers["x-cache"], again.headers["x-cache"]) == ("MISS", "HIT")
        assert "age" not in again.headers
        assert upstream.call_count == 1

    async def test_tokens_are_split_over_the_texts_of_a_call(self, gateway: Gateway) -> None:
        """And add up to what the server counted, however they are asked for later."""
        texts = ["one", "one two three", "one two three four five six"]
        whole = json.loads((await embed(gateway, texts)).body)["usage"]["prompt_tokens"]
        alone = [json.loads((await embed(gateway, text)).body) for text in texts]
        assert whole == sum(map(tokens_of, texts))
        assert sum(one["usage"]["prompt_tokens"] for one in alone) == whole

    async def test_token_arrays(self, gateway: Gateway, upstream: FakeUpstream) -> None:
        """One, or several; a list of numbers is not a text with the same signs."""
        one = await embed(gateway, [1, 2, 3])
        several = await embed(gateway, [[4], [1, 2, 3]])
        await embed(gateway, "[1, 2, 3]")
        assert close(vectors(one), right([[1, 2, 3]]))
        assert close(vectors(several), right([[4], [1, 2, 3]]))
        assert sent(upstream) == [[1, 2, 3], [[4]], "[1, 2, 3]"]

    @pytest.mark.parametrize("filled", ["float", "base64"])
    async def test_either_encoding_from_the_other(
        self, gateway: Gateway, upstream: FakeUpstream, filled: str
    ) -> None:
        """Whichever the server was asked for, bit by bit."""
        await embed(gateway, "x", encoding_format=filled)
        in_base64 = await embed(gateway, "x", encoding_format="base64")
        in_floats = await embed(gateway, "x", encoding_format="float")
        raw = base64.b64decode(vectors(in_base64)[0])  # type: ignore[arg-type]
        assert raw == struct.pack("<8f", *vectors(in_floats)[0])
        assert raw == struct.pack("<8f", *vector_of("x"))
        assert upstream.call_count == 1

    async def test_what_may_change_a_vector_is_in_the_key(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """Width, model, unknown fields; not who asks for whom, nor the encoding."""
        kinds: list[dict[str, Any]] = [
            {},
            {"dimensions": 4},
            {"model": "other"},
            {"task": "query"},
            {"task": "passage"},
        ]
        for kind in kinds:
            for user in ("u1", "u2"):
                answer = await embed(gateway, "x", user=user, **kind)
                assert close(vectors(answer), right(["x"], kind.get("dimensions", 8)))
        assert upstream.call_count == len(kinds)

    async def test_unicode_forms_and_blanks_are_texts_of_their_own(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """A model reads them otherwise."""
        texts = ["é", "e\u0301", " é", "", " "]
        assert close(vectors(await embed(gateway, texts)), right(texts))
        assert sent(upstream) == [texts]

    async def test_many_and_long_texts(self, start_gateway: StartGateway) -> None:
        """Ten thousand texts, half of them twice, one of nearly a megabyte; in bounded calls."""
        rule = {"model": "*", "max_texts": 2_000}
        async with start_gateway(embedding={**QUIET, "models": [rule]}) as gateway:
            texts = [f"text {number % 5_000}" for number in range(9_999)] + ["x" * 900_000]
            answer = await embed(gateway, texts, encoding_format="base64")
            found = json.loads(answer.body)["data"]
            for place in (0, 4_999, 5_000, 9_998, 9_999):
                raw = base64.b64decode(found[place]["embedding"])
                assert raw == struct.pack("<8f", *vector_of(texts[place]))
            assert await total(gateway, TEXTS, source="origin") == 5_001
            assert (await embed(gateway, texts)).cache_status.startswith("stepwell; hit")
            refused = await embed(gateway, [*texts, "one more"])
            assert (refused.status, b"10001 items" in refused.body) == (400, True)


class TestClients:
    @pytest.fixture
    async def client(self, gateway: Gateway) -> Any:
        async with openai.AsyncOpenAI(
            base_url=f"{gateway.origin}/v1", api_key="sk-test", max_retries=0
        ) as client:
            yield client

    async def test_openais_client_reads_both_encodings(
        self, client: openai.AsyncOpenAI, upstream: FakeUpstream
    ) -> None:
        """Its default is base64, which it turns into floats itself."""
        default = await client.embeddings.create(model="fake", input=["a", "b"])
        floats = await client.embeddings.create(
            model="fake", input=["b", "a"], encoding_format="float"
        )
        assert close([item.embedding for item in default.data], right(["a", "b"]))
        assert close([item.embedding for item in floats.data], right(["b", "a"]))
        assert default.usage.total_tokens == 2
        assert upstream.call_count == 1

    async def test_refusals_are_the_errors_of_openais_client(
        self, client: openai.AsyncOpenAI
    ) -> None:
        """The server's own, and ours."""
        with pytest.raises(openai.RateLimitError) as limited:
            await client.embeddings.create(model="fake-429", input="a")
        assert limited.value.response.headers["retry-after"] == "7"
        assert limited.value.code == "fake_429"
        with pytest.raises(openai.BadRequestError, match="0 items; allowed: 1 to 10000"):
            await client.embeddings.create(model="fake", input=[])


class TestDirectives:
    async def test_no_cache_computes_anew(self, gateway: Gateway, upstream: FakeUpstream) -> None:
        for _ in range(2):
            answer = await embed(gateway, "x", headers={"cache-control": "no-cache"})
            assert answer.headers["x-cache"] == "MISS"
        assert upstream.call_count == 2

    async def test_no_store_keeps_nothing(self, gateway: Gateway, upstream: FakeUpstream) -> None:
        answer = await embed(gateway, "x", headers={"cache-control": "no-store"})
        assert answer.cache_status == "stepwell; fwd=miss"
        assert (await embed(gateway, "x")).headers["x-cache"] == "MISS"
        kept = await embed(gateway, "x", headers={"cache-control": "no-store"})
        assert (kept.headers["x-cache"], upstream.call_count) == ("HIT", 2)

    async def test_only_if_cached(self, gateway: Gateway, upstream: FakeUpstream) -> None:
        """All of it, or 504; nothing goes on."""
        only = {"cache-control": "only-if-cached"}
        await embed(gateway, "x")
        assert (await embed(gateway, "x", headers=only)).headers["x-cache"] == "HIT"
        for given in (["x", "y"], [{"text": "x"}]):
            refused = await embed(gateway, given, headers=only)
            assert (refused.status, json.loads(refused.body)["error"]["code"]) == (
                504,
                "only_if_cached",
            )
        assert upstream.call_count == 1

    async def test_what_is_meant_for_the_cache_is_not_sent_on(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """Nor is it part of the kind; a namespace of the caller's own divides what is kept."""
        for namespace in ("one", "one", "two"):
            await embed(gateway, "x", cache={"namespace": namespace})
        assert [call.json() for call in upstream.calls] == [{"model": "fake", "input": "x"}] * 2


class TestTenants:
    async def test_each_token_has_vectors_of_its_own(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """So nobody is answered whom the model server would not answer."""
        upstream.queue.extend([Script(), Script(status=401)])
        assert (await embed(gateway, "x", key="sk-a")).status == 200
        assert (await embed(gateway, "x", key="sk-wrong")).status == 401
        assert (await embed(gateway, "x", key="sk-a")).headers["x-cache"] == "HIT"

    async def test_without_a_token_nothing_is_kept(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        for _ in range(2):
            answer = await embed(gateway, "x", key=None)
            assert answer.headers["x-stepwell-bypass"] == "no API key"
        assert upstream.call_count == 2

    async def test_tenants_share_if_they_are_told_to(
        self,
        start_gateway: StartGateway,
        upstream: FakeUpstream,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """All known texts are everybody's then, but for a namespace of one's own."""
        monkeypatch.setenv("ONE", "sk-1")
        monkeypatch.setenv("TWO", "sk-2")
        keys = [{"tenant": "a", "key_env": "ONE"}, {"tenant": "b", "key_env": "TWO"}]
        auth = {"mode": "keys", "keys": keys}
        async with start_gateway(auth=auth, embedding={**QUIET, "share": True}) as gateway:
            await embed(gateway, "x", key="sk-1")
            assert (await embed(gateway, "x", key="sk-2")).headers["x-cache"] == "HIT"
            own = await embed(gateway, "x", key="sk-2", cache={"namespace": "own"})
            assert own.headers["x-cache"] == "MISS"
            assert (await embed(gateway, "x", key="sk-3")).status == 401
        async with start_gateway(auth=auth, embedding=QUIET) as gateway:
            for key in ("sk-1", "sk-2"):
                assert (await embed(gateway, "x", key=key)).headers["x-cache"] == "MISS"
        assert upstream.call_count == 4


class TestModelServers:
    @pytest.mark.parametrize(
        "fault",
        [
            VectorFault.SHORT,
            VectorFault.LONG,
            VectorFault.TWICE,
            VectorFault.UNEVEN,
            VectorFault.NOT_A_NUMBER,
            VectorFault.ZERO,
        ],
    )
    @pytest.mark.parametrize("encoding", ["float", "base64"])
    async def test_vectors_that_are_none_reach_nobody(
        self, gateway: Gateway, upstream: FakeUpstream, fault: VectorFault, encoding: str
    ) -> None:
        """502, and nothing of it is kept; a right reply is then taken."""
        upstream.queue.append(Script(vector_fault=fault))
        assert (await embed(gateway, ["a", "b"], encoding_format=encoding)).status == 502
        assert close(vectors(await embed(gateway, ["a", "b"])), right(["a", "b"]))

    async def test_another_order_is_put_right(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        upstream.queue.append(Script(vector_fault=VectorFault.PERMUTED))
        texts = ["a", "b", "c"]
        assert close(vectors(await embed(gateway, texts)), right(texts))
        assert close(vectors(await embed(gateway, texts[::-1])), right(texts[::-1]))
        assert upstream.call_count == 1

    async def test_another_form_goes_through_as_it_is(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """It is asked for once more, since vectors do not stand for it; and not looked up again."""
        model = "fake-foreign"
        answers = [await embed(gateway, "x", model=model) for _ in range(2)]
        for answer in answers:
            assert json.loads(answer.body)["data"][0]["sparse_embedding"] == {"7": 1}
            assert answer.headers["x-stepwell-bypass"] == "another form of reply"
        assert upstream.call_count == 3

    @pytest.mark.parametrize("given", [[{"text": "a"}, {"image": "b"}], None])
    async def test_what_openai_does_not_take_is_sent_on(
        self, gateway: Gateway, upstream: FakeUpstream, given: Any
    ) -> None:
        """Byte for byte."""
        raw = json.dumps({"model": "fake", "input": given}, indent=1).encode()
        answer = await gateway.post(raw, path=PATH)
        assert answer.cache_status.startswith("stepwell; fwd=bypass")
        assert upstream.calls[-1].body == raw

    @pytest.mark.parametrize(("model", "status"), [("fake-400", 400), ("fake-503", 503)])
    async def test_a_refusal_reaches_the_caller_as_it_is(
        self, gateway: Gateway, model: str, status: int
    ) -> None:
        answer = await embed(gateway, "x", model=model)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (
            status,
            f"fake_{status}",
        )
        assert answer.cache_status == f"stepwell; fwd=miss; fwd-status={status}"

    @pytest.mark.parametrize("fault", [Fault.CLOSE, Fault.RESET, Fault.NO_REPLY, Fault.GARBAGE])
    async def test_a_server_that_dies_half_way(
        self, gateway: Gateway, upstream: FakeUpstream, fault: Fault
    ) -> None:
        """502; what it has not said is not made up."""
        upstream.queue.append(Script(fault=fault))
        failed = await embed(gateway, ["a", "b"])
        assert (failed.status, json.loads(failed.body)["error"]["type"]) == (502, "upstream_error")
        assert close(vectors(await embed(gateway, ["a", "b"])), right(["a", "b"]))

    async def test_a_part_that_is_known_needs_no_server(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """A batch with one new text fails with the server; the known ones alone do not."""
        await embed(gateway, ["a", "b"])
        upstream.queue.append(Script(status=503))
        assert (await embed(gateway, ["a", "new"])).status == 503
        assert (await embed(gateway, ["b", "a"])).headers["x-cache"] == "HIT"

    async def test_a_model_that_changed_under_its_name(
        self, start_gateway: StartGateway, upstream: FakeUpstream
    ) -> None:
        """Known texts, embedded along, show it: nothing old is served, until the next revision."""
        async with start_gateway(embedding={"canary_seconds": 0.01}) as gateway:
            await embed(gateway, "old")
            await _until_kept(gateway, 1)
            upstream.scripts["fake"] = Script(weights="others")
            async with asyncio.timeout(30):
                while not await total(gateway, "stepwell_embedding_drifted"):
                    await embed(gateway, "new", headers={"cache-control": "no-cache"})
                    await asyncio.sleep(0.05)
            answer = await embed(gateway, "old")
            assert answer.headers["x-cache"] == "MISS"
            assert vectors(answer) != right(["old"])
        rule = {"model": "fake", "revision": "2"}
        async with start_gateway(embedding={**QUIET, "models": [rule]}) as gateway:
            assert (await embed(gateway, "old")).headers["x-cache"] == "MISS"
            assert (await embed(gateway, "old")).headers["x-cache"] == "HIT"


async def _until_kept(gateway: Gateway, vectors: int) -> None:
    async with asyncio.timeout(30):
        while await total(gateway, "stepwell_embedding_vectors", tier="memory") < vectors:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class TestCallers:
    async def test_equal_texts_at_the_same_time_are_one_call(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """However many ask; those who did not ask first are told so."""
        hold = asyncio.Event()
        upstream.queue.append(Script(hold=hold))
        asked = [asyncio.create_task(embed(gateway, ["x", "y"])) for _ in range(16)]
        await upstream.wait_for_calls(1)
        await asyncio.sleep(0.2)
        hold.set()
        answers = await asyncio.gather(*asked)
        for answer in answers:
            assert close(vectors(answer), right(["x", "y"]))
        words = sorted(answer.headers["x-cache"] for answer in answers)
        assert words == ["COLLAPSED"] * 15 + ["MISS"]
        assert upstream.call_count == 1

    async def test_a_client_that_leaves_takes_nothing_from_the_others(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        hold = asyncio.Event()
        upstream.queue.append(Script(hold=hold))
        first = asyncio.create_task(embed(gateway, "x"))
        await upstream.wait_for_calls(1)
        second = asyncio.create_task(embed(gateway, "x"))
        await asyncio.sleep(0.1)
        first.cancel()
        await asyncio.sleep(0.1)
        hold.set()
        assert close(vectors(await second), right(["x"]))
        assert upstream.call_count == 1

    async def test_what_is_saved_is_counted_text_by_text(
        self, gateway: Gateway, upstream: FakeUpstream
    ) -> None:
        """Also where only some of a batch were known."""
        await embed(gateway, ["one two", "three"])
        await embed(gateway, ["one two", "new"])
        saved = "stepwell_saved_tokens_total"
        assert await total(gateway, saved, layer="embedding", kind="prompt") == 2
        assert await total(gateway, "stepwell_spent_tokens_total", kind="prompt") == 4
        assert await total(gateway, TEXTS, source="memory") == 1
        assert await total(gateway, TEXTS, source="origin") == 3


class TestRestarts:
    async def test_vectors_outlive_the_gateway(
        self, start_gateway: StartGateway, upstream: FakeUpstream
    ) -> None:
        """They come from disk, and are the same bits."""
        async with start_gateway(embedding=QUIET) as gateway:
            first = await embed(gateway, ["a", "b"])
        async with start_gateway(embedding=QUIET) as gateway:
            again = await embed(gateway, ["a", "b"])
            assert await total(gateway, TEXTS, source="disk") == 2
        assert (again.headers["x-cache"], again.body) == ("HIT", first.body)
        assert upstream.call_count == 1

    async def test_off_passes_everything_on(
        self, start_gateway: StartGateway, upstream: FakeUpstream
    ) -> None:
        async with start_gateway(embedding={"enabled": "off"}) as gateway:
            for _ in range(2):
                assert "cache-status" not in (await embed(gateway, "x")).headers
        assert upstream.call_count == 2


class TestDeletion:
    async def test_texts_are_deleted_of_all_models_or_some(
        self, start_gateway: StartGateway, upstream: FakeUpstream
    ) -> None:
        """Of one tenant; they are computed anew then, by a later gateway too."""
        async with start_gateway(embedding=QUIET) as gateway:
            for model in ("m1", "m2"):
                await embed(gateway, ["secret", "other"], model=model)
            await embed(gateway, "secret", model="m1", key="sk-other")
            await _until_written(gateway)
            owner = Tenant("token:sk-test", SECRET).own_namespace.hex()
            asked = {"texts": ["secret"], "namespace": owner, "model": "m1"}
            assert await delete(gateway, asked) == {"deleted": 1, "versions": 1}
            assert (await embed(gateway, "secret", model="m1")).headers["x-cache"] == "MISS"
            for model, key in (("m2", "sk-test"), ("m1", "sk-other")):
                kept = await embed(gateway, "secret", model=model, key=key)
                assert kept.headers["x-cache"] == "HIT"
            assert (await embed(gateway, "other", model="m1")).headers["x-cache"] == "HIT"
            await _until_written(gateway)
            asked = {"texts": ["secret"], "namespace": owner}
            assert await delete(gateway, asked) == {"deleted": 2, "versions": 2}
            assert await delete(gateway, asked) == {"deleted": 0, "versions": 2}
        async with start_gateway(embedding=QUIET) as gateway:
            assert (await embed(gateway, "secret", model="m2")).headers["x-cache"] == "MISS"

    async def test_the_rules_of_the_other_admin_routes(self, start_gateway: StartGateway) -> None:
        """JSON, known fields, for operators only; 404 where no vectors are kept."""
        path = "/admin/embeddings/delete"
        async with start_gateway(embedding=QUIET) as gateway:
            wrongs: list[dict[str, Any]] = [
                {},
                {"texts": []},
                {"texts": ["a"], "namespace": "x"},
                {"text": "a"},
            ]
            for wrong in wrongs:
                assert (await gateway.post(wrong, path=path)).status == 400
            forwarded = {"x-forwarded-for": "10.0.0.1"}
            refused = await gateway.post({"texts": ["a"]}, path=path, headers=forwarded)
            assert refused.status == 403
        async with start_gateway(embedding={"enabled": "off"}) as gateway:
            answer = await gateway.post({"texts": ["a"]}, path=path)
            assert (answer.status, b"embedding_off" in answer.body) == (404, True)


async def delete(gateway: Gateway, asked: dict[str, Any]) -> Any:
    answer = await gateway.post(asked, path="/admin/embeddings/delete")
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


async def _until_written(gateway: Gateway) -> None:
    async with asyncio.timeout(30):
        while await total(gateway, "stepwell_embedding_pending_writes"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
