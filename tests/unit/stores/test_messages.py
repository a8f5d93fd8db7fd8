"""Messages of the feed: what is written comes back, also to who does not know all of it."""

import msgspec
import pytest

from stepwell.core.changes import Change, Invalidated, Judged, Replaced, SourceMoved
from stepwell.core.entry import Selector
from stepwell.core.errors import CorruptEntry, OtherVersion
from stepwell.core.names import PairId, Position
from stepwell.stores import messages
from stepwell.stores.messages import (
    VERSION,
    invalidated_message,
    judged_message,
    read_message,
    replaced_message,
    source_message,
)
from stepwell.stores.record import seal, unseal
from stepwell.testing.entries import make_entry, make_judgement

AT = Position(7)
ENTRY = make_entry()
SELECTOR = Selector(namespace=ENTRY.namespace, tag="退货")
JUDGEMENT = make_judgement(PairId(bytes(16)), ENTRY.key)

SAID: list[tuple[bytes, Change]] = [
    (invalidated_message(SELECTOR), Invalidated(AT, SELECTOR)),
    (replaced_message(ENTRY.key), Replaced(AT, ENTRY.key)),
    (source_message(ENTRY.namespace, "faq", "v1"), SourceMoved(AT, ENTRY.namespace, "faq", "v1")),
    (judged_message(JUDGEMENT), Judged(AT, JUDGEMENT)),
]


@pytest.mark.parametrize(("message", "change"), SAID)
def test_round_trip(message: bytes, change: Change) -> None:
    """A message says what was meant."""
    assert read_message(AT, message) == change


@pytest.mark.parametrize(("message", "change"), SAID)
def test_what_is_added_at_the_end_is_passed_over(message: bytes, change: Change) -> None:
    """So a newer version may say more without tearing the feed of an older one."""
    words = msgspec.msgpack.decode(unseal(message, VERSION))
    longer = msgspec.msgpack.encode([*words, "what nobody knew of"])
    assert read_message(AT, seal(longer, VERSION)) == change


def test_what_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of message that is not known, one that is cut short, one of another version."""
    for words in (["unheard of", b""], ["source", b""]):
        with pytest.raises(CorruptEntry):
            read_message(AT, seal(msgspec.msgpack.encode(words), VERSION))
    monkeypatch.setattr(messages, "VERSION", VERSION + 1)
    with pytest.raises(OtherVersion):
        read_message(AT, SAID[0][0])
