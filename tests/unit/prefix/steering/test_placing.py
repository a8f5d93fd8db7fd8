"""What a placement tells, and learns from."""

import pytest
from support.steering import ALICE, SomeReply, SomeServer, Steering, asking, call, steering

from stepwell.core.entry import Usage
from stepwell.core.events import CachedTokensCompared, Degraded
from stepwell.core.kv import Tokens
from stepwell.core.names import Namespace
from stepwell.engines.token_sources import tokens_of
from stepwell.prefix.placement.replicas import ReplicaName
from stepwell.prefix.placement.residency import Residency
from stepwell.prefix.placement.router import Router
from stepwell.prefix.steering.placement import Knowledge, Placement
from stepwell.prefix.steering.placing import Placing, scope_of
from stepwell.prefix.steering.prompts import Asked, Prompt

A = ReplicaName("a")
IDS = range(1_000, 1_400)


@pytest.fixture
def one() -> Steering:
    """A steered upstream of one replica."""
    return steering(SomeServer("a", lambda _: SomeReply([])))


def placed(
    one: Steering,
    *,
    tokens: Tokens = tokens_of(IDS),  # noqa: B008  (bytes)
    is_exact: bool = True,
    tenant: Namespace | None = ALICE,
) -> Placement:
    placing = Placing("llm", one.known, hints=one.hints, events=one.events)
    asked = Asked.of(call({"model": "m"}, namespace=tenant))
    placement = placing.place(asked, Prompt(tokens, is_exact), one.replicas.states(), None)
    assert placement is not None
    return placement


def finished(one: Steering, usage: Usage | None, **how: object) -> Placement:
    placement = placed(one, **how)  # type: ignore[arg-type]
    placement.began()
    placement.ended(usage)
    return placement


def compared(one: Steering) -> CachedTokensCompared:
    event = one.events.of(CachedTokensCompared)[-1]
    assert isinstance(event, CachedTokensCompared)
    return event


def test_what_was_read_is_foretold(one: Steering) -> None:
    assert placed(one).noted == "prefix: 0 of 400 tokens foretold on a (only)"
    finished(one, Usage(400, 1, 0))
    # The last token is always computed, and with it its block.
    assert placed(one).noted == "prefix: 384 of 400 tokens foretold on a (only)"
    assert placed(one, is_exact=False).noted.startswith("prefix: about 384 of 400 tokens")


def test_not_to_another_tenant_where_there_are_salts() -> None:
    one = steering(SomeServer("a", lambda _: SomeReply([])))
    residency = Residency({}, salt_of=lambda scope: (scope.tenant or b"").hex())
    one.known = Knowledge(residency, Router(residency))
    finished(one, Usage(400, 1, 0))
    assert "384 of 400" in placed(one).noted
    assert " 0 of 400" in placed(one, tenant=Namespace(bytes(16))).noted


def test_what_stands_for_tokens_is_compared_in_the_servers(one: Steering) -> None:
    """400 of ours are 200 of the server's: half of each is a hundred."""
    finished(one, Usage(200, 1, 0), is_exact=False)
    finished(one, Usage(200, 1, 192), is_exact=False)
    assert compared(one) == CachedTokensCompared("llm", "a", 200, 192, 192)
    region = one.known.residency.region(scope_of("m", ALICE))
    assert one.known.residency.held_tokens(A, region, tokens_of([*IDS, 1])) == 400


def test_a_report_of_less_cuts_what_is_believed(one: Steering) -> None:
    finished(one, Usage(400, 1, 0))
    other = tokens_of([*IDS[:200], *range(200)])
    finished(one, Usage(400, 1, 96), tokens=other)
    # What stood behind the 96 is gone; of the first prompt, what the other shares is there again.
    region = one.known.residency.region(scope_of("m", ALICE))
    assert one.known.residency.held_tokens(A, region, tokens_of(IDS)) == 192
    assert one.known.residency.held_tokens(A, region, other) == 384


@pytest.mark.parametrize("usage", [None, Usage(400, 1, None), Usage(0, 0, 0)])
def test_what_says_nothing_teaches_nothing(one: Steering, usage: Usage | None) -> None:
    finished(one, usage)
    assert one.events.of(CachedTokensCompared) == []
    assert one.loads == [0]
    assert "384 of 400" in placed(one).noted


def test_more_cached_than_there_is(one: Steering) -> None:
    """As a caller of this class may report it; what reads usage off the wire caps it before."""
    finished(one, Usage(400, 1, 10_000))
    (event,) = one.events.of(Degraded)
    assert isinstance(event, Degraded)
    assert "reports 10000 cached tokens of a prompt of 400" in event.error
    assert one.known.foretold.agreement(A).reported_tokens == 400
    finished(one, Usage(400, 1, 10_000))
    assert len(one.events.of(Degraded)) == 1


def test_the_load_is_what_is_left_to_compute(one: Steering) -> None:
    long = tokens_of(range(2_048))
    first = placed(one, tokens=long)
    assert one.loads == [3.0]
    first.began()
    assert one.loads == [1.0]
    first.ended(Usage(2_048, 1, 0))
    second = placed(one, tokens=long)
    assert 1.0 < one.loads[0] < 1.02
    second.ended(None)
    assert one.loads == [0.0]


def test_placed_on_a_replica_it_is_foretold_as_elsewhere(one: Steering) -> None:
    finished(one, Usage(400, 1, 0))
    placing = Placing("llm", one.known, hints=one.hints, events=one.events)
    prompt = Prompt(tokens_of(IDS), is_exact=True)
    placement = placing.place_on(A, Asked.of(asking(IDS)), prompt)
    assert placement.noted == "prefix: 384 of 400 tokens foretold on a (warm-up)"
    placement.ended(None)
