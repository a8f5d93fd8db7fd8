"""What the tables of the settings are made of."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(ge=0, le=366 * 86_400)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=86_400)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Bytes = Annotated[int, Meta(ge=1_024, le=1 << 50)]
Name = Annotated[str, Meta(pattern="^[a-z][a-z0-9_-]{0,63}$")]
EnvName = Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
Text = Annotated[str, Meta(min_length=1)]
Similarity = Annotated[float, Meta(ge=0, le=1)]
"""Cosine similarity; never a distance."""
Url = Annotated[str, Meta(pattern="^https?://[^ ]+$")]


def check_distinct(name: str, given: Sequence[str]) -> None:
    """Refuse a list that says the same thing twice, be it with a slash at its end or in capitals.

    Args:
        name: What the list is called.
        given: What it holds.

    Raises:
        ValueError: One is there twice.
    """
    known: set[str] = set()
    for one in given:
        if (plain := one.rstrip("/").lower()) in known:
            raise ValueError(f"{one!r} is twice in {name}; each must be another")
        known.add(plain)


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the settings file."""
