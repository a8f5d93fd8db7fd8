"""All replicas of an upstream, and any one of them."""

import pytest
from support.steering import SomeReply, SomeServer, steering

from stepwell.core.errors import UpstreamBroken, UpstreamUnreachable
from stepwell.core.ports import Call, Reply
from stepwell.prefix.placement.replicas import Condition, ReplicaName
from stepwell.prefix.steering.servers import Roots

A, B = ReplicaName("a"), ReplicaName("b")


def well(_: Call) -> Reply:
    return SomeReply([b"{}"])


def gone(_: Call) -> Exception:
    return UpstreamUnreachable("nobody there", upstream="llm")


def broken(_: Call) -> Exception:
    return UpstreamBroken("broke off", upstream="llm")


GET = ("GET", "models", "", (), b"")


async def test_other_requests_go_to_who_has_least_to_do() -> None:
    one = steering(SomeServer("a", well), SomeServer("b", well))
    work = one.known.loads.begin(A, 0)
    await one.upstream.forward(*GET)
    assert one.calls == {"a": 0, "b": 1}
    work.ended()
    one.known.loads.begin(B, 0)
    await one.upstream.forward(*GET)
    assert one.calls == {"a": 1, "b": 1}


async def test_not_to_one_that_drains_and_to_the_next_where_one_is_gone() -> None:
    one = steering(SomeServer("a", gone), SomeServer("b", well), SomeServer("c", well))
    one.draining.add("b")
    await one.upstream.forward(*GET)
    assert one.calls == {"a": 1, "b": 0, "c": 1}
    assert one.replicas.condition(A) is Condition.DOWN
    await one.upstream.forward(*GET)
    assert one.calls == {"a": 1, "b": 0, "c": 2}


async def test_where_nobody_can_be_reached_it_says_so() -> None:
    one = steering(SomeServer("a", gone), SomeServer("b", gone))
    with pytest.raises(UpstreamUnreachable, match="llm cannot be reached"):
        await one.upstream.forward(*GET)
    # The next one is worth a try all the same.
    with pytest.raises(UpstreamUnreachable):
        await one.upstream.forward(*GET)
    assert one.calls == {"a": 2, "b": 2}


async def test_one_that_breaks_is_not_passed_over() -> None:
    """It may have done what was asked."""
    one = steering(SomeServer("a", broken))
    with pytest.raises(UpstreamBroken):
        await one.upstream.forward(*GET)
    assert one.replicas.condition(A) is Condition.READY


async def test_roots_are_asked_like_any_other() -> None:
    one = steering(SomeServer("a", gone), SomeServer("b", well))
    reply = await Roots(one.replicas).forward("POST", "tokenize", "", (), b"{}")
    assert reply.status == 200
    assert one.calls == {"a": 1, "b": 1}


def test_none_ready_counts_as_all_ready() -> None:
    one = steering(SomeServer("a", well), SomeServer("b", well))
    one.draining.update("ab")
    assert {state.condition for state in one.replicas.states()} == {Condition.READY}
    one.draining.discard("a")
    states = {state.name: state.condition for state in one.replicas.states()}
    assert states == {"a": Condition.READY, "b": Condition.DRAINING}
    (left,) = one.replicas.states(without=frozenset({A}))
    assert (left.name, left.condition) == ("b", Condition.READY)


def test_for_how_long_one_is_left_out() -> None:
    one = steering(SomeServer("a", well))
    replica = one.replicas[A]
    assert one.replicas.down_seconds(A) == 0
    one.replicas.failed(replica)
    assert one.replicas.down_seconds(A) == 1
    one.clock.seconds += 0.75
    assert one.replicas.down_seconds(A) == pytest.approx(0.25)
    one.clock.seconds += 5
    assert one.replicas.down_seconds(A) == 0
    assert one.replicas.names == ("a",)


async def test_what_it_answers_at_its_own_routes_ends_no_trial() -> None:
    """It says nothing of the operations: the pauses of one that refuses those go on doubling."""
    refuses = SomeServer("a", lambda call: SomeReply([b"{}"], 503 if call.key else 200))
    one = steering(refuses, SomeServer("b", well))
    one.replicas.failed(one.replicas[A])
    await Roots(one.replicas).forward("POST", "tokenize", "", (), b"{}")
    assert one.calls == {"a": 0, "b": 1}  # those on trial are asked last
    assert one.replicas[A].health.is_on_trial
    one.replicas.failed(one.replicas[A])
    assert one.replicas[A].health.pause_seconds == 2


async def test_a_refusal_is_no_sign_of_health() -> None:
    one = steering(SomeServer("a", lambda _: SomeReply([b"{}"], 503)))
    one.replicas.failed(one.replicas[A])
    await one.upstream.forward(*GET)
    assert one.replicas[A].health.is_on_trial
