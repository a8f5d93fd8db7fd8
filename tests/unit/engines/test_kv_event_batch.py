"""KV events, from bytes to values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.kv_blocks import make_tokens
from support.kv_publisher import packed, stored

from stepwell.core.kv_events import AllCleared, BlocksRemoved, BlocksStored, KvEvent
from stepwell.engines.kv_event_batch import NoBatch, parse_batch

ZERO = bytes(8)


def events_of(*events: object) -> tuple[KvEvent, ...]:
    return parse_batch(ZERO, packed(1.0, events)).events


def test_as_vllm_sends_it() -> None:
    """All that a stored block says comes through, and its salt is not printed."""
    stored_block = {
        "type": "BlockStored",
        "block_hashes": [b"h1", b"h2"],
        "parent_block_hash": b"h0",
        "token_ids": [1, 2, 3, 4],
        "block_size": 2,
        "lora_id": 7,
        "medium": "GPU",
        "lora_name": "sql",
        "extra_keys": [["sql", ["image", 3], "top secret"], None],
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
        "session_id": "s",
        "invented_tomorrow": {},
    }
    removed = {"type": "BlockRemoved", "block_hashes": [5], "medium": "CPU", "group_idx": 0}
    batch = parse_batch((258).to_bytes(8, "big"), packed(1.5, [stored_block, removed]))
    assert (batch.sequence, batch.time) == (258, 1.5)
    assert batch.events == (
        BlocksStored(
            blocks=(b"h1", b"h2"),
            parent=b"h0",
            tokens=make_tokens(1, 2, 3, 4),
            block_tokens=2,
            adapter="sql",
            extra=(("sql", ("image", 3), "top secret"), ()),
            medium="GPU",
        ),
        BlocksRemoved((5,), "CPU"),
    )
    assert "secret" not in repr(batch.events)


def test_as_arrays() -> None:
    """SGLang, and older versions of vLLM, send arrays, some of them shorter."""
    assert events_of(
        ["BlockStored", [11], None, [1, 2], 2, None],
        ["BlockStored", [12], 11, [3, 4], 2, None, "GPU", "sql"],
        ["BlockRemoved", [11]],
        ["AllBlocksCleared"],
    ) == (
        BlocksStored((11,), None, make_tokens(1, 2), 2),
        BlocksStored((12,), 11, make_tokens(3, 4), 2, adapter="sql", medium="GPU"),
        BlocksRemoved((11,)),
        AllCleared(),
    )


def test_what_says_nothing_about_beginnings_is_left_out() -> None:
    """Other groups of layers, other servers' blocks and unknown kinds are no events."""
    assert (
        events_of(
            stored(1, group_idx=1),
            stored(2, locality="REMOTE"),
            {"type": "BlockRemoved", "block_hashes": [1], "medium": None, "group_idx": 2},
            {"type": "InventedTomorrow", "x": 1},
            ["InventedTomorrow", 1],
        )
        == ()
    )


@pytest.mark.parametrize(
    "event",
    [
        7,
        [],
        {},
        [7],
        {"type": "BlockStored"},
        stored(1, token_ids=[2**40]),
        stored(1, token_ids="abc"),
        stored(1, block_hashes=[1.5]),
        stored(1, block_size=None),
        stored(1, extra_keys=[[{"a": 1}]]),
        ["BlockRemoved", 5],
    ],
)
def test_garbage(event: object) -> None:
    """An event that cannot be read makes its batch none."""
    with pytest.raises(NoBatch):
        events_of(event)


@given(st.binary(max_size=200), st.binary(max_size=9))
def test_any_bytes(payload: bytes, sequence: bytes) -> None:
    """Bytes that nobody meant are no batch, or one without events; nothing else is raised."""
    try:
        batch = parse_batch(sequence, payload)
    except NoBatch:
        return
    assert batch.events == ()


def test_nested_without_end() -> None:
    """What is nested deeply is no batch."""
    with pytest.raises(NoBatch):
        parse_batch(ZERO, b"\x91" * 100_000)
