"""The name of a hit, by which whoever was served can say whether it was right.

It holds all a judgement needs, so any worker understands it, also after a restart, and nothing
needs to be remembered for hits that nobody ever speaks of.
"""

import base64
import struct
from typing import NamedTuple

from stepwell.core.names import CacheKey, PairId
from stepwell.core.outcome import Hit
from stepwell.keys.pair import pair_of
from stepwell.pipeline.question import Question

_FORMAT = struct.Struct("<32s16sf")


class HitId(NamedTuple):
    """An entry, and the pair of questions it was served for."""

    key: CacheKey
    pair: PairId
    similarity: float


def name_hit(question: Question, hit: Hit) -> HitId | None:
    """Return the name of a hit on other words; ``None`` of any other."""
    asked, stored = question.phrasing, hit.entry.phrasing
    if hit.similarity is None or asked is None or stored is None:
        return None
    pair = pair_of(asked.partition, asked.text, stored.text)
    return HitId(hit.entry.key, pair, hit.similarity)


def write_hit_id(hit: HitId) -> str:
    """Return ``hit`` as 70 characters that any header and any JSON can hold."""
    packed = _FORMAT.pack(hit.key, hit.pair, hit.similarity)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def read_hit_id(text: str) -> HitId:
    """Return what `write_hit_id` wrote.

    Raises:
        ValueError: It is none.
    """
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        key, pair, similarity = _FORMAT.unpack(packed)
    except (ValueError, struct.error) as error:
        raise ValueError("not a hit's id, as X-Stepwell-Hit gives it") from error
    if not 0.0 <= similarity <= 1.0:
        raise ValueError("not a hit's id: its similarity is none")
    return HitId(CacheKey(key), PairId(pair), similarity)
