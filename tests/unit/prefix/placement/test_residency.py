"""What replicas probably hold: from what was sent, what they tell, and what they report."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.prompts import blocks, salt_of, scope

from stepwell.core.kv import Tokens
from stepwell.core.kv_events import AllCleared, BlocksRemoved, BlocksStored, Gap, Resync
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.replicas import ReplicaName
from stepwell.prefix.placement.residency import Residency, Room
from stepwell.prefix.placement.sent import SentPrefixes

A, B = ReplicaName("a"), ReplicaName("b")
HERE = Region()
LONG = blocks(*range(1, 41))
"""640 tokens."""


def residency(tokens: int = 10_000, **more: bool) -> Residency:
    return Residency({A: Room(tokens, **more)}, salt_of=salt_of)


def stored(hashes: str, *numbers: int, after: bytes | None = None) -> BlocksStored:
    return BlocksStored(tuple(h.encode() for h in hashes), after, blocks(*numbers), 16)


def report(known: Residency, prompt: Tokens, cached: int) -> int:
    """Send a prompt as the pipeline does; return what was foretold."""
    foretold = known.held_tokens(A, HERE, prompt)
    known.sent(A, HERE, prompt)
    known.reported(A, HERE, prompt, foretold_tokens=foretold, cached_tokens=cached)
    return foretold


def test_last_token_is_never_held() -> None:
    """A prompt that ends with a block loses it; so does one that is sent again."""
    known = residency()
    known.sent(A, HERE, blocks(1, 2))
    assert known.held_tokens(A, HERE, blocks(1, 2)) == 16
    assert known.held_tokens(A, HERE, blocks(1, 2, 3)) == 32
    assert known.held_tokens(B, HERE, blocks(1, 2, 3)) == 0
    assert known.held_tokens(A, HERE, Tokens(b"")) == 0


def test_scopes_by_salt() -> None:
    """Tenants are apart where salts are sent, and together where none are, as in the replica."""
    salted, plain = residency(), Residency({})
    one, other = scope("one"), scope("other")
    assert salted.region(one) != salted.region(other)
    assert plain.region(one) == plain.region(other)
    assert plain.region(one) != plain.region(scope("one", adapter="lora"))
    assert "one" not in repr(salted.region(one)).replace("None", "")


def test_events_add_to_what_was_sent() -> None:
    """Another gateway's prompts are seen by events only."""
    known = residency()
    known.sent(A, HERE, blocks(1, 2))
    known.told(A, stored("ab", 7, 8))
    assert known.held_tokens(A, HERE, blocks(1, 2, 3)) == 32
    assert known.held_tokens(A, HERE, blocks(7, 8, 9)) == 32


def test_removal_corrects_what_was_sent() -> None:
    """A block that a replica says is gone is not believed to be there because it was sent."""
    known = residency()
    known.sent(A, HERE, blocks(1, 2, 3))
    known.told(A, stored("abc", 1, 2, 3))
    known.told(A, BlocksRemoved((b"b",)))
    assert known.held_tokens(A, HERE, blocks(1, 2, 3, 4)) == 16
    known.told(A, BlocksRemoved((b"b", b"x")))
    assert known.held_tokens(A, HERE, blocks(1, 2, 3, 4)) == 16


def test_removal_in_the_right_region_only() -> None:
    """What another tenant loses says nothing of this one."""
    known = residency()
    mine = known.region(scope("mine"))
    known.sent(A, mine, blocks(1, 2))
    known.told(A, stored("ab", 1, 2))
    known.told(A, BlocksRemoved((b"a", b"b")))
    assert known.held_tokens(A, mine, blocks(1, 2, 3)) == 32


def test_gap_falls_back_to_what_was_sent() -> None:
    """After lost events only what was sent counts, until events tell it anew."""
    for lost in (Gap(3), Resync()):
        known = residency()
        known.sent(A, HERE, blocks(1, 2))
        known.told(A, stored("ab", 7, 8))
        known.told(A, lost)
        assert known.held_tokens(A, HERE, blocks(7, 8, 9)) == 0
        assert known.held_tokens(A, HERE, blocks(1, 2, 3)) == 32
        known.told(A, stored("ab", 7, 8))
        assert known.held_tokens(A, HERE, blocks(7, 8, 9)) == 32


def test_cleared_and_restarted_replicas_hold_nothing() -> None:
    """Both sources are forgotten; another run of the process has empty memory."""
    known = residency()
    known.running(A, "started at 1")
    emptied: tuple[Callable[[], None], ...] = (
        lambda: known.told(A, AllCleared()),
        lambda: known.running(A, "started at 2"),
        lambda: known.forget(A),
    )
    for empty in emptied:
        known.sent(A, HERE, blocks(1, 2))
        known.told(A, stored("ab", 7, 8))
        empty()
        assert known.held_tokens(A, HERE, blocks(1, 2, 3)) == 0
        assert known.held_tokens(A, HERE, blocks(7, 8, 9)) == 0
    known.sent(A, HERE, blocks(1, 2))
    known.running(A, "started at 2")
    assert known.held_tokens(A, HERE, blocks(1, 2, 3)) == 32


def test_room_as_told() -> None:
    """A replica that tells its memory and block size is believed; what was known is dropped."""
    known = residency()
    known.sent(A, HERE, LONG)
    known.running(A, "1", Room(256, block_tokens=128, is_known=True))
    assert known.held_tokens(A, HERE, LONG) == 0
    known.sent(A, HERE, LONG)
    assert known.held_tokens(A, HERE, LONG) == 256
    known.running(A, "1", Room(256, block_tokens=128, is_known=True))
    assert known.held_tokens(A, HERE, LONG) == 256


def test_events_of_the_new_run_outlive_its_being_known() -> None:
    """Events and what a replica says of itself come in either order, at the start and later."""
    known = residency()
    for run in ("started at 1", "started at 2"):
        known.sent(A, HERE, blocks(1, 2))
        known.told(A, Resync())
        known.told(A, stored("ab", 7, 8))
        known.running(A, run, Room(4_096, block_tokens=16, is_known=True))
        assert known.held_tokens(A, HERE, blocks(1, 2, 3)) == 0
        assert known.held_tokens(A, HERE, blocks(7, 8, 9)) == 32
    known.running(A, "started at 2")
    known.running(A, "started at 3")
    assert known.held_tokens(A, HERE, blocks(7, 8, 9)) == 0


def test_report_of_less_cuts_others_too() -> None:
    """Who goes the same way behind the missing block finds nothing there, either."""
    known = residency()
    known.sent(A, HERE, blocks(1, 2, 3, 4))
    known.sent(A, HERE, blocks(1, 2, 3, 5))
    assert report(known, blocks(1, 2, 3, 4, 6), 16) == 64
    assert known.held_tokens(A, HERE, blocks(1, 2, 3, 4, 7)) == 64
    assert known.held_tokens(A, HERE, blocks(1, 2, 3, 5, 7)) == 48


@pytest.mark.parametrize("assumed", [16_000, 4_000, 1_000], ids=["too-large", "right", "too-small"])
def test_assumed_room_is_learned(assumed: int) -> None:
    """From reports alone: in the end, what is foretold is what is there, nearly always."""
    replica, known, choice = SentPrefixes(4_000, 16), residency(assumed), random.Random(5)
    prompts = [blocks(*range(n * 100, n * 100 + 30)) for n in range(30)]  # 14,400 tokens
    foretold, there = [], []
    for _ in range(2_000):
        prompt = prompts[min(choice.randrange(30), choice.randrange(30))]
        there.append(replica.matched_tokens(HERE, Tokens(prompt[:-4])))
        replica.add(HERE, prompt)
        foretold.append(report(known, prompt, there[-1]))
    met = sum(map(min, foretold[-500:], there[-500:]))
    assert met > 0.85 * sum(foretold[-500:])
    assert met > 0.85 * sum(there[-500:])


def test_known_room_is_not_learned() -> None:
    """Where the replica says what it has, reports move nothing but what is there."""
    known = residency(tokens=6_400, is_known=True)
    prompts = [blocks(*range(n * 100, n * 100 + 20)) for n in range(20)]
    for number in range(200):
        report(known, prompts[number % 20], 160)
    assert sum(known.held_tokens(A, HERE, prompt) for prompt in prompts) == 20 * 304


def test_unseen_restart() -> None:
    """Broken promises in a row: all is forgotten, not only the prompts that showed it."""
    known = residency()
    prompts = [blocks(*range(n * 100, n * 100 + 30)) for n in range(9)]
    for prompt in prompts:
        known.sent(A, HERE, prompt)
    for prompt in prompts[:3]:
        report(known, prompt, 0)
    assert known.held_tokens(A, HERE, prompts[8]) == 0


def test_events_of_a_liar_are_not_believed() -> None:
    """Until they begin anew; reports and what was sent still count."""
    known = residency()
    numbers = range(1, 30)
    lie = BlocksStored(tuple(numbers), None, blocks(*numbers), 16)
    for _ in range(3):
        known.told(A, lie)
        foretold = known.held_tokens(A, HERE, LONG)
        known.reported(A, HERE, LONG, foretold_tokens=foretold, cached_tokens=0)
    known.told(A, lie)
    assert known.held_tokens(A, HERE, blocks(*numbers, 99)) == 0
    known.sent(A, HERE, LONG)
    assert known.held_tokens(A, HERE, LONG) == 624
    known.told(A, Resync())
    known.told(A, lie)
    assert known.held_tokens(A, HERE, blocks(*numbers, 99)) == 29 * 16


def test_absurd_reports() -> None:
    """Above the prompt, or below zero: they prove nothing and break nothing."""
    known = residency()
    assert report(known, blocks(1, 2, 3), 10**12) == 0
    assert report(known, blocks(1, 2, 3), -7) == 32
    assert known.held_tokens(A, HERE, blocks(1, 2, 3, 4)) == 48


def test_a_model_that_no_event_names_is_the_base_model() -> None:
    known = residency()
    assert known.adapter_of("base") == "base"  # Nobody tells: models are kept apart by name.
    known.told(A, replace(stored("1", 1), adapter="tuned"))
    assert known.adapter_of("base") is None
    assert known.adapter_of("tuned") == "tuned"


def test_long_and_short_prompts() -> None:
    """A prompt of 32k tokens, then thousands of short ones: within the room, all the time."""
    known = residency(tokens=40_000, is_known=True)
    long = blocks(*range(2_048))
    known.sent(A, HERE, long)
    assert known.held_tokens(A, HERE, long) == 32 * 1024 - 16
    for number in range(3_000):
        known.sent(A, HERE, blocks(number, number + 1))
    newest = range(3_000 - 40_000 // 32 + 1, 3_000)
    held = sum(known.held_tokens(A, HERE, blocks(n, n + 1, 7)) for n in newest)
    assert held == 32 * len(newest)
    assert known.held_tokens(A, HERE, long) <= 40_000 - held


def test_prompts_that_differ_in_the_first_token() -> None:
    """Share nothing, however long the rest."""
    known = residency()
    known.sent(A, HERE, LONG)
    assert known.held_tokens(A, HERE, Tokens(b"\xff\xff\xff\xff" + LONG[4:])) == 0


def test_tokens_that_are_none() -> None:
    """Bytes that are no whole tokens are refused, not guessed at."""
    with pytest.raises(ValueError, match="bytes of tokens"):
        residency().sent(A, HERE, Tokens(LONG[:-1]))
