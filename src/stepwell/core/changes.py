"""The change feed: what a derived view must follow to agree with its store."""

from dataclasses import dataclass

from stepwell.core.entry import Selector
from stepwell.core.judgement import Judgement
from stepwell.core.names import CacheKey, Namespace, Position


@dataclass(frozen=True, slots=True)
class Invalidated:
    """Entries that ``selector`` means, with ``entry.as_of < position``, are gone."""

    position: Position
    selector: Selector


@dataclass(frozen=True, slots=True)
class Replaced:
    """The entry under ``key`` was replaced by a newer one; copies of it are out of date."""

    position: Position
    key: CacheKey


@dataclass(frozen=True, slots=True)
class SourceMoved:
    """A named source of truth has a new value for ``namespace``."""

    position: Position
    namespace: Namespace
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Judged:
    """Somebody said of an answer whether it answers other words."""

    position: Position
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Lost:
    """The reader fell off the feed: everything derived before ``position`` must be rebuilt."""

    position: Position


Change = Invalidated | Replaced | SourceMoved | Judged | Lost
