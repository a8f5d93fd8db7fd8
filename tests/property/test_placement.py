"""Placement, whatever is sent, told, reported and lost, in any order."""

from collections.abc import Sequence
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st
from support.prompts import blocks, scope

from stepwell.core.kv import TOKEN_BYTES, Tokens
from stepwell.core.kv_events import (
    AllCleared,
    BlocksRemoved,
    BlocksStored,
    Gap,
    KvEvent,
    Resync,
)
from stepwell.prefix.placement.heat import Heat
from stepwell.prefix.placement.recent import Recent
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.rendezvous import ranked
from stepwell.prefix.placement.replicas import Condition, ReplicaName, ReplicaState
from stepwell.prefix.placement.residency import Residency, Room
from stepwell.prefix.placement.router import Router, Session
from stepwell.prefix.placement.sent import SentPrefixes
from stepwell.prefix.placement.told import ToldBlocks

SIZE = 2
"""Tokens of a block: small, so that ends of blocks are met often."""

NAMES = [ReplicaName(name) for name in "abcde"]
REGIONS = [Region(), Region(salt="s"), Region(adapter="s")]

numbers = st.lists(st.integers(0, 2), max_size=6)
"""Blocks of a prompt; so few that prompts share beginnings."""


@st.composite
def prompts(draw: st.DrawFn) -> Tokens:
    """Prompts that need not end with a block."""
    whole = blocks(*draw(numbers), size=SIZE)
    return Tokens(whole[: len(whole) - TOKEN_BYTES * draw(st.integers(0, 1))])


def hash_of(path: Sequence[int]) -> str:
    return "".join(map(str, path))


@st.composite
def stores(draw: st.DrawFn) -> BlocksStored:
    """Part of a way from the beginning, in a region."""
    path = draw(numbers.filter(bool))
    start = draw(st.integers(0, len(path) - 1))
    region = draw(st.sampled_from(REGIONS))
    mark = f"{region.adapter}/{region.salt}/"
    own = () if region.adapter is None else (region.adapter,)
    first = own if region.salt is None else (*own, region.salt)
    return BlocksStored(
        tuple((mark + hash_of(path[: end + 1])).encode() for end in range(start, len(path))),
        (mark + hash_of(path[:start])).encode() if start else None,
        blocks(*path[start:], size=SIZE),
        SIZE,
        adapter=region.adapter,
        extra=tuple(own if end else first for end in range(start, len(path))),
    )


def shared(one: Tokens, other: Tokens) -> int:
    """Return how many tokens two prompts share, in whole blocks."""
    step = SIZE * TOKEN_BYTES
    ends = range(step, min(len(one), len(other)) + 1, step)
    return SIZE * sum(1 for _ in takewhile(lambda end: one[:end] == other[:end], ends))


steps = st.one_of(
    st.tuples(st.just("sent"), st.sampled_from(REGIONS), prompts()),
    st.tuples(st.just("reported"), st.sampled_from(REGIONS), prompts(), st.integers(-1, 20)),
    st.tuples(st.just("resized"), st.integers(0, 30)),
)


@given(st.lists(steps, max_size=30), st.integers(0, 24), prompts())
def test_never_more_than_was_sent(done: list[tuple[object, ...]], room: int, asked: Tokens) -> None:
    """Nor than there is room for, nor the last token, whatever is reported."""
    known = Residency({NAMES[0]: Room(room, SIZE, is_known=True)})
    sent: dict[Region, list[Tokens]] = {region: [] for region in REGIONS}
    for step in done:
        match step:
            case ("sent", Region() as region, bytes(prompt)):
                known.sent(NAMES[0], region, Tokens(prompt))
                sent[region].append(Tokens(prompt))
            case ("reported", Region() as region, bytes(prompt), int(cached)):
                foretold = known.held_tokens(NAMES[0], region, Tokens(prompt))
                known.reported(
                    NAMES[0],
                    region,
                    Tokens(prompt),
                    foretold_tokens=foretold,
                    cached_tokens=cached,
                )
                sent[region].append(Tokens(prompt))
    for region in REGIONS:
        held = known.held_tokens(NAMES[0], region, asked)
        most = max((shared(one, asked) for one in sent[region]), default=0)
        assert held <= min(most, room, max(0, len(asked) // TOKEN_BYTES - 1))
        assert held % SIZE == 0


@given(st.lists(steps, max_size=30))
def test_shadow_counts_what_it_holds(done: list[tuple[object, ...]]) -> None:
    """Its tokens are those of the tree, never more than its room."""
    shadow = SentPrefixes(20, SIZE)
    every: set[tuple[Region, Tokens]] = set()
    for step in done:
        match step:
            case ("sent", Region() as region, bytes(prompt)):
                shadow.add(region, Tokens(prompt))
                every.add((region, Tokens(prompt)))
            case ("reported", Region() as region, bytes(prompt), int(keep)):
                shadow.cut(region, Tokens(prompt), max(0, keep))
            case ("resized", int(room)):
                shadow.resize(room)
        held = {
            (region, prompt[:end])
            for region, prompt in every
            for end in range(
                SIZE * TOKEN_BYTES,
                TOKEN_BYTES * shadow.matched_tokens(region, prompt) + 1,
                SIZE * TOKEN_BYTES,
            )
        }
        assert shadow.tokens == SIZE * len(held) <= shadow.max_tokens


@given(st.lists(stores(), max_size=12), st.randoms(use_true_random=False), prompts())
def test_order_of_events_does_not_matter(
    events: list[BlocksStored], choice: object, asked: Tokens
) -> None:
    """Told twice and shuffled, they say the same as once and in order."""
    once, often = ToldBlocks(10_000), ToldBlocks(10_000)
    again = [*events, *events]
    choice.shuffle(again)  # type: ignore[attr-defined]
    for known, some in ((once, events), (often, again)):
        for event in some:
            known.store(event)
    for region in REGIONS:
        assert once.matched_tokens(region, asked) == often.matched_tokens(region, asked)


events = st.one_of(
    stores(),
    st.builds(BlocksRemoved, numbers.map(lambda path: (f"None/None/{hash_of(path)}".encode(),))),
    st.builds(AllCleared),
    st.builds(Gap, st.integers(1, 9)),
    st.builds(Resync),
)


@given(st.lists(events, max_size=20), st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
def test_lost_and_repeated_events_never_break_it(
    told: list[KvEvent], lost: set[int], twice: set[int]
) -> None:
    """Claims stay within what was ever told to be stored, and nothing raises."""
    known = Residency({NAMES[0]: Room(100, SIZE)})
    stored: set[bytes | int] = set()
    for number, event in enumerate(told):
        for _ in range(0 if number in lost else 1 + (number in twice)):
            known.told(NAMES[0], event)
        if isinstance(event, BlocksStored) and number not in lost:
            stored.update(event.blocks)
    for path in ([0, 1, 2, 0], [1, 1], [2, 0, 1]):
        held = known.held_tokens(NAMES[0], Region(), blocks(*path, 9, size=SIZE))
        way = [f"None/None/{hash_of(path[: end + 1])}".encode() for end in range(len(path))]
        assert held <= SIZE * sum(1 for _ in takewhile(stored.__contains__, way))


states = st.lists(
    st.builds(
        ReplicaState,
        st.sampled_from(NAMES),
        st.floats(0, 1e6),
        st.sampled_from(list(Condition)),
    ),
    unique_by=lambda state: state.name,
    max_size=5,
)

calls = st.lists(
    st.tuples(prompts(), states, st.none() | st.integers(0, 2), st.booleans()), max_size=20
)


@given(calls)
def test_only_who_is_ready_and_always_the_same(
    done: list[tuple[Tokens, list[ReplicaState], int | None, bool]],
) -> None:
    """Two routers that saw the same choose the same; nobody who is not ready is chosen."""
    houses = []
    for _ in range(2):
        known = Residency(dict.fromkeys(NAMES, Room(40, SIZE)))
        houses.append((known, Router(known)))
    for prompt, fleet, chat, computes in done:
        prefer = None if chat is None else Session(bytes([chat]))
        chosen = [router.choose(prompt, scope(), fleet, prefer) for _, router in houses]
        assert chosen[0] == chosen[1]
        ready = {one.name for one in fleet if one.condition is Condition.READY}
        if chosen[0] is None:
            assert not ready
            continue
        assert chosen[0].replica in ready
        assert chosen[0].predicted_tokens < max(1, len(prompt))
        for known, _ in houses if computes else ():
            known.sent(chosen[0].replica, chosen[0].region, prompt)


@given(st.lists(st.sampled_from(NAMES), unique=True), st.sampled_from(NAMES), st.binary(max_size=9))
def test_who_joins_takes_only_its_own(
    fleet: list[ReplicaName], joins: ReplicaName, key: bytes
) -> None:
    """All others keep their order, so a key moves to the new one or not at all."""
    before = [name for name in fleet if name != joins]
    after = ranked(key, [*before, joins])
    assert [name for name in after if name != joins] == ranked(key, reversed(before))


def test_joining_moves_one_in_n() -> None:
    """Of 2,000 beginnings that nobody holds, a fifth replica takes about a fifth."""
    moved = 0
    for number in range(2_000):
        key = number.to_bytes(4, "big")
        moved += ranked(key, NAMES[:4])[0] != ranked(key, NAMES)[0]
    assert 0.16 < moved / 2_000 < 0.24


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(2, 8))
def test_shares_are_shares(places: list[int], window: int) -> None:
    """A place's share of the repeats is one, and what is above the mean is paid below it."""
    heat, recent = Heat(window), Recent(window)
    for place in places:
        assert 0 <= heat.note(place) < 1
        recent.note(NAMES[place % 3], float(place))
        assert abs(sum(recent.above_mean(NAMES).values())) < 1e-9


@given(
    st.lists(st.one_of(prompts(), stores()), max_size=8),
    st.lists(st.one_of(prompts(), stores()), max_size=8),
    prompts(),
)
def test_what_was_held_at_a_moment(
    before: list[Tokens | BlocksStored], after: list[Tokens | BlocksStored], asked: Tokens
) -> None:
    """Is what was said then, as long as nothing is forgotten."""
    replica = NAMES[0]
    known = Residency({replica: Room(10_000, SIZE)})

    def learn(news: list[Tokens | BlocksStored]) -> None:
        for one in news:
            if isinstance(one, BlocksStored):
                known.told(replica, one)
            else:
                known.sent(replica, REGIONS[0], one)

    learn(before)
    moment, then = known.moment, known.held_tokens(replica, REGIONS[0], asked)
    learn(after)
    assert known.held_tokens(replica, REGIONS[0], asked, as_of=moment) == then
    now = known.held_tokens(replica, REGIONS[0], asked)
    assert known.held_tokens(replica, REGIONS[0], asked, as_of=known.moment) == now >= then
