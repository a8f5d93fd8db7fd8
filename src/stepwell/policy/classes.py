"""Request classes: the rules one kind of request is cached under."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from stepwell.core.errors import ConfigError
from stepwell.core.names import LayerName, Level

MAX_SECONDS = 366 * 86_400
"""No answer of a language model is kept longer than a leap year."""

MAX_SOURCES = 16

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_SOURCE = re.compile(r"(?:(?![,=])[\x21-\x7e]){1,128}")
"""What ``X-Stepwell-Sources`` can carry: no blanks, commas or equals signs."""
_MIB = 1 << 20


def stricter(one: Level, other: Level | None) -> Level:
    """Return the stricter of two levels; ``one`` if there is no other."""
    levels = get_args(Level)
    return one if other is None else min(one, other, key=levels.index)


@dataclass(frozen=True, slots=True)
class RequestClass:
    """The rules one kind of request is cached under.

    Raises:
        ConfigError: A value is out of range; the message names ``classes.NAME.key``.
    """

    name: str
    """Lower-case letters, digits, ``-`` and ``_``; at most 64 characters, a letter first. It is
    a metric label and what a caller may ask for."""
    layers: tuple[LayerName, ...]
    """Layers that may answer, cheapest first."""
    ttl_seconds: float
    """How long an answer is fresh, counted from when it was made, never prolonged by hits. 0:
    never cached, neither looked up nor stored."""
    stale_while_revalidate_seconds: float = 0
    """How long an expired answer may still be served while a new one is fetched behind it
    (RFC 5861, 3)."""
    stale_if_error_seconds: float = 0
    """How long an expired answer may still be served when the upstream fails (RFC 5861, 4)."""
    sources: tuple[str, ...] = ()
    """Named sources of truth every answer of the class depends on. An answer is stamped with
    their values when it is made and is stale for good as soon as one of them has another value.
    A source that neither the request nor anybody before it has given a value has the empty
    value; see `stepwell.policy.sources`."""
    store_truncated: bool = False
    """Whether an answer that stopped at a length limit is stored. It is what the caller's own
    limit asked for, but seldom what the next caller wants."""
    max_answer_bytes: int = _MIB
    """Larger answers are not stored. 1 byte to 64 MiB."""
    level: Level = "general"
    """How alike two questions must be for one answer, where the semantic layer may answer."""
    shadow: bool = False
    """Whether the semantic layer only says what it would have served, and is judged by it."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            allowed = "lower-case letters, digits, '-' and '_', a letter first, at most 64"
            raise ConfigError(
                f"classes.{self.name!r} is not a name for a class; allowed: {allowed}"
            )
        self._check_layers()
        self._check_seconds()
        self._check_sources()
        self._require(
            1 <= self.max_answer_bytes <= 64 * _MIB,
            "max_answer_bytes",
            f"1 to {64 * _MIB}",
        )
        self._require(self.level in get_args(Level), "level", ", ".join(get_args(Level)))

    @property
    def is_cached(self) -> bool:
        """Whether answers of the class are looked up and stored at all."""
        return self.ttl_seconds > 0

    @property
    def stale_seconds(self) -> float:
        """The longest time an expired answer may be of any use."""
        return max(self.stale_while_revalidate_seconds, self.stale_if_error_seconds)

    def _check_layers(self) -> None:
        distinct = self.layers == tuple(layer for layer in LayerName if layer in self.layers)
        allowed = "one or more of " + ", ".join(LayerName) + ", once each, in this order"
        self._require(bool(self.layers) and distinct, "layers", allowed)

    def _check_seconds(self) -> None:
        for key in ("ttl_seconds", "stale_while_revalidate_seconds", "stale_if_error_seconds"):
            seconds = getattr(self, key)
            in_range = math.isfinite(seconds) and 0 <= seconds <= MAX_SECONDS
            self._require(in_range, key, f"0 to {MAX_SECONDS}")
            # Nothing is ever stored, so there is nothing to serve stale: a contradiction.
            contradiction = not self.is_cached and seconds > 0
            self._require(not contradiction, key, "0 where ttl_seconds is 0")

    def _check_sources(self) -> None:
        fits = len(self.sources) <= MAX_SOURCES and len(set(self.sources)) == len(self.sources)
        named = all(_SOURCE.fullmatch(source) for source in self.sources)
        allowed = (
            f"at most {MAX_SOURCES} different names of 1 to 128 printable ASCII characters, "
            "without blanks, ',' and '='"
        )
        self._require(fits and named, "sources", allowed)

    def _require(self, holds: bool, key: str, allowed: str) -> None:  # noqa: FBT001  (an assertion)
        if not holds:
            value = getattr(self, key)
            raise ConfigError(f"classes.{self.name}.{key} is {value!r}; allowed: {allowed}")


_HOUR = 3_600.0
_EXACT_ONLY = (LayerName.EXACT,)

GENERAL = RequestClass("general", (LayerName.EXACT, LayerName.SEMANTIC), _HOUR)
"""What a request is when nobody and nothing says otherwise. Always present."""

BUILT_IN_CLASSES: Mapping[str, RequestClass] = MappingProxyType(
    {
        built_in.name: built_in
        for built_in in (
            RequestClass("translation", _EXACT_ONLY, 24 * _HOUR),
            RequestClass("formatting", _EXACT_ONLY, 24 * _HOUR),
            RequestClass(
                "faq",
                (LayerName.EXACT, LayerName.SEMANTIC),
                _HOUR,
                sources=("last_updated",),
                level="faq",
            ),
            RequestClass("code", _EXACT_ONLY, _HOUR / 2, sources=("commit",)),
            RequestClass("realtime", _EXACT_ONLY, _HOUR / 12, sources=("data_freshness",)),
            RequestClass("factual", _EXACT_ONLY, 0),
            GENERAL,
        )
    }
)
"""The classes a Stepwell has before its settings say anything, by name. Why these values:
``design/0004-request-classes.md``. Translation, formatting and code answer *this* text, so only
the exact layer may serve them: a similar text has another answer."""
