"""From a request for vectors to a kind, an account and a pace; and repeats of it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.walk import Heard, make_exact

from stepwell.core.errors import RequestError
from stepwell.core.events import RequestEnded, Result
from stepwell.core.ports import Call, Headers
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.pace import Limits
from stepwell.keys.cache_key import KeyScheme
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.embedding_asks import EmbeddingAsk, EmbeddingIntake, ForeignAsk, parse
from stepwell.pipeline.embedding_provider import Company
from stepwell.pipeline.embedding_repeats import MAX_BODY_BYTES, EmbeddingRepeats
from stepwell.pipeline.embedding_rules import EmbeddingRules, ModelRule
from stepwell.pipeline.embeddings import EmbeddingDesk, Refusal, Vectors
from stepwell.pipeline.groups import Groups
from stepwell.pipeline.targets import Target, Targets
from stepwell.telemetry.embedding_counts import EmbeddingCounts
from stepwell.telemetry.meters import Meters
from stepwell.testing.clock import HandClock
from stepwell.testing.fake_embeddings import embeddings_json, vector_of

TENANT = Tenant("token:sk-a", bytes(16))
OTHER = Tenant("token:sk-b", bytes(16))


class Served:
    """A reply that has come."""

    def __init__(self, body: bytes) -> None:
        self.status = 200
        self.headers: Headers = (("content-type", "application/json"), ("x-request-id", "r1"))
        self._body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        """Do nothing."""


class Server:
    """An upstream that embeds, and calls the model what it likes."""

    identity = "server 1"

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Headers] = []

    async def send(self, call: Call) -> Served:
        raise NotImplementedError

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Served:
        assert (method, path) == ("POST", "embeddings")
        self.headers.append(headers)
        self.bodies.append(json.loads(body))
        made = {**embeddings_json(self.bodies[-1]), "model": "m-2024"}
        return Served(json.dumps(made).encode())

    async def aclose(self) -> None:
        """Do nothing."""


class Room:
    """A desk, and what it asks."""

    def __init__(self, rules: EmbeddingRules | None = None, max_bytes: int = 1 << 20) -> None:
        self.clock, self.events = HandClock(), Heard()
        self.server = Server()
        exact = make_exact(self.clock, self.events)
        groups = Groups(exact, events=self.events)
        self.targets = Targets([Target(self.server, KeyScheme(self.server.identity))])
        self.intake = EmbeddingIntake(
            self.targets,
            rules or EmbeddingRules(),
            Company(self.clock, self.events, groups),
            keyed_headers=["openai-organization"],
            extra_headers=["x-team"],
        )
        counts = EmbeddingCounts(Meters(), self.events)
        self.cache = EmbeddingCache(counts, clock=self.clock)
        self.desk = EmbeddingDesk(self.cache, self.intake, groups, clock=self.clock)
        self.repeats = EmbeddingRepeats(
            self.desk, clock=self.clock, events=self.events, max_bytes=max_bytes
        )

    def ask(
        self,
        given: Any = "x",
        *,
        tenant: Tenant | None = TENANT,
        query: str = "",
        headers: dict[str, str] | None = None,
        **fields: Any,
    ) -> EmbeddingAsk:
        ask = self.take(given, tenant=tenant, query=query, headers=headers, **fields)
        assert isinstance(ask, EmbeddingAsk)
        return ask

    def take(
        self,
        given: Any = "x",
        *,
        tenant: Tenant | None = TENANT,
        query: str = "",
        headers: dict[str, str] | None = None,
        **fields: Any,
    ) -> EmbeddingAsk | ForeignAsk:
        raw = json.dumps({"model": "m", "input": given, **fields}).encode()
        parsed = parse(raw, headers or {}, max_inputs=100)
        return self.intake.take(parsed, headers or {}, tenant, query=query)

    async def vectors(self, ask: EmbeddingAsk) -> Vectors:
        answered = await self.desk.answer(ask)
        assert isinstance(answered, Vectors)
        return answered


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    made = Room()
    yield made
    await made.cache.aclose()


class TestKinds:
    def test_what_changes_a_vector_changes_the_version(self, room: Room) -> None:
        """Each of these is one of its own; whatever else is said makes no difference."""
        plain = room.ask().known.kind.version
        others = {
            room.ask(dimensions=4).known.kind.version,
            room.ask(task="query").known.kind.version,
            room.ask(query="api-version=1").known.kind.version,
            room.ask(headers={"x-team": "a"}).known.kind.version,
            room.ask(headers={"x-team": "b"}).known.kind.version,
        }
        assert len(others | {plain}) == 6
        same = [
            room.ask("y"),
            room.ask(user="u", encoding_format="base64"),
            room.ask(headers={"openai-organization": "o", "user-agent": "a"}),
            room.ask(tenant=OTHER),
        ]
        assert {ask.known.kind.version for ask in same} == {plain}

    def test_what_is_known_of_a_model(self) -> None:
        """The first rule that fits; a prefix is for texts."""
        fast = Limits(max_texts=7)
        rules = EmbeddingRules(
            precision="f16",
            models=(
                ModelRule("m", "elsewhere", revision="no"),
                ModelRule("m*", "main", "r2", "unit", "query: ", fast),
            ),
        )
        room = Room(rules)
        kind = room.ask().known.kind
        assert (kind.provider, kind.model, kind.revision) == ("server 1", "m", "r2")
        assert (kind.normalization, kind.prefix, kind.precision) == ("unit", "query: ", "f16")
        assert room.ask([1, 2]).known.kind.prefix == ""
        assert room.intake.provider(room.ask()).pace.limits is fast

    def test_whose_vectors_they_are(self) -> None:
        """A tenant's own, or everybody's, but for a part of its own."""
        own, shared = Room(), Room(EmbeddingRules(is_shared=True))
        part: dict[str, Any] = {"cache": {"namespace": "part"}}
        assert own.ask().owner == TENANT.own_namespace
        assert shared.ask().owner is None
        for room in (own, shared):
            assert room.ask(**part).owner == TENANT.namespace("part")

    def test_nobodys_request_is_sent_on(self, room: Room) -> None:
        ask = room.take(tenant=None)
        assert isinstance(ask, ForeignAsk)
        assert ask.reason == "no API key"

    def test_a_name_that_is_none(self, room: Room) -> None:
        with pytest.raises(RequestError, match="'model' must have at most"):
            room.take(model="m" * 2_000)

    def test_accounts_have_paces_of_their_own(self, room: Room) -> None:
        """One's limit must not hold up another; texts of one account may go together."""
        one, again, other = (
            room.intake.provider(room.ask(headers={"authorization": key, "x-request-id": key}))
            for key in ("Bearer a", "Bearer a", "Bearer b")
        )
        assert one.pace is again.pace is not other.pace
        assert one == again != other
        for_another = room.ask(user="u", headers={"authorization": "Bearer a"})
        assert one != room.intake.provider(for_another)


class TestAnswers:
    async def test_the_type_of_content_is_told_once(self, room: Room) -> None:
        """Servers refuse a request that tells it twice."""
        await room.desk.answer(room.ask(headers={"content-type": "application/json"}))
        [fields] = room.server.headers
        assert [value for name, value in fields if name == "content-type"] == ["application/json"]

    async def test_a_reply_has_what_the_server_says(self, room: Room) -> None:
        """Its name of the model too, for hits; its fields for the one it answered."""
        for result in (Result.MISS, Result.HIT):
            answered = await room.vectors(room.ask(["a b", "c"]))
            assert answered.result is result
            assert json.loads(answered.body)["model"] == "m-2024"
            assert json.loads(answered.body)["usage"]["total_tokens"] == 3
            assert ("x-request-id" in dict(answered.headers)) is (result is Result.MISS)
        assert len(room.server.bodies) == 1

    async def test_the_prefix_is_sent(self) -> None:
        """And the caller's own texts are the key."""
        room = Room(EmbeddingRules(models=(ModelRule("*", prefix="query: "),)))
        answered = await room.vectors(room.ask("cats"))
        assert room.server.bodies[0]["input"] == "query: cats"
        (item,) = json.loads(answered.body)["data"]
        assert item["embedding"] == pytest.approx(vector_of("query: cats"))
        await room.cache.aclose()

    async def test_a_pace_of_our_own_is_said_as_servers_say_it(self) -> None:
        """429, with the seconds after which there is room again."""
        limits = Limits(requests_per_minute=1, deadline_seconds=1, max_retries=0)
        room = Room(EmbeddingRules(otherwise=ModelRule(limits=limits)))
        await room.vectors(room.ask("first"))
        refused = await room.desk.answer(room.ask("second"))
        assert isinstance(refused, Refusal)
        assert refused.status == 429
        assert 1 < int(dict(refused.headers)["retry-after"]) <= 61
        assert json.loads(refused.body)["error"]["code"] == "rate_limited"
        await room.cache.aclose()


class TestRepeats:
    async def test_a_repeat_is_answered_and_counted(self, room: Room) -> None:
        """From memory, byte for byte; written once."""
        ask = room.ask(["a", "b"])
        room.repeats.remember(b"1", ask)
        assert room.repeats.answer(b"1") is None
        body = (await room.vectors(ask)).body
        first, second = room.repeats.answer(b"1"), room.repeats.answer(b"1")
        assert first == body
        assert second is first
        ended = [one for one in room.events.events if isinstance(one, RequestEnded)]
        assert [event.result for event in ended] == [Result.HIT] * 2
        assert ended[0].trail == "embedding: 2 from memory"
        told = (ended[0].layer, ended[0].endpoint, ended[0].model, ended[0].tenant)
        assert told == ("embedding", "embeddings", "m", TENANT.own_namespace.hex())

    async def test_what_was_deleted_is_not_answered(self, room: Room) -> None:
        """The reply that was written is of no use then; a new vector makes a new one."""
        ask = room.ask()
        await room.vectors(ask)
        room.repeats.remember(b"1", ask)
        assert room.repeats.answer(b"1") is not None
        await room.cache.delete(ask.known.kind, ["x"], ask.owner)
        assert room.repeats.answer(b"1") is None
        await room.vectors(ask)
        assert room.repeats.answer(b"1") is not None

    async def test_directives_go_the_long_way(self, room: Room) -> None:
        """What must be computed anew is never taken for known."""
        await room.vectors(room.ask())
        room.repeats.remember(b"1", room.ask(headers={"cache-control": "no-cache"}))
        assert room.repeats.answer(b"1") is None

    async def test_there_is_a_bound(self) -> None:
        """Those used longest ago go first; long requests are not kept at all."""
        room = Room(max_bytes=20_000)
        asks = [room.ask(f"text {number}") for number in range(12)]
        for number, ask in enumerate(asks):
            await room.vectors(ask)
            room.repeats.remember(b"%d" % number, ask)
            room.repeats.answer(b"0")
        kept = [n for n in range(12) if room.repeats.answer(b"%d" % n) is not None]
        assert 0 in kept
        assert 11 in kept
        assert 2 <= len(kept) < 12
        long = room.ask("x" * MAX_BODY_BYTES)
        await room.vectors(long)
        room.repeats.remember(b"long", long)
        assert room.repeats.answer(b"long") is None
        await room.cache.aclose()
