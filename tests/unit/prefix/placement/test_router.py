"""Which replica gets a prompt, and why."""

from collections import Counter

import pytest
from support.prompts import blocks, salt_of, scope

from stepwell.core.kv import Tokens
from stepwell.core.names import CacheKey
from stepwell.prefix.placement.replicas import Condition, ReplicaName, ReplicaState
from stepwell.prefix.placement.residency import Residency
from stepwell.prefix.placement.router import Choice, Near, Router, Rules, Session, Why

A, B, C, D = (ReplicaName(name) for name in "abcd")
HERE = scope()
DEFAULT = Rules()
SYSTEM = range(1, 41)
"""A system prompt of 640 tokens."""


class House:
    """A router and what it knows, with replicas that do what they are told at once."""

    def __init__(self, *names: ReplicaName, rules: Rules = DEFAULT) -> None:
        self.known = Residency({}, salt_of=salt_of)
        self.router = Router(self.known, rules)
        self.loads = dict.fromkeys(names, 0.0)
        self.conditions = dict.fromkeys(names, Condition.READY)

    def choose(self, prompt: Tokens, prefer: Session | Near | None = None) -> Choice:
        states = [ReplicaState(n, self.loads[n], self.conditions[n]) for n in self.loads]
        choice = self.router.choose(prompt, HERE, states, prefer)
        assert choice is not None
        return choice

    def send(self, prompt: Tokens, to: ReplicaName | None = None) -> Choice:
        """Choose, and have the prompt computed there, or elsewhere."""
        choice = self.choose(prompt)
        self.known.sent(to or choice.replica, choice.region, prompt)
        return choice


def test_nobody_is_ready() -> None:
    """Then it is not for the router to say who is asked."""
    router = Router(Residency({}))
    assert router.choose(blocks(1), HERE, []) is None
    down = ReplicaState(A, condition=Condition.DOWN)
    assert router.choose(blocks(1), HERE, [down]) is None


def test_draining_and_down_are_left_out() -> None:
    """However much they hold, whatever the conversation."""
    house = House(A, B, C)
    house.send(blocks(*SYSTEM), to=A)
    session = Session(b"s")
    assert house.choose(blocks(*SYSTEM, 50), session).replica == A
    house.conditions |= {A: Condition.DRAINING, B: Condition.DOWN}
    choice = house.choose(blocks(*SYSTEM, 50), session)
    assert (choice.replica, choice.why, choice.predicted_tokens) == (C, Why.ONLY, 0)


def test_held_prefix_wins() -> None:
    """And says how much of the prompt need not be computed."""
    house = House(A, B)
    house.send(blocks(*SYSTEM), to=B)
    choice = house.choose(blocks(*SYSTEM, 50, 51))
    assert (choice.replica, choice.why, choice.predicted_tokens) == (B, Why.HELD, 640)


def test_load_outweighs() -> None:
    """A replica that holds the prompt but has far more to do loses it."""
    house = House(A, B)
    house.send(blocks(*SYSTEM), to=B)
    house.loads[B] = 8.0
    choice = house.choose(blocks(*SYSTEM, 50))
    assert (choice.replica, choice.why, choice.predicted_tokens) == (A, Why.LOAD, 0)


def test_cold_prefixes_have_a_home() -> None:
    """The same for all gateways; others that begin alike go there, too; it spreads."""
    one, other = House(A, B, C, D), House(D, C, B, A)
    homes = {n: one.choose(blocks(*range(n, n + 20))) for n in range(0, 2_000, 20)}
    for n, home in homes.items():
        assert home.why is Why.HOME
        assert other.choose(blocks(*range(n, n + 20))).replica == home.replica
        assert one.choose(blocks(*range(n, n + 16), 9_999)).replica == home.replica
    assert min(Counter(home.replica for home in homes.values()).values()) > 10


def test_home_with_too_much_to_do() -> None:
    """The next one in line takes what is new; back when the others have as much."""
    house = House(A, B, C)
    home = house.choose(blocks(*SYSTEM)).replica
    house.loads[home] = 3.0
    away = house.choose(blocks(*SYSTEM))
    assert (away.why, away.replica != home) == (Why.LOAD, True)
    house.loads |= dict.fromkeys(house.loads, 3.0)
    assert house.choose(blocks(*SYSTEM)).replica == home


def test_seed_moves_homes() -> None:
    """Two fleets need not have the same homes."""
    one, other = House(A, B, C, D), House(A, B, C, D, rules=Rules(seed=b"x"))
    prompts = [blocks(*range(n, n + 20)) for n in range(0, 1_000, 20)]
    assert any(one.choose(p).replica != other.choose(p).replica for p in prompts)


def test_hot_beginning_spreads() -> None:
    """One system prompt under all traffic ends up on all replicas, without any load to show."""
    house = House(A, B, C, D)
    sent = [house.send(blocks(*SYSTEM, 100 + n, 200 + n)) for n in range(200)]
    late = Counter(choice.replica for choice in sent[100:])
    assert set(late) == {A, B, C, D}
    assert max(late.values()) < 1.6 * 25
    assert Why.SPREAD in {choice.why for choice in sent}
    assert all(choice.predicted_tokens == 640 for choice in sent[100:])


def test_cool_beginnings_stay_where_they_are() -> None:
    """Ten system prompts that share the traffic evenly: each is held by few."""
    house = House(A, B, C, D)
    places: dict[int, set[ReplicaName]] = {}
    for n in range(600):
        system = n % 10
        choice = house.send(blocks(*range(system * 100, system * 100 + 40), 5_000 + n))
        places.setdefault(system, set()).add(choice.replica)
    assert sum(map(len, places.values())) <= 15


def test_conversation_stays() -> None:
    """Even where nothing is known of it any more."""
    house = House(A, B, C, D)
    sessions = [Session(bytes([n])) for n in range(4)]
    first = [house.choose(blocks(n), session).replica for n, session in enumerate(sessions)]
    again = [house.choose(blocks(n + 9), session) for n, session in enumerate(sessions)]
    assert [choice.replica for choice in again] == first
    assert {choice.why for choice in again} == {Why.SESSION}


def test_conversation_stays_without_tokens() -> None:
    """Where tokens are not known it is all there is to go by, and outweighs some load."""
    house = House(A, B, C, D)
    first = house.choose(Tokens(b""), Session(b"s")).replica
    house.loads |= dict.fromkeys(house.loads, 1.0) | {first: 4.0}
    for _ in range(20):
        choice = house.choose(Tokens(b""), Session(b"s"))
        assert (choice.replica, choice.why) == (first, Why.SESSION)


def test_conversation_leaves_what_has_too_much_to_do() -> None:
    """Where another is clearly better."""
    house = House(A, B)
    session = Session(b"s")
    first = house.choose(blocks(*SYSTEM), session).replica
    house.loads[first] = 10.0
    assert house.choose(blocks(*SYSTEM), session).replica != first


def test_sessions_are_bounded() -> None:
    """The one that was silent longest is forgotten."""
    house = House(A, B, C, D, rules=Rules(max_sessions=2))
    for name in (b"1", b"2", b"3"):
        house.choose(blocks(*SYSTEM), Session(name))
    assert house.choose(blocks(*SYSTEM), Session(b"1")).why is Why.HOME
    assert house.choose(blocks(*SYSTEM), Session(b"3")).why is Why.SESSION


def test_unknown_tokens_spread() -> None:
    """Without tokens and conversation nothing is at home anywhere."""
    house = House(A, B, C, D)
    assert len({house.choose(Tokens(b"")).replica for _ in range(100)}) == 4


def test_near_question_chooses_where_nothing_else_does() -> None:
    """It breaks the tie, and adds nothing that the prompt's own prefix had not found."""
    house = House(A, B, C, D)
    for name in (A, B, C, D):
        house.send(blocks(*SYSTEM), to=name)
    key = CacheKey(b"k" * 32)
    asked = house.choose(blocks(*SYSTEM, 50))
    house.router.remember(key, asked, blocks(*SYSTEM, 50))
    others = [house.choose(blocks(*SYSTEM, 60 + n), Near(key)) for n in range(3)]
    assert {(c.replica, c.why) for c in others} == {(asked.replica, Why.NEAR)}
    assert {(c.predicted_tokens, c.reference_tokens) for c in others} == {(640, 0)}


def test_near_question_knows_what_was_forgotten() -> None:
    """What only the reference promises is counted apart."""
    house = House(A, B)
    key = CacheKey(b"k" * 32)
    house.router.remember(key, house.choose(blocks(*SYSTEM)), blocks(*SYSTEM))
    choice = house.choose(blocks(*SYSTEM[:30], 99), Near(key))
    assert (choice.predicted_tokens, choice.reference_tokens) == (480, 480)


@pytest.mark.parametrize("tenant", ["other", None])
def test_near_question_of_another_scope(tenant: str | None) -> None:
    """Promises nothing, and a key that was never remembered is no preference."""
    router = Router(Residency({}, salt_of=salt_of))
    states = [ReplicaState(A), ReplicaState(B)]
    mine = router.choose(blocks(*SYSTEM), scope("mine"), states)
    assert mine is not None
    router.remember(CacheKey(b"k" * 32), mine, blocks(*SYSTEM))
    for key in (b"k" * 32, b"x" * 32):
        choice = router.choose(blocks(*SYSTEM), scope(tenant), states, Near(CacheKey(key)))
        assert choice is not None
        assert (choice.predicted_tokens, choice.reference_tokens) == (0, 0)


def test_replica_that_is_gone() -> None:
    """Neither a conversation nor a reference leads to it."""
    house = House(A, B)
    key, session = CacheKey(b"k" * 32), Session(b"s")
    first = house.choose(blocks(*SYSTEM), session)
    house.router.remember(key, first, blocks(*SYSTEM))
    del house.loads[first.replica]
    house.loads[C], house.conditions[C] = 0.0, Condition.READY
    for prefer in (session, Near(key)):
        assert house.choose(blocks(*SYSTEM), prefer).replica != first.replica


class TestUnread:
    """A prompt whose tokens are not known yet."""

    def test_goes_where_nothing_is_to_choose(self) -> None:
        house = House(A, B)
        states = [ReplicaState(A, condition=Condition.DRAINING), ReplicaState(B)]
        choice = house.router.choose_unread(HERE, states)
        assert choice is not None
        assert (choice.replica, choice.why, choice.predicted_tokens) == (B, Why.ONLY, 0)

    @pytest.mark.parametrize("condition", [Condition.READY, Condition.DOWN])
    def test_else_nowhere(self, condition: Condition) -> None:
        states = [ReplicaState(A, condition=condition), ReplicaState(B, condition=condition)]
        assert House(A, B).router.choose_unread(HERE, states) is None

    def test_its_conversation_stays_when_others_are_back(self) -> None:
        house = House(A, B)
        session = Session(b"s")
        house.router.choose_unread(HERE, [ReplicaState(B)], session)
        for number in range(5):
            assert house.choose(blocks(number), session).why is Why.SESSION

    def test_is_foretold_as_if_it_had_been_known(self) -> None:
        """What was learned since it was sent does not count, not even of itself."""
        house = House(A)
        prompt = blocks(*SYSTEM, 50)
        house.send(blocks(*SYSTEM[:20]))
        choice = house.router.choose_unread(HERE, [ReplicaState(A)])
        assert choice is not None
        moment = house.known.moment
        house.known.sent(A, choice.region, prompt)
        foretold = house.router.foretell(choice, prompt, as_of=moment)
        assert (foretold.predicted_tokens, foretold.reference_tokens) == (320, 0)
        assert house.choose(prompt).predicted_tokens == 640

    @pytest.mark.parametrize(("place", "credit"), [(A, 640), (B, 0)])
    def test_with_what_a_like_question_had(self, place: ReplicaName, credit: int) -> None:
        house = House(A, B)
        key = CacheKey(b"like")
        region = house.known.region(HERE)
        house.router.remember(key, Choice(place, Why.ONLY, region), blocks(*SYSTEM))
        choice = house.router.choose_unread(HERE, [ReplicaState(A)])
        assert choice is not None
        foretold = house.router.foretell(choice, blocks(*SYSTEM, 50), as_of=0, near=Near(key))
        assert (foretold.predicted_tokens, foretold.reference_tokens) == (credit, credit)
