"""Which slot a key has, and what a cluster says of its slots."""

import pytest

from stepwell.core.errors import StoreUnavailable
from stepwell.stores.redis.address import HostPort
from stepwell.stores.redis.link import Refused, Reply
from stepwell.stores.redis.slots import (
    Ask,
    Moved,
    Redirect,
    SlotRange,
    TryAgain,
    parse_redirect,
    parse_slots,
    slot_of,
)

ASKED = HostPort("asked", 7000)


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        # From the specification, and as CLUSTER KEYSLOT says.
        (b"123456789", 12739),
        (b"", 0),
        (b"foo", 12182),
        (b"{foo}bar", 12182),
        (b"a{foo}b{bar}", 12182),
        (b"foo{}{bar}", 8363),
        (b"foo{{bar}}zap", 4015),
        (b"foo{bar", 15278),
        (b"}foo{bar}", 5061),
        (b"\x00\xff", 7920),
    ],
)
def test_slot(key: bytes, slot: int) -> None:
    """A hash tag decides, if there is one."""
    assert slot_of(key) == slot


def test_slots() -> None:
    """Where a node has no host, it is the one that was asked; one with an unknown host is none."""
    reply: Reply = [
        [0, 99, [b"a", 1, b"id", []], [b"b", 2, b"id"], [b"?", 3, b"id"]],
        [100, 100, [b"", 4]],
        [101, 199, [None, 5]],
        [200, 16383, [b"?", 6]],
    ]
    assert parse_slots(reply, ASKED) == (
        SlotRange(0, 99, HostPort("a", 1), (HostPort("b", 2),)),
        SlotRange(100, 100, HostPort("asked", 4), ()),
        SlotRange(101, 199, HostPort("asked", 5), ()),
    )


@pytest.mark.parametrize(
    "reply", [None, b"OK", [1], [[0, 1]], [[5, 4, [b"a", 1]]], [[0, 16384, [b"a", 1]]]]
)
def test_no_slots(reply: Reply) -> None:
    """Whatever else a server says is no topology."""
    with pytest.raises(StoreUnavailable, match="asked:7000 does not tell"):
        parse_slots(reply, ASKED)


@pytest.mark.parametrize(
    ("error", "redirect"),
    [
        ("MOVED 7 a:1", Moved(7, HostPort("a", 1))),
        ("MOVED 7 :1", Moved(7, HostPort("asked", 1))),
        ("MOVED 7 2001:db8::1:6379", Moved(7, HostPort("2001:db8::1", 6379))),
        ("ASK 7 a:1", Ask(HostPort("a", 1))),
        ("TRYAGAIN Multiple keys request during rehashing of slot", TryAgain()),
        ("MOVED 7 ?:1", None),
        ("MOVED 16384 a:1", None),
        ("MOVED 7 a", None),
        ("MOVED", None),
        ("ASK 7 a:b", None),
        ("OOM command not allowed", None),
    ],
)
def test_redirect(error: str, redirect: Redirect | None) -> None:
    """What leads nowhere stays the error it is."""
    assert parse_redirect(Refused(error), ASKED) == redirect
