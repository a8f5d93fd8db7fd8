"""Calls over replicas: where they go, and that nothing is left behind however they end."""

import asyncio

import pytest
from support.steering import (
    ALICE,
    LateTokens,
    NamedTokens,
    SomeReply,
    SomeServer,
    Steering,
    answer,
    asking,
    call,
    steering,
    told,
)

from stepwell.core.entry import Usage
from stepwell.core.errors import (
    UpstreamBroken,
    UpstreamConnectTimeout,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from stepwell.core.events import CachedTokensCompared, Degraded, Placed
from stepwell.core.names import CacheKey
from stepwell.core.ports import Call, Reply
from stepwell.core.steering import Hold, SupportsNotes
from stepwell.engines.token_sources import tokens_of
from stepwell.prefix.placement.replicas import Condition, ReplicaName
from stepwell.prefix.steering.placing import scope_of

PROMPT = range(1_000, 1_400)
_TOKENS = tokens_of(PROMPT)
SCOPE = scope_of("m", ALICE)


def well(_: Call) -> Reply:
    return SomeReply([answer(Usage(400, 1, 0))])


def gone(_: Call) -> Exception:
    return UpstreamUnreachable("nobody there", upstream="llm")


def answering(*parts: bytes | Exception, status: int = 200) -> SomeServer:
    return SomeServer("a", lambda _: SomeReply(parts, status))


def two(first: SomeServer | None = None) -> Steering:
    return steering(first or SomeServer("a", well), SomeServer("b", well), source=NamedTokens())


class TestLoad:
    """Is given back, whatever becomes of a call."""

    async def test_of_a_call_that_is_cancelled_before_its_head(self) -> None:
        one = steering(SomeServer("a", well, hold=asyncio.Event()), source=NamedTokens())
        sending = asyncio.create_task(one.upstream.send(asking(PROMPT)))
        await asyncio.sleep(0.01)
        assert one.calls["a"] == 1
        assert one.loads[0] > 1
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert one.loads == [0]

    async def test_of_a_reply_that_is_closed_unread(self) -> None:
        one = steering(SomeServer("a", well), source=NamedTokens())
        reply = await one.upstream.send(asking(PROMPT))
        await reply.aclose()
        assert one.loads == [0]
        assert one.upstream.reports()[0].held_tokens == 0  # nobody knows how far it came

    async def test_of_a_reply_that_is_left_midway(self) -> None:
        one = steering(answering(b"{", b'"a":1,', answer(Usage(400, 1, 9))), source=NamedTokens())
        reply = await one.upstream.send(asking(PROMPT))
        async for _ in reply.chunks():
            break
        assert one.loads == [1]  # its prompt has been computed
        await reply.aclose()
        await told()
        assert one.loads == [0]
        # The prompt was read, and so is held; what it cost nobody has said.
        assert one.upstream.reports()[0].held_tokens == 400
        assert one.events.of(CachedTokensCompared) == []

    @pytest.mark.parametrize("kind", [UpstreamTimeout, UpstreamBroken])
    async def test_of_a_call_that_fails(self, kind: type[UpstreamBroken]) -> None:
        one = two(SomeServer("a", lambda _: kind("no", upstream="llm")))
        one.draining.add("b")
        with pytest.raises(kind):
            await one.upstream.send(asking(PROMPT))
        assert one.loads == [0, 0]
        assert one.calls == {"a": 1, "b": 0}  # it may be at work there: no second call

    async def test_of_a_stream_that_breaks(self) -> None:
        one = steering(answering(b"x", UpstreamBroken("no", upstream="llm")), source=NamedTokens())
        with pytest.raises(UpstreamBroken):
            await one.ask(asking(PROMPT))
        assert one.loads == [0]
        assert one.events.of(CachedTokensCompared) == []

    @pytest.mark.parametrize("status", [400, 404, 500])
    async def test_of_an_error(self, status: int) -> None:
        one = steering(answering(answer(Usage(400, 0, 399)), status=status), source=NamedTokens())
        await one.ask(asking(PROMPT))
        assert one.loads == [0]
        (report,) = one.upstream.reports()
        assert (report.held_tokens, report.agreed.requests) == (0, 0)

    async def test_given_back_once_however_often_it_is_closed(self) -> None:
        one = steering(SomeServer("a", well), source=NamedTokens())
        reply = await one.upstream.send(asking(PROMPT))
        async for _ in reply.chunks():
            pass
        for _ in range(3):
            await reply.aclose()
            await told()
        assert one.loads == [0]
        assert one.upstream.reports()[0].agreed.requests == 1
        assert len(one.events.of(CachedTokensCompared)) == 1


class TestTries:
    @pytest.mark.parametrize("kind", [UpstreamUnreachable, UpstreamConnectTimeout])
    async def test_the_next_one_where_one_is_gone(self, kind: type[UpstreamUnreachable]) -> None:
        one = two(SomeServer("a", lambda _: kind("nobody there", upstream="llm")))
        one.known.residency.sent(ReplicaName("a"), one.known.residency.region(SCOPE), _TOKENS)
        with pytest.raises(UpstreamUnreachable):
            await one.upstream.send_to("a", asking(PROMPT))
        report = one.upstream.reports()[0]
        assert (report.condition, report.losses, report.held_tokens) == (Condition.DOWN, 1, 0)
        assert await one.ask(asking(PROMPT)) == answer(Usage(400, 1, 0))
        assert one.calls == {"a": 1, "b": 1}

    async def test_all_in_vain(self) -> None:
        one = steering(SomeServer("a", gone), SomeServer("b", gone), source=NamedTokens())
        with pytest.raises(UpstreamUnreachable, match="nobody there"):
            await one.upstream.send(asking(PROMPT))
        assert one.calls == {"a": 1, "b": 1}
        assert one.loads == [0, 0]

    @pytest.mark.parametrize("status", [429, 502, 503])
    async def test_one_that_is_not_ready_is_closed_and_another_asked(self, status: int) -> None:
        refusal = SomeReply([b"{}"], status)
        one = two(SomeServer("a", lambda _: refusal))
        one.known.loads.begin(ReplicaName("b"), 10_000)
        assert await one.ask(asking(PROMPT)) == answer(Usage(400, 1, 0))
        assert refusal.closed == 1
        condition = one.upstream.reports()[0].condition
        assert condition == (Condition.READY if status == 429 else Condition.DOWN)

    async def test_the_last_ones_refusal_is_the_answer(self) -> None:
        one = steering(answering(b"busy", status=503), source=NamedTokens())
        reply = await one.upstream.send(asking(PROMPT))
        assert (reply.status, [chunk async for chunk in reply.chunks()]) == (503, [b"busy"])


class TestTokensThatComeLate:
    """Of a call that has one place to go: it is sent, and they are asked for beside it."""

    @pytest.fixture
    def source(self) -> LateTokens:
        return LateTokens()

    async def test_nothing_waits_for_them_and_nothing_is_lost(self, source: LateTokens) -> None:
        one = steering(SomeServer("a", well), source=source)
        assert await one.ask(asking(PROMPT)) == answer(Usage(400, 1, 0))
        assert (source.asked, source.named) == (1, 0)
        source.let_go.set()
        await told()
        (report,) = one.upstream.reports()
        assert (report.held_tokens, report.agreed.requests, report.load) == (400, 1, 0)

    async def test_what_is_foretold_is_what_was_known_when_it_was_sent(
        self, source: LateTokens
    ) -> None:
        """Its own blocks are told of before its tokens come."""
        one = steering(SomeServer("a", well), source=source)
        reply = await one.upstream.send(asking(PROMPT))
        assert isinstance(reply, SupportsNotes)
        assert reply.noted == ("prefix: tokens not named yet, on a (only)",)
        one.known.residency.sent(ReplicaName("a"), one.known.residency.region(SCOPE), _TOKENS)
        source.let_go.set()
        await told()
        assert reply.noted == ("prefix: 0 of 400 tokens foretold on a (only)",)
        await reply.aclose()

    async def test_they_count_as_work_from_then_on(self, source: LateTokens) -> None:
        one = steering(SomeServer("a", well), source=source)
        reply = await one.upstream.send(asking(range(2_048)))
        assert one.loads == [1.0]
        source.let_go.set()
        await told()
        assert one.loads == [3.0]
        await reply.aclose()
        assert one.loads == [0.0]

    async def test_not_where_the_prompt_has_been_computed(self, source: LateTokens) -> None:
        one = steering(answering(b"{", b"}"), source=source)
        reply = await one.upstream.send(asking(range(2_048)))
        async for _ in reply.chunks():
            break
        source.let_go.set()
        await told()
        assert one.loads == [1.0]
        await reply.aclose()

    @pytest.mark.parametrize("status", [200, 400, 503])
    async def test_nobody_wants_them_of_a_call_of_which_nothing_came(
        self, source: LateTokens, status: int
    ) -> None:
        one = steering(answering(b"{}", status=status), source=source)
        reply = await one.upstream.send(asking(PROMPT))
        await told()
        await reply.aclose()
        source.let_go.set()
        await told()
        assert (source.asked, source.named) == (1, 0)
        assert one.upstream.reports()[0].held_tokens == 0

    async def test_nor_of_one_that_is_cancelled(self, source: LateTokens) -> None:
        one = steering(SomeServer("a", well, hold=asyncio.Event()), source=source)
        sending = asyncio.create_task(one.upstream.send(asking(PROMPT)))
        await told()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        source.let_go.set()
        await told()
        assert (source.asked, source.named, one.loads) == (1, 0, [0])

    @pytest.mark.parametrize("leaves_at", range(8))
    @pytest.mark.parametrize("named_at", range(8))
    async def test_whenever_they_come_and_whenever_the_caller_leaves(
        self, source: LateTokens, leaves_at: int, named_at: int
    ) -> None:
        hold = asyncio.Event()
        one = steering(SomeServer("a", well, hold=hold), source=source)
        asked = asyncio.create_task(one.ask(asking(PROMPT)))
        for moment in range(8):
            if moment == leaves_at:
                asked.cancel()
            if moment == named_at:
                source.let_go.set()
            if moment == 2:
                hold.set()
            await asyncio.sleep(0)
        await asyncio.wait([asked])
        await told()
        assert one.loads == [0]
        assert one.upstream.reports()[0].held_tokens in {0, 400}
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await one.upstream.aclose()

    async def test_nor_after_closing(self, source: LateTokens) -> None:
        one = steering(SomeServer("a", well), source=source)
        await one.ask(asking(PROMPT))
        await one.upstream.aclose()
        assert source.named == 0

    async def test_two_that_are_ready_wait_for_them(self, source: LateTokens) -> None:
        one = steering(SomeServer("a", well), SomeServer("b", well), source=source)
        asking_it = asyncio.create_task(one.ask(asking(PROMPT)))
        await told()
        assert sum(one.calls.values()) == 0
        source.let_go.set()
        await asking_it
        assert sum(one.calls.values()) == 1

    async def test_the_only_one_that_is_ready_is_gone(self, source: LateTokens) -> None:
        """What is left to try is the other, and again nothing is to choose."""
        one = steering(SomeServer("a", gone), SomeServer("b", well), source=source)
        one.draining.add("b")
        await one.ask(asking(PROMPT))
        assert one.calls == {"a": 1, "b": 1}
        source.let_go.set()
        await told()
        assert source.named == 1
        assert [report.held_tokens for report in one.upstream.reports()] == [0, 400]


class TestSendTo:
    async def test_goes_there_though_it_drains_and_is_busy(self) -> None:
        one = two()
        one.draining.add("a")
        one.known.loads.begin(ReplicaName("a"), 10_000)
        reply = await one.upstream.send_to("a", asking(PROMPT))
        await reply.aclose()
        assert one.calls == {"a": 1, "b": 0}
        assert one.events.of(Placed) == [Placed("llm", "a", "warm-up")]

    async def test_what_it_reads_is_held_and_chooses_it(self) -> None:
        one = two()
        reply = await one.upstream.send_to("b", asking(PROMPT))
        async for _ in reply.chunks():
            pass
        await reply.aclose()
        for more in range(3):
            await one.ask(asking([*PROMPT, *range(more * 50, more * 50 + 50)]))
        assert one.calls["b"] >= 2
        assert one.events.of(Placed)[1] == Placed("llm", "b", "held")


async def test_a_near_question_chooses_the_replica_and_its_tokens_are_told() -> None:
    """What only the reference knew of: the replica was lost, and what it held forgotten."""
    one = steering(
        SomeServer("a", well), SomeServer("b", well), source=NamedTokens(), room_tokens=160
    )
    await one.ask(asking(PROMPT, key=b"first"))
    first = next(name for name, count in one.calls.items() if count)
    assert one.upstream.reports()[0].held_tokens <= 160  # its room: the rest is not believed
    asked = asking([*PROMPT[:300], *range(100)], key=b"second")
    assert asked.key is not None
    one.hints.note(asked.key, CacheKey(b"first"), 0.8)
    reply = await one.upstream.send(asked)
    assert one.calls[first] == 2
    assert isinstance(reply, SupportsNotes)
    (noted,) = reply.noted
    assert noted == (
        f"prefix: 300 of 400 tokens foretold, 140 by a like question on {first} (near)"
    )
    await reply.aclose()
    # A hint is for one question.
    assert one.hints.take(asked.key) is None


async def test_silent_zero_is_said_once_until_it_is_mended() -> None:
    said = [Usage(400, 1, 0)]
    one = steering(SomeServer("a", lambda _: SomeReply([answer(said[0])])), source=NamedTokens())
    for turn in range(12):
        await one.ask(asking([*PROMPT, turn]))
        # Else it is taken to have been restarted, and nothing more is foretold.
        one.known.residency.sent(ReplicaName("a"), one.known.residency.region(SCOPE), _TOKENS)
    (event,) = one.events.of(Degraded)
    assert isinstance(event, Degraded)
    assert event.component == "prefix.llm"
    assert "Prefix caching looks off on replica a" in event.error
    said[0] = Usage(400, 1, 384)
    await one.ask(asking([*PROMPT, 99]))
    assert len(one.events.of(Degraded)) == 1


@pytest.mark.parametrize("cached", [-5, 401, 10**8, 10**12])
async def test_a_replica_that_lies_breaks_nothing(cached: int) -> None:
    """It is believed as far as that can be true."""
    usage = Usage(400, 1, cached)
    one = steering(SomeServer("a", lambda _: SomeReply([answer(usage)])), source=NamedTokens())
    for _ in range(3):
        await one.ask(asking(PROMPT))
    (report,) = one.upstream.reports()
    assert 0 <= report.agreed.met_tokens <= report.agreed.cached_tokens
    assert report.agreed.cached_tokens <= report.agreed.prompt_tokens
    assert report.held_tokens <= 400
    assert one.loads == [0]


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 32_000])
async def test_prompts_of_any_length(count: int) -> None:
    usage = Usage(max(1, count), 1, 0)
    one = steering(
        SomeServer("a", lambda _: SomeReply([answer(usage)])),
        SomeServer("b", lambda _: SomeReply([answer(usage)])),
        source=NamedTokens(),
    )
    ids = range(count)
    await one.ask(asking(ids))
    await one.ask(asking(ids))
    held = sum(report.held_tokens for report in one.upstream.reports())
    assert held in {count // 16 * 16, 2 * (count // 16 * 16)}
    assert one.loads == [0, 0]


async def test_closing_closes_all() -> None:
    one = two()
    await one.upstream.aclose()
    assert all(server.is_closed for server in one.servers.values())


class TestHoldAt:
    @pytest.mark.parametrize("is_public", [True, False])
    async def test_asks_that_replicas_own_route(self, *, is_public: bool) -> None:
        """With the owner's salt, unless all are to share."""
        one = two()
        held = call({"model": "m", "messages": []}, namespace=ALICE)
        reply = await one.upstream.hold_at("b", held, Hold(60, is_public=is_public))
        await reply.aclose()
        assert one.calls == {"a": 0, "b": 1}
