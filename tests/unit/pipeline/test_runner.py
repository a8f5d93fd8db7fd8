"""The walk of one request, around a model server that answers when the test says so."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace

import pytest
from support.walk import (
    JSON,
    STREAM,
    STREAM_WITH_USAGE,
    Forgetful,
    HandUpstream,
    Heard,
    completion,
    key_of,
    make_ask,
    make_exact,
    make_flights,
    make_question,
    make_runner,
    settle,
    stream_of,
)

from stepwell.core.entry import Entry, Phrasing, Selector, SourceValue, Usage
from stepwell.core.errors import RequestError, UpstreamBroken, UpstreamUnreachable
from stepwell.core.events import Degraded, FillRefused, Result, Stored, UpstreamAnswered
from stepwell.core.likeness import Match, NoMatch, Terms
from stepwell.core.names import EVERYONE, CacheKey, Form
from stepwell.core.outcome import Stale, StaleReason
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.question import Question
from stepwell.pipeline.runner import MAX_REFRESHES, Runner
from stepwell.pipeline.served import Body, Served
from stepwell.policy.classes import GENERAL
from stepwell.stores.alone import Alone
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_namespace, make_phrasing
from stepwell.wire.controls import Directives
from stepwell.wire.counts import TOO_MANY
from stepwell.wire.shape import Shape

PATIENT = replace(
    GENERAL,
    name="patient",
    ttl_seconds=100,
    stale_while_revalidate_seconds=50,
    stale_if_error_seconds=200,
)
UNREACHABLE = UpstreamUnreachable("nobody there", upstream="upstream")


@dataclass
class Walk:
    """A runner and everything around it."""

    clock: HandClock
    events: Heard
    exact: ExactLayer
    flights: Flights
    runner: Runner
    upstream: HandUpstream

    def ask(self, question: Question) -> asyncio.Task[Served]:
        """Begin to answer one request."""
        return asyncio.ensure_future(self.answer(question))

    def answer(self, question: Question) -> Coroutine[None, None, Served]:
        """Answer one request."""
        return self.runner.answer(make_ask(question, self.upstream))

    async def fill(self, question: Question, text: str = "Yes.") -> None:
        """Store an answer."""
        self.upstream.reply(completion(text))
        await self.answer(question)


def make_walk(store: Callable[[MemoryStore], Alone] = Alone) -> Walk:
    """Return a walk with nothing stored and nothing under way."""
    clock, events = HandClock(), Heard()
    exact = make_exact(clock, events, store=store)
    flights = make_flights(exact, clock=clock, events=events)
    runner = make_runner(exact, flights, clock=clock, events=events, max_wait_seconds=0.05)
    return Walk(clock, events, exact, flights, runner, HandUpstream())


@pytest.fixture
def walk() -> Walk:
    """A walk with nothing stored and nothing under way."""
    return make_walk()


class SlowParaphrases:
    """Finds nothing, when the test says so."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def lookup(self, phrasing: Phrasing, terms: Terms) -> Match | NoMatch:
        """Wait."""
        await self.go_on.wait()
        return NoMatch("opinion", "second opinion: no")

    def learn(self, entry: Entry) -> None:
        """Learn nothing."""

    def forget(self, key: CacheKey) -> None:
        """Forget nothing."""


async def body_of(served: Served) -> bytes:
    """Return the whole body of a reply."""
    if isinstance(served.body, bytes):
        return served.body
    try:
        return b"".join([chunk async for chunk in served.body.chunks])
    finally:
        served.body.close()


async def test_a_miss_is_stored_and_then_a_hit(walk: Walk) -> None:
    """The repeat is answered on the short way too, with what the first cost as saved."""
    question = make_question()
    asked = walk.ask(question)
    await settle()
    walk.clock.seconds += 2
    walk.upstream.reply(completion())
    missed = await asked
    walk.clock.seconds += 7

    hit = await walk.answer(question)
    assert (missed.result, missed.stored, missed.saved_seconds) == (Result.MISS, True, 0.0)
    assert (hit.result, hit.body) == (Result.HIT, completion())
    assert (hit.age_seconds, hit.ttl_seconds, hit.saved_seconds) == (7, 3_593, 2)
    assert hit.usage == Usage(3, 5)
    assert walk.runner.answer_now(question) == hit
    assert walk.events.of(UpstreamAnswered) == [
        UpstreamAnswered("upstream", "model", 2.0, 2.0, Usage(3, 5))
    ]
    assert len(walk.events.of(Stored)) == 1


async def test_the_short_way_declines_whatever_needs_the_long_one(walk: Walk) -> None:
    """A miss, a bypass, a directive, an expired entry, a source's news, another form's usage."""
    await walk.fill(make_question(request_class=PATIENT))
    news = (SourceValue("faq", "v1"),)
    declined = [
        make_question("another"),
        make_question(bypass="store"),
        make_question(directives=Directives(no_cache=True)),
        make_question(directives=Directives(min_fresh_seconds=1e6)),
        make_question(sources=news),
    ]
    assert [walk.runner.answer_now(question) for question in declined] == [None] * len(declined)
    walk.clock.seconds += 101
    assert walk.runner.answer_now(make_question(request_class=PATIENT)) is None


async def test_impossible_counts_are_told(walk: Walk) -> None:
    """More cached tokens than the prompt has: capped, and somebody hears of it."""
    usage = {"prompt_tokens": 3, "completion_tokens": 5}
    body = json.loads(completion()) | {
        "usage": usage | {"prompt_tokens_details": {"cached_tokens": 6}}
    }
    walk.upstream.reply(json.dumps(body).encode())
    served = await walk.answer(make_question())
    assert served.usage == Usage(3, 5, 3)
    assert walk.events.of(Degraded) == [Degraded("usage.upstream", TOO_MANY)]


async def test_the_short_way_declines_what_cannot_be_rendered(walk: Walk) -> None:
    """A stream stored without its usage is no answer for who wants the usage."""
    reply = walk.upstream.reply(form=Form.SSE)
    reply.say(*[event for event in stream_of("a") if b"total_tokens" not in event])
    reply.end()
    await body_of(await walk.answer(make_question(shape=STREAM)))
    assert walk.runner.answer_now(make_question(shape=STREAM)) is not None
    assert walk.runner.answer_now(make_question(shape=STREAM_WITH_USAGE)) is None


@pytest.mark.parametrize(
    ("leader", "follower"),
    [(JSON, JSON), (STREAM, STREAM), (STREAM, STREAM_WITH_USAGE), (STREAM, JSON), (JSON, STREAM)],
)
async def test_concurrent_requests_share_a_call(walk: Walk, leader: Shape, follower: Shape) -> None:
    """Each gets the answer in its own shape; the follower is credited with what it saved."""
    first = walk.ask(make_question(shape=leader))
    second = walk.ask(make_question(shape=follower))
    await settle()
    walk.clock.seconds += 3
    if leader is JSON:
        walk.upstream.reply(completion("one two"))
    else:
        reply = walk.upstream.reply(form=Form.SSE)
        reply.say(*stream_of("one ", "two"))
        reply.end()
    led, followed = await first, await second
    bodies = [await body_of(led), await body_of(followed)]

    assert (led.result, followed.result) == (Result.MISS, Result.COLLAPSED)
    assert len(walk.upstream.calls) == 1
    assert [led.form, followed.form] == [leader.form, follower.form]
    for body, shape in zip(bodies, (leader, follower), strict=True):
        assert (b"data: [DONE]" in body) is (shape is not JSON)
        assert b"two" in body
        assert (b"total_tokens" in body) is (shape is not STREAM)
    assert (led.saved_seconds, followed.saved_seconds) == (0.0, 3.0)
    assert followed.usage is not None


async def test_a_leader_that_leaves_takes_nobody_along(walk: Walk) -> None:
    """The call goes on for the follower, and its answer is stored."""
    leader, follower = walk.ask(make_question()), walk.ask(make_question())
    await settle()
    leader.cancel()
    await settle()
    walk.upstream.reply(completion())
    assert (await follower).result is Result.COLLAPSED
    assert walk.runner.answer_now(make_question()) is not None


async def test_the_last_to_leave_stops_the_call(walk: Walk) -> None:
    """So that the model server does not work for nobody; the next request starts anew."""
    asking = [walk.ask(make_question()) for _ in range(3)]
    await settle()
    for task in asking:
        task.cancel()
    await settle()
    assert (walk.upstream.stopped, len(walk.flights)) == (1, 0)

    await walk.fill(make_question())
    assert len(walk.upstream.calls) == 2


async def test_a_closed_stream_is_left(walk: Walk) -> None:
    """A client that leaves in the middle of its stream stops the call, too."""
    reply = walk.upstream.reply(form=Form.SSE)
    reply.say(stream_of("a")[0])
    served = await walk.answer(make_question(shape=STREAM))
    assert isinstance(served.body, Body)
    assert await anext(served.body.chunks)
    served.body.close()
    await settle()
    assert reply.closed


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_followers_of_an_error_ask_once_more(walk: Walk, status: int) -> None:
    """Together: two calls for any number of them. The error is nobody's answer later."""
    asking = [walk.ask(make_question()) for _ in range(5)]
    await settle()
    walk.upstream.reply(b"{}", status=status)
    await settle()
    walk.upstream.reply(completion())
    leader, *followers = [await task for task in asking]

    assert (leader.status, leader.stored) == (status, False)
    assert [follower.status for follower in followers] == [200] * 4
    assert len(walk.upstream.calls) == 2


async def test_followers_do_not_wait_for_an_errors_body(walk: Walk) -> None:
    """A server that says 503 and then nothing holds up only who asked it."""
    asking = [walk.ask(make_question()) for _ in range(3)]
    await settle()
    walk.upstream.reply(status=503)
    await settle()
    walk.upstream.reply(completion())
    await settle()
    assert [task.done() for task in asking] == [False, True, True]
    assert len(walk.upstream.calls) == 2
    asking[0].cancel()


async def test_followers_ask_at_most_twice(walk: Walk) -> None:
    """When the second call fails as well, its error is theirs."""
    asking = [walk.ask(make_question()) for _ in range(4)]
    await settle()
    walk.upstream.fail(UNREACHABLE)
    await settle()
    walk.upstream.fail(UNREACHABLE)
    await settle()
    assert [type(task.exception()) for task in asking] == [UpstreamUnreachable] * 4
    assert len(walk.upstream.calls) == 2
    assert walk.events.of(FillRefused) == []


async def test_what_cannot_be_sent_is_the_fault_of_who_wanted_it_sent(walk: Walk) -> None:
    """Its error, word for word; a follower asks for itself."""
    asking = [walk.ask(make_question()) for _ in range(2)]
    await settle()
    walk.upstream.fail(RequestError("a field cannot be sent", code="invalid_header"))
    await settle()
    walk.upstream.reply(completion())
    await settle()
    assert str(asking[0].exception()) == "a field cannot be sent"
    assert asking[1].result().body == completion()


async def test_a_refresh_that_cannot_be_sent_ends(walk: Walk) -> None:
    """And hides nothing: the next request that finds the answer stale tries again."""
    question = make_question(request_class=PATIENT)
    await walk.fill(question, "old")
    walk.clock.seconds += 120
    walk.upstream.fail(RequestError("a field cannot be sent"))
    for calls in (2, 3):
        assert (await walk.answer(question)).result is Result.STALE
        await settle()
        assert len(walk.upstream.calls) == calls
    await walk.runner.aclose()


async def test_an_answer_that_breaks_off_unseen_is_asked_for_once_more(walk: Walk) -> None:
    """A follower that has handed nothing on yet can still have a whole answer."""
    leader, follower = walk.ask(make_question()), walk.ask(make_question())
    await settle()
    reply = walk.upstream.reply()
    reply.say(completion()[:10])
    reply.end(UpstreamBroken("broke", upstream="upstream"))
    await settle()
    walk.upstream.reply(completion())
    assert (await follower).body == completion()
    assert isinstance(leader.exception(), UpstreamBroken)


async def test_a_stream_that_breaks_off_ends_with_an_error_event(walk: Walk) -> None:
    """For the leader and for those who read along: it cannot be taken for complete."""
    asking = [walk.ask(make_question(shape=STREAM)) for _ in range(2)]
    await settle()
    reply = walk.upstream.reply(form=Form.SSE)
    reply.say(*stream_of("a", "b")[:2])
    reply.end(UpstreamBroken("broke", upstream="upstream"))
    for task in asking:
        served = await task
        body = await body_of(served)
        assert b'"code":"upstream_broken"' in body
        assert b"[DONE]" not in body
        assert served.result is Result.ERROR
    assert len(walk.upstream.calls) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_a_callers_fault_is_shared(walk: Walk, status: int) -> None:
    """Asking again would not help; it is not stored."""
    asking = [walk.ask(make_question()) for _ in range(3)]
    await settle()
    walk.upstream.reply(b'{"error":{}}', status=status)
    assert [(await task).status for task in asking] == [status] * 3
    assert len(walk.upstream.calls) == 1
    assert walk.runner.answer_now(make_question()) is None


@pytest.mark.parametrize(
    "directives",
    [
        Directives(no_cache=True),
        Directives(no_store=True),
        Directives(ttl_seconds=0),
    ],
)
async def test_who_forbids_caching_shares_no_call(walk: Walk, directives: Directives) -> None:
    """Neither led nor followed: three requests, three calls."""
    asking = [
        walk.ask(make_question()),
        walk.ask(make_question(directives=directives)),
        walk.ask(make_question(directives=directives)),
    ]
    await settle()
    assert len(walk.upstream.calls) == 3
    for _ in asking:
        walk.upstream.reply(completion())
    assert [(await task).result is Result.COLLAPSED for task in asking] == [False] * 3


async def test_a_follower_waits_only_so_long(walk: Walk) -> None:
    """Then it asks itself; whoever is first, both get an answer."""
    leader, follower = walk.ask(make_question()), walk.ask(make_question())
    await settle()
    await walk.upstream.wait_for_calls(2)
    walk.upstream.reply(completion("for the leader"))
    walk.upstream.reply(completion("for the follower"))
    assert (await leader).body == completion("for the leader")
    assert (await follower).body == completion("for the follower")


async def test_followers_of_a_reply_they_cannot_use_share_the_next(walk: Walk) -> None:
    """A stream without usage cannot become JSON; one more call serves all who need JSON."""
    leader = walk.ask(make_question(shape=STREAM))
    followers = [walk.ask(make_question()) for _ in range(4)]
    await settle()
    reply = walk.upstream.reply(form=Form.SSE)
    reply.say(*[event for event in stream_of("a") if b"total_tokens" not in event])
    reply.end()
    await body_of(await leader)
    await settle()
    walk.upstream.reply(completion())
    assert [(await task).body for task in followers] == [completion()] * 4
    assert len(walk.upstream.calls) == 2


async def test_who_cannot_use_the_second_reply_either_asks_alone(walk: Walk) -> None:
    """Streams without usage, one after the other, do not keep a JSON request waiting."""
    fresher = Directives(min_fresh_seconds=1e6)
    first, whole = walk.ask(make_question(shape=STREAM)), walk.ask(make_question())
    await settle()
    replies = [walk.upstream.reply(form=Form.SSE), walk.upstream.reply(form=Form.SSE)]
    for reply in replies:
        reply.say(*[event for event in stream_of("a") if b"total_tokens" not in event])
    await settle()
    replies[0].end()
    # It takes off when the first has landed, before those who read the first hear of it.
    second = walk.ask(make_question(shape=STREAM, directives=fresher))
    await settle()
    assert len(walk.upstream.calls) == 2
    replies[1].end()
    await settle()
    assert len(walk.upstream.calls) == 3
    walk.upstream.reply(completion())
    assert (await whole).result is Result.MISS
    assert [(await task).result for task in (first, second)] == [Result.MISS] * 2


async def test_an_answer_larger_than_its_class_allows_passes_through(walk: Walk) -> None:
    """It is counted as refused, and nobody can join it any more."""
    small = replace(GENERAL, max_answer_bytes=10)
    walk.upstream.reply(completion())
    served = await walk.answer(make_question(request_class=small))
    assert (served.body, served.stored) == (completion(), False)
    assert walk.events.of(FillRefused) == [FillRefused("too_large", "general")]
    assert walk.events.of(UpstreamAnswered) == [
        UpstreamAnswered("upstream", "model", 0.0, 0.0, Usage())
    ]


@pytest.mark.parametrize(
    ("question", "gate"),
    [
        (make_question(directives=Directives(no_store=True)), "no_store"),
        (make_question(directives=Directives(ttl_seconds=0)), "ttl"),
        (
            make_question(request_class=replace(GENERAL, ttl_seconds=0), bypass="class general"),
            "class_never",
        ),
        (make_question(bypass="no API key"), None),
    ],
)
async def test_what_is_refused_in_advance_is_counted_too(
    walk: Walk, question: Question, gate: str | None
) -> None:
    """A gate that holds is counted; a request that no layer may see is no gate's business."""
    walk.upstream.reply(completion())
    await walk.answer(question)
    refused = [FillRefused(gate, "general")] if gate is not None else []
    assert walk.events.of(FillRefused) == refused


async def test_an_invalidation_keeps_an_answer_on_its_way_out(walk: Walk) -> None:
    """It reaches who asked before, is not stored, and who asks after it starts anew."""
    before = walk.ask(make_question())
    await settle()
    assert await walk.exact.invalidate(Selector(model="model")) == 0
    after = walk.ask(make_question())
    await settle()
    assert len(walk.upstream.calls) == 2

    walk.upstream.reply(completion("old"))
    walk.upstream.reply(completion("new"))
    assert (await before).body == completion("old")
    assert (await after).body == completion("new")
    assert FillRefused("invalidated", "general") in walk.events.events
    hit = walk.runner.answer_now(make_question())
    assert hit is not None
    assert hit.body == completion("new")


@pytest.mark.parametrize("how", ["stated", "set"])
async def test_a_moved_source_is_not_answered_by_an_older_call(walk: Walk, how: str) -> None:
    """Who knows of the new value does not read the reply to who asked under the old one."""
    sourced = replace(GENERAL, sources=("faq",))
    old = (SourceValue("faq", "v1"),)
    before = walk.ask(make_question(request_class=sourced, sources=old))
    await settle()
    news = (SourceValue("faq", "v2"),) if how == "stated" else ()
    if how == "set":
        await walk.exact.move_source(EVERYONE, SourceValue("faq", "v2"))
    after = walk.ask(make_question(request_class=sourced, sources=news))
    await settle()
    assert len(walk.upstream.calls) == 2
    walk.upstream.reply(completion("old"))
    walk.upstream.reply(completion("new"))
    assert (await before).body == completion("old")
    assert (await after).body == completion("new")

    hit = await walk.answer(make_question(request_class=sourced))
    assert (hit.result, hit.body) == (Result.HIT, completion("new"))


async def test_an_expired_answer_is_refreshed_behind_once(walk: Walk) -> None:
    """Everybody has the old one at once; one call fetches the new one."""
    question = make_question(request_class=PATIENT)
    await walk.fill(question, "old")
    walk.clock.seconds += 120
    served = [await walk.answer(question) for _ in range(5)]
    await settle()
    assert [one.result for one in served] == [Result.STALE] * 5
    assert [one.ttl_seconds for one in served] == [-20.0] * 5
    assert len(walk.upstream.calls) == 2

    walk.upstream.reply(completion("new"))
    await settle()
    fresh = await walk.answer(question)
    assert (fresh.result, fresh.body) == (Result.HIT, completion("new"))


async def test_a_refresh_that_fails_is_tried_again_by_the_next_request(walk: Walk) -> None:
    """Nobody hears of it; the old answer goes on as long as its class allows."""
    question = make_question(request_class=PATIENT)
    await walk.fill(question, "old")
    walk.clock.seconds += 120
    walk.upstream.fail(UNREACHABLE)
    assert (await walk.answer(question)).result is Result.STALE
    await settle()
    assert (await walk.answer(question)).result is Result.STALE
    await settle()
    assert len(walk.upstream.calls) == 3
    await walk.runner.aclose()


async def test_a_request_joins_a_refresh(walk: Walk) -> None:
    """Who may not have the old answer waits for the new one, with those behind it."""
    await walk.fill(make_question(request_class=PATIENT), "old")
    walk.clock.seconds += 120
    await walk.answer(make_question(request_class=PATIENT))
    impatient = walk.ask(make_question(request_class=replace(GENERAL, ttl_seconds=100)))
    await settle()
    # And a refresh is not begun where a call is under way already.
    assert (await walk.answer(make_question(request_class=PATIENT))).result is Result.STALE
    walk.upstream.reply(completion("new"))
    assert (await impatient).result is Result.COLLAPSED
    assert len(walk.upstream.calls) == 2


async def test_no_refresh_where_a_call_is_under_way(walk: Walk) -> None:
    """The answer that is coming is the new one."""
    impatient = make_question(request_class=replace(GENERAL, ttl_seconds=100))
    await walk.fill(make_question(request_class=PATIENT), "old")
    walk.clock.seconds += 120
    asking = walk.ask(impatient)
    await settle()
    await walk.answer(make_question(request_class=PATIENT))
    await settle()
    assert len(walk.upstream.calls) == 2
    asking.cancel()


async def test_refreshes_are_bounded_and_stop_with_the_runner(walk: Walk) -> None:
    """Past the bound the old answer is served all the same."""
    questions = [
        make_question(f"q{number}", request_class=PATIENT) for number in range(MAX_REFRESHES + 3)
    ]
    for question in questions:
        await walk.fill(question)
    walk.clock.seconds += 120
    filled = len(walk.upstream.calls)
    for question in questions:
        assert (await walk.answer(question)).result is Result.STALE
    await settle()
    assert len(walk.upstream.calls) == filled + MAX_REFRESHES

    await walk.runner.aclose()
    await settle()
    assert walk.upstream.stopped == MAX_REFRESHES


async def test_a_refresh_that_is_stopped_before_it_begins_lets_go_of_its_call(walk: Walk) -> None:
    """The runner closes between the stale answer and the task behind it."""
    question = make_question(request_class=PATIENT)
    await walk.fill(question)
    walk.clock.seconds += 120
    assert (await walk.answer(question)).result is Result.STALE
    await walk.runner.aclose()
    await settle()
    assert len(walk.flights) == 0


@pytest.mark.parametrize("failure", ["unreachable", 500, 429])
async def test_an_expired_answer_stands_in_for_a_failure(walk: Walk, failure: int | str) -> None:
    """Past revalidation, within stale-if-error; the trail says what happened."""
    question = make_question(request_class=PATIENT)
    await walk.fill(question, "old")
    walk.clock.seconds += 200
    if isinstance(failure, int):
        walk.upstream.reply(b"{}", status=failure)
    else:
        walk.upstream.fail(UNREACHABLE)
    served = await walk.answer(question)
    assert (served.result, served.body) == (Result.STALE, completion("old"))
    assert served.trail[-1] == "upstream: failed"
    assert served.saved_seconds == 0.0


async def test_followers_ask_once_more_before_they_take_the_stale_answer(walk: Walk) -> None:
    """Leader and followers all have it in the end, after two calls."""
    question = make_question(request_class=PATIENT)
    await walk.fill(question, "old")
    walk.clock.seconds += 200
    asking = [walk.ask(question) for _ in range(3)]
    await settle()
    for _ in range(2):
        walk.upstream.reply(b"{}", status=503)
    assert [(await task).result for task in asking] == [Result.STALE] * 3
    assert len(walk.upstream.calls) == 3


async def test_a_callers_fault_is_not_covered_by_a_stale_answer(walk: Walk) -> None:
    """A 400 is the caller's to see."""
    question = make_question(request_class=PATIENT)
    await walk.fill(question, "old")
    walk.clock.seconds += 200
    walk.upstream.reply(b"{}", status=400)
    assert (await walk.answer(question)).status == 400


async def test_past_stale_if_error_the_failure_is_the_answer(walk: Walk) -> None:
    """An answer that is too old for its class is none."""
    question = make_question(request_class=PATIENT)
    await walk.fill(question, "old")
    walk.clock.seconds += 300
    walk.upstream.fail(UNREACHABLE)
    with pytest.raises(UpstreamUnreachable):
        await walk.answer(question)


async def test_only_if_cached_asks_nobody(walk: Walk) -> None:
    """A 504, or the answer that is there."""
    question = make_question(directives=Directives(only_if_cached=True))
    with pytest.raises(RequestError) as caught:
        await walk.answer(question)
    assert caught.value.status == 504
    assert walk.upstream.calls == []
    await walk.fill(make_question())
    assert (await walk.answer(question)).result is Result.HIT


async def test_a_moved_source_is_never_served(walk: Walk) -> None:
    """Not even while revalidating or on an error; the failure is the answer."""
    question = make_question(request_class=replace(PATIENT, sources=("faq",)))
    await walk.fill(question, "old")
    await walk.exact.move_source(EVERYONE, SourceValue("faq", "v2"))
    walk.upstream.fail(UNREACHABLE)
    with pytest.raises(UpstreamUnreachable):
        await walk.answer(question)


async def test_an_unusable_stream_option_is_learned(walk: Walk) -> None:
    """A server that refuses ``stream_options`` is asked without them from then on."""
    question = make_question(shape=STREAM)
    for name, refuses in (("first", True), ("second", False)):
        if refuses:
            refusal = walk.upstream.reply(b"{}", status=400)
        reply = walk.upstream.reply(form=Form.SSE)
        reply.say(*stream_of("a"))
        reply.end()
        question = make_question(name, shape=STREAM)
        assert (await walk.answer(question)).status == 200
        assert refusal.closed
    options = [b"stream_options" in call.body for call in walk.upstream.calls]
    assert options == [True, False, False]


async def test_a_refused_request_does_not_teach_anything(walk: Walk) -> None:
    """A request that is wrong either way is refused once; others keep their usage."""
    for name in ("first", "second"):
        for _ in range(2):
            walk.upstream.reply(b'{"error":{}}', status=400)
        assert (await walk.answer(make_question(name, shape=STREAM))).status == 400
    options = [b"stream_options" in call.body for call in walk.upstream.calls]
    assert options == [True, False, True, False]


async def test_the_outcome_says_why_the_model_server_was_asked(walk: Walk) -> None:
    """An entry that expired is not a plain miss."""
    plain = make_question(request_class=replace(GENERAL, ttl_seconds=100, stale_if_error_seconds=9))
    await walk.fill(plain)
    walk.clock.seconds += 101
    walk.upstream.reply(completion())
    served = await walk.answer(plain)
    assert isinstance(served.outcome, Stale)
    assert served.outcome.reason is StaleReason.EXPIRED
    assert served.key == key_of(plain)


async def test_a_stored_stream_without_usage_is_a_miss_for_who_needs_it(walk: Walk) -> None:
    """The long way says so, too, and then stores an answer that serves all."""
    reply = walk.upstream.reply(form=Form.SSE)
    reply.say(*[event for event in stream_of("a") if b"total_tokens" not in event])
    reply.end()
    await body_of(await walk.answer(make_question(shape=STREAM)))
    walk.upstream.reply(completion())
    missed = await walk.answer(make_question())
    assert missed.trail[0] == "exact: miss, stored without the usage asked for"
    for shape in (JSON, STREAM, STREAM_WITH_USAGE):
        assert (await walk.answer(make_question(shape=shape))).result is Result.HIT


async def test_a_source_that_cannot_be_made_known_is_still_this_requests_own() -> None:
    """The store fails, which is an event; the request is judged by the value it states."""
    walk = make_walk(Forgetful)
    v1, v2 = [(SourceValue("faq", value),) for value in ("v1", "v2")]
    walk.upstream.reply(completion("of v1"))
    assert (await walk.answer(make_question(sources=v1))).result is Result.MISS
    assert (await walk.answer(make_question(sources=v1))).result is Result.HIT
    walk.upstream.reply(completion("of v2"))
    moved = await walk.answer(make_question(sources=v2))
    assert (moved.result, moved.body) == (Result.MISS, completion("of v2"))
    assert set(walk.events.of(Degraded)) == {Degraded("sources", "the disk is gone")}


async def test_a_stated_source_is_noted_even_where_the_cache_is_not_asked(walk: Walk) -> None:
    """With ``no-cache``: others must not go on under the old value."""
    news = (SourceValue("faq", "v1"),)
    walk.upstream.reply(completion())
    await walk.answer(make_question(sources=news, directives=Directives(no_cache=True)))
    assert walk.exact.source_value(make_namespace("tenant"), "faq") == "v1"
    assert (await walk.answer(make_question())).result is Result.HIT


async def test_no_call_is_made_for_what_came_while_the_layers_were_asked(walk: Walk) -> None:
    """Who has waited for a layer looks once more at memory, before it asks the model server."""
    slow = SlowParaphrases()
    runner = make_runner(
        walk.exact, walk.flights, clock=walk.clock, events=walk.events, paraphrases=slow
    )
    phrased = make_question(phrasing=make_phrasing("the question"))
    never_stored = replace(phrased, directives=Directives(no_store=True))
    fresh = replace(phrased, directives=Directives(min_fresh_seconds=1e6))
    waiting = [
        asyncio.create_task(runner.answer(make_ask(question, walk.upstream)))
        for question in (phrased, never_stored, fresh)
    ]
    await settle()
    await walk.fill(make_question())
    slow.go_on.set()
    for served in [await waiting[0], await waiting[1]]:
        assert (served.result, served.body) == (Result.HIT, completion())
        assert served.trail == (
            "exact: miss",
            "semantic: miss, second opinion: no",
            "exact: hit in memory",
        )
    # What is not fresh enough for its caller is not served to it.
    await walk.upstream.wait_for_calls(2)
    walk.upstream.reply(completion("newer"))
    assert (await waiting[2]).body == completion("newer")
    assert len(walk.upstream.calls) == 2
