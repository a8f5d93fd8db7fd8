"""What the tables of the settings are made of."""

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


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the settings file."""
