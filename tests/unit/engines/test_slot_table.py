"""Which slot a prompt goes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.engines.slot_table import MAX_COMPARED_BYTES, SlotTable, common_bytes


def serve(table: SlotTable, request: bytes) -> int | None:
    """Send one request after the other."""
    slot = table.take(request)
    if slot is not None:
        table.give_back(slot)
    return slot


def test_a_conversation_goes_on_where_it_was() -> None:
    """Also when another one shares its system prompt."""
    table = SlotTable(2)
    first = table.take(b"system, cows")
    second = table.take(b"system, dogs")
    assert {first, second} == {0, 1}
    for slot in (0, 1):
        table.give_back(slot)
    for _ in range(3):
        assert serve(table, b"system, dogs and more") == second
        assert serve(table, b"system, cows and more") == first


def test_a_busy_slot_is_never_named() -> None:
    """Others serve instead, and with none free the server chooses."""
    table = SlotTable(2)
    mine = table.take(b"system, cows")
    other = table.take(b"system, cows and more")
    assert (mine, other) == (0, 1)
    assert table.take(b"system, cows") is None
    table.give_back(1)
    assert table.take(b"nothing alike") == 1


def test_without_likeness_the_least_recently_used_serves() -> None:
    """So that what was used just now stays."""
    table = SlotTable(3)
    assert [serve(table, text) for text in (b"a", b"b", b"c", b"d", b"e")] == [0, 1, 2, 0, 1]


def test_memory_is_bounded() -> None:
    """Only the beginning of a request is kept, and it is enough to know it again."""
    table = SlotTable(2)
    assert serve(table, b"x" * MAX_COMPARED_BYTES * 2) == 0
    assert serve(table, b"y") == 1
    assert serve(table, b"x" * MAX_COMPARED_BYTES * 3) == 0
    assert max(len(slot.held) for slot in table._slots) == MAX_COMPARED_BYTES


BYTES = st.text("ab", max_size=12).map(str.encode)


@given(BYTES, BYTES)
def test_common_bytes(one: bytes, other: bytes) -> None:
    """As a loop over bytes would count them."""
    counted = 0
    while counted < min(len(one), len(other)) and one[counted] == other[counted]:
        counted += 1
    assert common_bytes(one, other) == counted


@given(st.lists(st.tuples(BYTES, st.booleans()), max_size=30), st.integers(1, 4))
def test_no_slot_serves_two(steps: list[tuple[bytes, bool]], slots: int) -> None:
    """Whatever comes and goes: a slot that is named is free, and one is named while any is."""
    table, busy = SlotTable(slots), set[int]()
    for request, ends in steps:
        if ends and busy:
            table.give_back(busy.pop())
            continue
        slot = table.take(request)
        if slot is None:
            assert len(busy) == slots
        else:
            assert slot not in busy
            busy.add(slot)


@pytest.mark.parametrize("request_bytes", [b"", b"\xff\x00"])
def test_odd_requests(request_bytes: bytes) -> None:
    """Any bytes have a slot."""
    assert serve(SlotTable(1), request_bytes) == 0
