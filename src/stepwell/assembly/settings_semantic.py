"""The tables of the settings below ``[semantic]``."""

from typing import Annotated, Literal

from msgspec import Meta, field

from stepwell.assembly.settings_base import (
    EnvName,
    Name,
    PositiveSeconds,
    Similarity,
    Table,
    Text,
    Url,
)


class Levels(Table, frozen=True):
    """``[semantic.levels]``: what the acceptance levels mean. ``stepwell tune`` finds them."""

    strict: Similarity | None = None
    """Least cosine similarity for ``strict``. Default of each: as measured for the embedder."""
    general: Similarity | None = None
    """The same for ``general``."""
    faq: Similarity | None = None
    """The same for ``faq``."""


class EmbeddingEndpoint(Table, frozen=True):
    """``[semantic.endpoint]``: a server with OpenAI's ``/v1/embeddings``."""

    base_url: Url
    """With the version: ``http://127.0.0.1:8001/v1``."""
    model: Text
    """Name of the model there."""
    dimensions: Annotated[int, Meta(ge=1, le=65_536)]
    """Width of its vectors. A reply of another width is an error."""
    ask_for_dimensions: bool = False
    """Send ``dimensions`` along, for models that can shorten their vectors."""
    window_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 512
    """Longest text the model reads; longer ones are not looked up by meaning."""
    api_key_env: EnvName | None = None
    """Variable with the key to send."""
    prefix: str = ""
    """Put before every text, if the model was trained so (``query: ``)."""
    revision: str = ""
    """Change it when the server's model changes under the same name."""
    cache: bool = True
    """Keep its vectors as ``[embedding]`` says, where that is on: gateways that share Redis or
    PostgreSQL then embed a question once."""


class Index(Table, frozen=True):
    """``[semantic.index]``: who searches for what is near."""

    kind: Literal["own", "redis", "postgres"] = "own"
    """``own``: each worker itself, in its own copy of all vectors. ``redis``: the server of
    ``[stores.redis]``, if it has vector search. ``postgres``: that of ``[stores.postgres]``, with
    pgvector. Then a gateway holds no vectors, and embeds only what it stores itself."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=60)] = 0.05
    """How long a server may take over a search; a slower one counts as one that found nothing.
    Comes on top of ``semantic.timeout_seconds``."""


class Judge(Table, frozen=True):
    """``[semantic.judge]``: what says whether an answer to other words is right."""

    kind: Literal["model", "text", "embedding"] = "model"
    """``model``: a model is asked. ``text``: equal or not, for short answers from a closed set.
    ``embedding``: near by the layer's embedder, with the same numbers and negations."""
    upstream: Name | None = None
    """The model server to ask; by default the request's own, with the request's key."""
    model: Text | None = None
    """The model to ask; by default the request's own."""
    max_per_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = 60
    """Answers each worker has judged in a minute at most; and pairs of questions, in addition, it
    asks a second opinion about. A pair over that is a miss."""
    timeout_seconds: PositiveSeconds = 30
    """How long it may take over one answer; nobody waits for it."""

    def __post_init__(self) -> None:
        if self.upstream is not None and self.model is None:
            raise ValueError("upstream needs model: another server may not have the request's own")


class Semantic(Table, frozen=True):
    """``[semantic]``: answers to questions in other words."""

    embedder: Literal["auto", "multilingual", "english", "universal", "endpoint", "off"] = "auto"
    """What turns texts into vectors. ``multilingual``: English and Chinese, bundled. ``english``:
    half the cost, bundled; nobody has measured its levels and it compares no tokens, so it finds
    much less until ``stepwell tune`` has set them. ``universal``: as ``multilingual`` where
    onnxruntime does not run, bundled; levels as for ``english``. ``endpoint``: a server. ``auto``:
    ``multilingual`` if it is installed, else off."""
    endpoint: EmbeddingEndpoint | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=60)] = 0.2
    """How long an embedding and a comparison may take together, of which the last quarter is kept
    for the comparison, where there is one; the most that looking for other words adds to a miss.
    What a worker needs for other requests meanwhile does not count. A short question takes some
    10 ms, the longest 150 on a busy machine."""
    threads: Annotated[int, Meta(ge=1, le=256)] | None = None
    """Texts a bundled embedder works on at a time. Default: one per core, at most 4."""
    levels: Levels = field(default_factory=Levels)
    policy: Literal["verified", "threshold"] = "verified"
    """``threshold``: what is as similar as the level demands is served, unless the safety valve or
    a judgement forbids it. ``verified``: an entry whose hits were judged has a boundary of its own
    besides."""
    opposites: Text | None = None
    """File with more words that mean the opposite, for the safety valve: a line for each group,
    ``word, word | opposite, opposite``; see ``docs/explanation/valve.md``. A relative path begins
    where the settings file is."""
    reuse_similarity: Similarity | None = None
    """From this similarity on, a question that is not near enough for its answer is handed to the
    prefix layer as a hint. Default: as measured for the embedder."""
    temperature_tolerance: Annotated[float, Meta(ge=0, le=2)] = 0.1
    """How much the temperatures of two requests may differ."""
    index: Index = field(default_factory=Index)
    max_points: Annotated[int, Meta(ge=1, le=100_000_000)] = 1_000_000
    """Questions that can be found by meaning in an index of one's own; beyond, the next to expire
    leaves. A server's index holds what has not expired."""
    sample_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of the answers to other words to be judged; each costs a new call, behind it."""
    comparison: Literal["auto", "off"] = "auto"
    """``auto``: before an answer is served, the two questions are compared token by token, if the
    embedder can do that: the bundled multilingual one. Part of ``timeout_seconds``."""
    second_opinion: Literal["off", "judge"] = "off"
    """``judge``: the model of ``[semantic.judge]``, whatever its ``kind``, must say that both
    questions have one answer. A yes or no is remembered for an hour; ``judge.max_per_minute``
    bounds how often it is asked."""
    second_opinion_seconds: PositiveSeconds = 1.0
    """How long that may take; without a clear yes in time, it is a miss."""
    judge: Judge = field(default_factory=Judge)

    def __post_init__(self) -> None:
        if (self.embedder == "endpoint") != (self.endpoint is not None):
            raise ValueError(
                'embedder = "endpoint" needs [semantic.endpoint]'
                if self.embedder == "endpoint"
                else '[semantic.endpoint] goes with embedder = "endpoint"'
            )
