"""The tables of the settings that describe model servers."""

from typing import Annotated, Literal

from msgspec import Meta, field

from stepwell.assembly.settings_base import (
    Bytes,
    Count,
    EnvName,
    PositiveSeconds,
    Table,
    Text,
    Url,
    check_distinct,
)
from stepwell.keys.canonical import Dialect

ZmqAddress = Annotated[
    str, Meta(pattern=r"^(tcp://([^ :/\[\]]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}|ipc://[^ ]+)$")
]


class UpstreamPrefix(Table, frozen=True):
    """``[upstreams.NAME.prefix]``: what is done for the prefix cache that the server has."""

    salt: Literal["tenant", "off"] | None = None
    """``tenant``: no tenant shares another's prefixes, or finds them out by timing (vLLM, SGLang).
    ``off``: all share, system prompts too. Default: ``tenant``, where the server knows salts."""
    block_tokens: Annotated[int, Meta(ge=1, le=1_024)] = 16
    """Tokens of a block: prefixes are reused in whole ones."""
    replica_tokens: Count = 200_000
    """Tokens of prompts a replica has room for, until what it reports says otherwise. At least
    ``block_tokens``."""
    token_timeout_seconds: PositiveSeconds = 0.25
    """How long the server may take to name a prompt's tokens; else its text stands for them."""
    kv_events: tuple[ZmqAddress, ...] = ()
    """ZMQ addresses where vLLM publishes its KV events, in the order of the replicas:
    ``tcp://10.0.0.1:5557``. Without, what was sent where tells what it holds."""
    kv_replays: tuple[ZmqAddress, ...] = ()
    """Where they publish again what was missed, in the same order."""
    warm_on_hit: bool = False
    """Whether the server reads, when it has nothing else to do, what the cache answered in its
    place, so that the next turn of the conversation finds its prefix. Costs tokens."""
    warm_tokens_per_minute: Count = 50_000
    """How many tokens of prompts that may take, for each worker."""
    prompt_cache_key: bool = False
    """Whether to send OpenAI's ``prompt_cache_key``, one for each tenant and system prompt."""
    cache_control: bool = False
    """Whether to mark where prefixes end, as Anthropic's models want it: at most four times, and
    not in requests that have marks of their own."""

    def __post_init__(self) -> None:
        if self.replica_tokens < self.block_tokens:
            raise ValueError(
                f"replica_tokens is {self.replica_tokens}; it must be at least block_tokens, which"
                f" is {self.block_tokens}"
            )
        for address in self.kv_events + self.kv_replays:
            if address.startswith("tcp:") and not 0 < int(address.rpartition(":")[2]) < 1 << 16:
                raise ValueError(f"{address!r} has a port that is none; allowed: from 1 to 65535")
        # In one go: nothing listens for events and for requests to replay them at one address.
        check_distinct("kv_events and kv_replays", self.kv_events + self.kv_replays)


class Llama(Table, frozen=True):
    """``[upstreams.NAME.llama]``: what the embedded model may hold. A token takes 23 KB."""

    slots: Annotated[int, Meta(ge=1, le=64)] = 2
    """Requests computed at once; further ones wait. Each may hold 4,096 tokens, 94 MB."""
    prompt_cache_mib: Annotated[int, Meta(ge=0, le=1 << 20)] = 128
    """Memory for the prompts of conversations that are in no slot just now. 0: none, and two
    conversations with one system prompt drive each other out."""
    kv_on_disk: bool = True
    """Whether what the slots hold is saved below the data directory, so that the engine is warm
    after a restart. These files hold prompts."""


class Torch(Table, frozen=True):
    """``[upstreams.NAME.torch]``: a model that runs here, on torch, and whose KV is kept here."""

    weights: Text | None = None
    """A GGUF file, or a folder with ``config.json``, ``tokenizer.json`` and weights in safetensors;
    a relative path begins where the settings file is. Default: the embedded model's."""
    model: Text | None = None
    """Name it is served under. Default: the embedded model's, or that of ``weights``."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What it is computed in. In ``float32`` an answer does not depend on what was kept;
    ``bfloat16`` takes half the memory."""
    threads: Annotated[int, Meta(ge=1, le=256)] = 1
    """Processors to compute on. Where other processes want them too, one is often the fastest."""
    slots: Annotated[int, Meta(ge=1, le=64)] = 2
    """Requests computed at once; further ones wait. Each holds the KV of its prompt and answer."""
    block_tokens: Annotated[int, Meta(ge=1, le=256)] = 16
    """Tokens of a block: prefixes are kept in whole ones."""
    kv_max_bytes: Bytes = 1 << 30
    """KV blocks in memory, as they were computed."""
    kv_int8_max_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = 0
    """KV blocks in memory, in int8: for what leaves the former. 0: none. What goes on from such a
    block is not exact any more."""
    kv_disk_max_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = 4 << 30
    """KV blocks on disk, below the data directory, exact; they stay over a restart. 0: none."""
    kv_tenant_share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Share of each of these that one tenant's blocks may take. Below 1, a tenant that is over it
    pushes out its own blocks, and never another's."""


_SALTING = frozenset({"vllm", "sglang"})
"""Engines that know ``cache_salt``."""


class Upstream(Table, frozen=True):
    """``[upstreams.NAME]``: a model server."""

    kind: Literal["openai", "embedded", "torch"] = "openai"
    """``openai``: an OpenAI-compatible HTTP server. ``embedded``: the model that comes along.
    ``torch``: a model that runs here and whose KV is kept here."""
    base_url: Url | None = None
    """Of an ``openai`` upstream, with the version: ``https://api.openai.com/v1``."""
    replicas: tuple[Url, ...] = ()
    """Several servers of the same model, in place of ``base_url``. Each request goes to one that
    probably holds much of its prompt's KV already and is not busier than the others."""
    engine: Literal["vllm", "sglang", "llamacpp"] | None = None
    """What runs there: then it is asked for the tokens of prompts, and ``prefix.salt`` counts."""
    models: Annotated[tuple[str, ...], Meta(min_length=1)] = ("*",)
    """Patterns of the model names it serves; the first upstream with a match answers."""
    dialect: Dialect = Dialect.OPENAI
    """Whose documented defaults it follows. ``engine`` for vLLM, SGLang, llama.cpp and the like:
    their sampling defaults come with the model, so an explicit one always stays in the key."""
    api_key_env: EnvName | None = None
    """Variable with the key to send instead of the caller's."""
    revision: str = ""
    """Part of every cache key. Change it when the same server starts to answer differently."""
    connect_timeout_seconds: PositiveSeconds = 5
    """How long a connection may take to make, TLS included."""
    first_byte_timeout_seconds: PositiveSeconds = 600
    """How long the reply's head may take; a non-streamed answer comes only when it is done."""
    chunk_timeout_seconds: PositiveSeconds = 120
    """How long a stream may pause."""
    max_connections: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    """Of each worker; further calls wait for a free one."""
    prefix: UpstreamPrefix = field(default_factory=UpstreamPrefix)
    torch: Torch = field(default_factory=Torch)
    llama: Llama = field(default_factory=Llama)

    @property
    def protocol(self) -> Literal["vllm", "sglang", "llamacpp"] | None:
        """Whose routes and fields it knows beyond OpenAI's."""
        return "vllm" if self.kind == "torch" else self.engine

    @property
    def is_salted(self) -> bool:
        """Whether each tenant's requests carry a salt of their own."""
        return self.protocol in _SALTING and self.prefix.salt != "off"

    def __post_init__(self) -> None:
        _check_addresses(self)
        if self.kind != "torch" and self.torch != Torch():
            raise ValueError('[upstreams.NAME.torch] goes with kind = "torch"')
        if self.kind != "embedded" and self.llama != Llama():
            raise ValueError('[upstreams.NAME.llama] goes with kind = "embedded"')
        for name in ("kv_events", "kv_replays"):
            given, wanted = len(getattr(self.prefix, name)), len(self.replicas) or 1
            if given not in {0, wanted}:
                raise ValueError(f"prefix.{name} has {given} addresses for {wanted} replicas")
        if self.prefix.kv_events and self.engine != "vllm":
            raise ValueError('prefix.kv_events goes with engine = "vllm"')
        if self.prefix.kv_replays and not self.prefix.kv_events:
            raise ValueError("prefix.kv_replays goes with prefix.kv_events")
        if self.prefix.salt == "tenant" and self.protocol not in _SALTING:
            raise ValueError(
                'prefix.salt = "tenant" goes with engine = "vllm" or "sglang": others know no salts'
            )


def _check_addresses(table: Upstream) -> None:
    if table.kind != "openai":
        for name in ("base_url", "replicas", "engine"):
            if getattr(table, name):
                raise ValueError(f'{name} does not go with kind = "{table.kind}"')
        return
    if table.base_url is None and not table.replicas:
        raise ValueError("base_url is missing, or replicas")
    if table.base_url is not None and table.replicas:
        raise ValueError("base_url and replicas do not go together")
    check_distinct("replicas", table.replicas)
