"""How a change of the feed is written down, sealed like an entry.

A damaged invalidation must never pass for another, so the words are under a checksum too.

Gateways of two versions may follow one feed. One that cannot read a message must forget all that it
holds, so `VERSION` is a number of its own, and seldom changes: what is added at a message's end is
passed over by those who do not know it. That may be done where passing over it errs on the safe
side, as an invalidation that means more does. A new kind of message, or another meaning, raises it.
"""

import msgspec

from stepwell.core.changes import Change, Invalidated, Judged, Replaced, SourceMoved
from stepwell.core.entry import Selector
from stepwell.core.errors import CorruptEntry
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import CacheKey, Namespace, PairId, Position
from stepwell.stores.record import seal, unseal

VERSION = 2


class _Selector(msgspec.Struct, array_like=True, tag="invalidated"):
    namespace: bytes | None
    key: bytes | None
    model: str | None
    request_class: str | None
    tag: str | None


class _Key(msgspec.Struct, array_like=True, tag="replaced"):
    key: bytes


class _Source(msgspec.Struct, array_like=True, tag="source"):
    namespace: bytes
    name: str
    value: str


class _Judgement(msgspec.Struct, array_like=True, tag="judged"):
    pair: bytes
    key: bytes
    similarity: float
    verdict: Verdict
    judged_at: float


_Message = _Selector | _Key | _Source | _Judgement

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_Message] = msgspec.msgpack.Decoder(_Message)


def invalidated_message(selector: Selector) -> bytes:
    """Return the message that what ``selector`` means is gone; read it as `Invalidated`."""
    return _written(
        _Selector(
            selector.namespace, selector.key, selector.model, selector.request_class, selector.tag
        )
    )


def replaced_message(key: CacheKey) -> bytes:
    """Return the message that the entry under ``key`` is a newer one; read it as `Replaced`."""
    return _written(_Key(key))


def source_message(namespace: Namespace, name: str, value: str) -> bytes:
    """Return the message that a source has this value; read it as `SourceMoved`."""
    return _written(_Source(namespace, name, value))


def judged_message(judgement: Judgement) -> bytes:
    """Return the message that somebody judged; read it as `Judged`."""
    return _written(
        _Judgement(
            judgement.pair,
            judgement.key,
            judgement.similarity,
            judgement.verdict,
            judgement.judged_at,
        )
    )


def read_message(position: int, message: bytes) -> Change:
    """Return what a message says.

    Args:
        position: Where it stands in the feed.
        message: As one of the functions above wrote it.

    Raises:
        CorruptEntry: Damaged, or of a version this code cannot read.
    """
    at = Position(position)
    try:
        said = _decoder.decode(unseal(message, VERSION))
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as error:
        raise CorruptEntry(f"a message is whole but says nothing known: {error}") from error
    match said:
        case _Selector():
            return Invalidated(at, _selector(said))
        case _Key(key):
            return Replaced(at, CacheKey(key))
        case _Source(namespace, name, value):
            return SourceMoved(at, Namespace(namespace), name, value)
        case _Judgement(pair, key, similarity, verdict, judged_at):
            judgement = Judgement(PairId(pair), CacheKey(key), similarity, verdict, judged_at)
            return Judged(at, judgement)


def _selector(said: _Selector) -> Selector:
    return Selector(
        namespace=None if said.namespace is None else Namespace(said.namespace),
        key=None if said.key is None else CacheKey(said.key),
        model=said.model,
        request_class=said.request_class,
        tag=said.tag,
    )


def _written(message: _Message) -> bytes:
    return seal(_encoder.encode(message), VERSION)
