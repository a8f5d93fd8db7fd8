"""KV events as vLLM and SGLang send them: msgpack, from bytes to values. Pure."""

import sys
from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from stepwell.core.kv import Tokens
from stepwell.core.kv_events import (
    AllCleared,
    BlockHash,
    BlocksRemoved,
    BlocksStored,
    ExtraKeys,
    KvEvent,
)

SEQUENCE_BYTES = 8

END_OF_REPLAY = (-1).to_bytes(SEQUENCE_BYTES, "big", signed=True)
"""Stands where a sequence number would."""


class NoBatch(ValueError):
    """These bytes are not what a model server sends."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step of an engine did."""

    sequence: int
    """Counts the batches of one run of the server, from 0 on."""
    payload: bytes
    """As it came: two runs' batches of the same number differ, in their time at least."""
    time: float
    """By the server's clock, in seconds since the epoch."""
    events: tuple[KvEvent, ...]


class _Stored(msgspec.Struct, frozen=True):
    """Fields stand in the order in which servers that send arrays have them."""

    block_hashes: list[BlockHash]
    parent_block_hash: BlockHash | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None


class _Removed(msgspec.Struct, frozen=True):
    block_hashes: list[BlockHash]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


_KINDS: Mapping[str, type[_Stored | _Removed]] = {"BlockStored": _Stored, "BlockRemoved": _Removed}

_CLEARED: Literal["AllBlocksCleared"] = "AllBlocksCleared"


def parse_batch(sequence: bytes, payload: bytes) -> Batch:
    """Read a batch. Kinds of events that are not known are left out.

    Left out, too, is what concerns a group of layers other than the first, and what other servers
    hold: neither says whether a prompt's beginning is held here. Costs 10 us for 1000 tokens.

    Raises:
        NoBatch: It is none, in one of its events at least.
    """
    if len(sequence) != SEQUENCE_BYTES:
        raise NoBatch("a sequence number of another length")
    try:
        time, events, *_ = msgspec.msgpack.decode(payload, type=list[Any])
        found = (_event(event) for event in events)
        return Batch(
            int.from_bytes(sequence, "big"),
            payload,
            float(time),
            tuple(event for event in found if event is not None),
        )
    # Whoever can connect can send anything, nested as deeply as it likes.
    except (
        msgspec.MsgspecError,
        ValueError,
        TypeError,
        LookupError,
        OverflowError,
        RecursionError,
    ) as error:
        raise NoBatch(f"{type(error).__name__}: {error}") from error


def _event(event: object) -> KvEvent | None:
    match event:
        case {"type": str(kind), **named}:
            return _of_kind(kind, named)
        case [str(kind), *values]:
            struct = _KINDS.get(kind)
            names = () if struct is None else struct.__struct_fields__
            return _of_kind(kind, dict(zip(names, values, strict=False)))
    raise NoBatch("an event without a kind")


def _of_kind(kind: str, fields: Mapping[Any, Any]) -> KvEvent | None:
    if kind == _CLEARED:
        return AllCleared()
    struct = _KINDS.get(kind)
    if struct is None:
        return None
    said = msgspec.convert(fields, struct)
    if said.group_idx not in {None, 0} or said.locality == "REMOTE":
        return None
    if isinstance(said, _Removed):
        return BlocksRemoved(tuple(said.block_hashes), said.medium)
    return BlocksStored(
        blocks=tuple(said.block_hashes),
        parent=said.parent_block_hash,
        tokens=_tokens(said.token_ids),
        block_tokens=said.block_size,
        adapter=said.lora_name,
        extra=tuple(map(_extra, said.extra_keys or ())),
        medium=said.medium,
    )


def _tokens(ids: Sequence[int]) -> Tokens:
    numbers = array("i", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return Tokens(numbers.tobytes())


def _extra(keys: Sequence[Any] | None) -> ExtraKeys:
    return tuple(map(_hashable, keys or ()))


def _hashable(value: object) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, Hashable):
        return value
    raise NoBatch("an extra key that is a map")
