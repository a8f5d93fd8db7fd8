"""The tables of the settings below ``[embedding]``."""

from typing import Annotated, Literal

from msgspec import Meta

from stepwell.assembly.settings_base import Bytes, Count, Name, PositiveSeconds, Table, Text
from stepwell.core.embedding import Precision

_PerMinute = Annotated[float, Meta(gt=0, le=1e12)]


class EmbeddingModel(Table, frozen=True):
    """One ``[[embedding.models]]``: what is known of some models. The first that fits counts."""

    model: Text
    """Pattern of the model's name, as in ``upstreams.NAME.models``."""
    upstream: Name | None = None
    """Of this upstream only; default: of any."""
    revision: str = ""
    """Part of every key. Change it when the model changes under its name: vectors of before are
    not found any more."""
    normalization: Literal["as given", "unit"] = "as given"
    """``unit``: every vector is made of unit length, whatever the server sends."""
    prefix: str = ""
    """Put before every text, if the model was trained so (``query: ``) and callers do not do it.
    Token arrays are sent as they come."""
    max_texts: Annotated[int, Meta(ge=1, le=100_000)] = 2_048
    """Inputs of a call to the server; a larger batch becomes several calls."""
    max_call_bytes: Annotated[int, Meta(ge=1_024, le=1 << 30)] = 8 << 20
    """Bytes of the texts of a call; a longer text goes alone."""
    max_calls: Annotated[int, Meta(ge=1, le=10_000)] = 32
    """Calls of a worker to the server at a time; further texts wait, and are then sent together."""
    requests_per_minute: _PerMinute | None = None
    """Calls of a worker in a minute at most. Default: no bound."""
    tokens_per_minute: _PerMinute | None = None
    """Tokens of a worker's calls in a minute at most. Default: no bound."""


class Embedding(Table, frozen=True):
    """``[embedding]``: vectors of texts are computed once (``/v1/embeddings``)."""

    enabled: Literal["auto", "on", "off"] = "auto"
    """``auto``: if numpy is installed. ``off``: requests are passed on."""
    share: bool = False
    """Whether all tenants share vectors. They can find out by timing that a text was embedded
    before. Not with ``auth.mode = "passthrough"``: callers without a key would be answered. With
    ``shared`` everybody is one tenant anyway."""
    max_inputs: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    """Inputs of a request; more are refused. A server's own bound is ``models.max_texts``."""
    memory_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = 64 << 20
    """Bytes of vectors that a worker holds, those used last; another quarter is for replies with
    them. 0: none."""
    memory_seconds: PositiveSeconds = 60
    """How long a worker holds a vector: another one's deletion is obeyed that much later."""
    disk_bytes: Bytes = 4 << 30
    """Bound of all vectors on disk, where there is no PostgreSQL; those used least leave first."""
    precision: Precision = "f32"
    """How numbers are kept, and so given out. ``f32``: as the server sends them. ``f16``: half the
    room. ``i8``: a quarter."""
    ttl_seconds: Annotated[float, Meta(ge=60, le=366 * 86_400)] = 7 * 86_400
    """How long Redis keeps a vector that nobody asks for; it comes back from PostgreSQL or disk."""
    keep_texts: bool = True
    """Whether texts are kept with their vectors, so that ``stepwell embeddings fill`` can embed
    them with another model. Token arrays have none."""
    max_versions: Count = 256
    """Kinds of vectors (model, dimensions, parameters) that are kept. Vectors of further ones are
    computed, and not kept."""
    canary_seconds: Annotated[float, Meta(ge=0, le=366 * 86_400)] = 3_600
    """How often a text whose vector is known is embedded along with others, to see whether the
    server has changed its model. 0: never."""
    redis: bool = True
    """Use ``[stores.redis]`` for vectors too, where it is set."""
    postgres: bool = True
    """Keep vectors in ``[stores.postgres]``, where it is set; else below the data directory."""
    models: tuple[EmbeddingModel, ...] = ()
