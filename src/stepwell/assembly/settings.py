"""The settings file: TOML, one table per room, every value checked, nothing repaired.

Secrets never stand here; they are named by environment variable (``..._env``).
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field
from msgspec.structs import replace

from stepwell.assembly.explain import explain
from stepwell.assembly.settings_base import (
    Bytes,
    Count,
    EnvName,
    Name,
    Port,
    PositiveSeconds,
    Seconds,
    Table,
    Text,
)
from stepwell.assembly.settings_embedding import Embedding
from stepwell.assembly.settings_prefix import Prefix
from stepwell.assembly.settings_semantic import Semantic
from stepwell.assembly.settings_upstreams import Upstream
from stepwell.core.errors import ConfigError
from stepwell.core.names import LayerName
from stepwell.keys.canonical import Dialect
from stepwell.keys.text import DEFAULT_STEPS, TextStep


class Server(Table, frozen=True):
    """``[server]``: where the gateway listens, and its bounds."""

    host: Text = "127.0.0.1"
    """Address to listen on. Beyond loopback the admin routes need ``admin_token_env``."""
    port: Port = 8080
    """TCP port; 0 lets the system choose one."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Worker processes. They share the disk tier; one per core is plenty."""
    max_body_bytes: Annotated[int, Meta(ge=1_024, le=1 << 30)] = 32 << 20
    """A larger request body is refused with 413."""
    request_timeout_seconds: PositiveSeconds = 60
    """How long a client may take to send a request, head and body."""
    keep_alive_seconds: PositiveSeconds = 75
    """How long an idle connection is kept."""
    drain_seconds: Seconds = 0
    """How long after SIGTERM requests are still taken, while ``/readyz`` answers 503: as long as a
    load balancer needs to hear of it."""
    shutdown_seconds: PositiveSeconds = 30
    """How long requests under way may go on after that."""
    admin_token_env: EnvName | None = None
    """Variable with the token for ``/admin``. Without it the admin routes answer on a loopback
    address only."""


class AuthKey(Table, frozen=True):
    """One ``[[auth.keys]]``: a key callers may use, and whose it is."""

    tenant: Name
    """Whose key it is; keys of one tenant share entries."""
    key_env: EnvName | None = None
    """Variable that holds the key."""
    key_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the key, in hex; instead of ``key_env``."""

    def __post_init__(self) -> None:
        if (self.key_env is None) == (self.key_sha256 is None):
            raise ValueError("needs exactly one of key_env and key_sha256")


class Auth(Table, frozen=True):
    """``[auth]``: who may ask, and who shares with whom."""

    mode: Literal["passthrough", "keys", "shared"] = "passthrough"
    """``passthrough``: each bearer token is a tenant, the model server checks it. ``keys``: only
    the keys below. ``shared``: everybody is one tenant."""
    keys: tuple[AuthKey, ...] = ()
    namespace_secret_env: EnvName | None = None
    """Variable with the secret (16 characters or more) that namespaces are derived with. Needed
    where several machines share a store; else a random one is kept in the data directory."""

    def __post_init__(self) -> None:
        if (self.mode == "keys") != bool(self.keys):
            raise ValueError(
                'mode = "keys" needs [[auth.keys]]'
                if self.mode == "keys"
                else '[[auth.keys]] goes with mode = "keys"'
            )


_ASKED = frozenset(
    "model messages prompt input instructions suffix tools functions response_format text n".split()
)


class Exact(Table, frozen=True):
    """``[exact]``: which requests are the same."""

    normalize: tuple[TextStep, ...] = DEFAULT_STEPS
    """Steps applied to prose before it is compared, never to code: ``newlines``, ``unicode``,
    ``trim``, ``squeeze``, ``fold``."""
    ignored_fields: tuple[str, ...] = ()
    """Top-level request fields that do not change an answer, such as ``user``. Never what is
    asked, or whom: ``model``, ``messages``, ``prompt``, ``input``, ``tools`` and the like."""
    extra_headers: tuple[Annotated[str, Meta(pattern="^[a-z0-9-]+$")], ...] = ()
    """More request headers to send on; they become part of the key."""

    def __post_init__(self) -> None:
        if asked := _ASKED & {*self.ignored_fields}:
            raise ValueError(
                f"ignored_fields must not hold {', '.join(sorted(asked))}: an answer depends on it"
            )


class Memory(Table, frozen=True):
    """``[stores.memory]``: each worker's own tier."""

    max_entries: Count = 100_000
    """Answers a worker holds at most."""
    max_bytes: Bytes = 256 << 20
    """Bytes of answers a worker holds at most; another quarter is for their other forms."""
    policy: Literal["adaptive", "lru", "lfu"] = "adaptive"
    """What leaves first when it is full, after what has expired."""


class Disk(Table, frozen=True):
    """``[stores.disk]``: what the workers share, and what survives a restart."""

    enabled: bool = True
    """Without it, answers stay in each worker's memory and end with it."""
    max_bytes: Bytes = 4 << 30
    """Bound of all stored answers; the least used leave first, after what has expired."""
    timeout_seconds: PositiveSeconds = 0.25
    """A slower disk counts as one that has nothing."""


class Redis(Table, frozen=True):
    """``[stores.redis]``: what several machines share, in place of each one's disk."""

    url: Text | None = None
    """Redis or Valkey, from version 7 on: ``redis://host:6379/0``, ``rediss://`` with TLS,
    ``unix:///path``, ``redis+cluster://a:6379,b:6379``, ``redis+sentinel://a:26379,b:26379/name``.
    Gateways with the same URL, prefix and ``auth.namespace_secret_env`` share all they know."""
    username: Text | None = None
    """Of an ACL; else the server's default user."""
    password_env: EnvName | None = None
    """Variable with the password."""
    sentinel_username: Text | None = None
    """As ``username``, of the sentinels, where they ask for one."""
    sentinel_password_env: EnvName | None = None
    """Variable with the sentinels' password."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "stepwell"
    """What the names of all keys begin with."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=60)] = 0.05
    """How long a call may take; a slower Redis counts as one that has nothing."""
    max_lag_seconds: Annotated[float, Meta(ge=0.5, le=86400)] = 1.0
    """How long answers in memory are served without a word from Redis of what others have changed.
    More keeps hits through an outage; an invalidation elsewhere is then obeyed so much later."""
    ca_file: Text | None = None
    """Certificates to trust (PEM), instead of the system's."""
    cert_file: Text | None = None
    """Our own certificate (PEM), where the server asks for one."""
    key_file: Text | None = None
    """Its key (PEM), where it is not in the same file."""
    check_hostname: bool = True
    """Whether the server's certificate must be for its host."""


class Postgres(Table, frozen=True):
    """``[stores.postgres]``: where several gateways keep what ``[semantic.index]`` searches."""

    url: Annotated[str, Meta(pattern="^postgres(ql)?://[^ ]+$")] | None = None
    """PostgreSQL with pgvector 0.8 or newer: ``postgresql://user@host:5432/database``; with TLS,
    ``?sslmode=verify-full&sslrootcert=ca.pem``. Entries are not kept there."""
    password_env: EnvName | None = None
    """Variable with the password."""
    prefix: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,23}$")] = "stepwell"
    """What the names of all tables begin with: the same for gateways that share a store of entries,
    and for no others."""


class Stores(Table, frozen=True):
    """``[stores]``: where entries are kept, and what belongs to them."""

    memory: Memory = field(default_factory=Memory)
    disk: Disk = field(default_factory=Disk)
    redis: Redis = field(default_factory=Redis)
    postgres: Postgres = field(default_factory=Postgres)


class SingleFlight(Table, frozen=True):
    """``[single_flight]``: identical requests at the same time."""

    max_wait_seconds: PositiveSeconds = 120
    """How long a follower waits for the leader's reply to begin before it asks itself."""
    lease_seconds: Annotated[float, Meta(ge=0.2, le=60)] = 2
    """After how long a leader on another machine (by Redis) that is not heard is replaced."""


class Class(Table, frozen=True):
    """``[classes.NAME]``: rules for a kind of request. What is left out stays as built in."""

    ttl_seconds: Seconds | None = None
    """How long an answer is fresh; 0: never cached."""
    layers: tuple[LayerName, ...] | None = None
    """Layers that may answer, cheapest first."""
    stale_while_revalidate_seconds: Seconds | None = None
    """How long an expired answer is served while a new one is fetched behind it."""
    stale_if_error_seconds: Seconds | None = None
    """How long an expired answer is served when the model server fails."""
    sources: tuple[str, ...] | None = None
    """Named sources every answer of the class depends on."""
    store_truncated: bool | None = None
    """Whether answers cut at a length limit are stored."""
    max_answer_bytes: Annotated[int, Meta(ge=1, le=64 << 20)] | None = None
    """Larger answers are passed on and not stored."""
    level: Literal["strict", "general", "faq"] | None = None
    """How alike two questions must be for one answer, where the semantic layer may answer."""
    shadow: bool | None = None
    """Whether answers to other words are only counted and judged, never served."""


class RouteRule(Table, frozen=True):
    """One ``[[routes]]``: requests that belong to a class. All that is given must match."""

    request_class: str = field(name="class")
    """Name of the class."""
    model: str | None = None
    """Pattern of the model's name."""
    endpoint: Literal["chat/completions", "completions", "responses"] | None = None
    """The operation, as in its path."""
    system_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the system prompt, in hex; ``stepwell explain`` prints it."""
    pattern: str | None = None
    """Regular expression searched in the last user text. It is run as it is: nested repeats, such
    as ``(a+)+``, can be slow on a text made for them."""


class Price(Table, frozen=True):
    """``[prices.models."PATTERN"]``: money per million tokens."""

    input_per_million: Annotated[float, Meta(ge=0)]
    """Of prompt tokens."""
    output_per_million: Annotated[float, Meta(ge=0)]
    """Of completion tokens."""
    cached_input_per_million: Annotated[float, Meta(ge=0)] | None = None
    """Of prompt tokens that the model server says it had cached; by default like the others."""


class Prices(Table, frozen=True):
    """``[prices]``: what the ledger multiplies tokens with."""

    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "USD"
    """ISO 4217 code; a label, nothing is converted."""
    models: dict[str, Price] = field(default_factory=dict)
    """Prices by model name or pattern; a plain name counts before patterns."""


class Log(Table, frozen=True):
    """``[log]``: one JSON line per request."""

    target: Literal["stdout", "stderr", "off"] = "stderr"
    """Where the lines go."""


class Settings(Table, frozen=True):
    """The whole file."""

    data_dir: Text | None = None
    """Where entries, the ledger and the namespace secret are kept; a relative path begins where
    the settings file is. Default: ``$XDG_DATA_HOME/stepwell``, or ``~/.local/share/stepwell``."""
    server: Server = field(default_factory=Server)
    auth: Auth = field(default_factory=Auth)
    upstreams: dict[Name, Upstream] = field(
        default_factory=lambda: {"embedded": Upstream(kind="embedded", dialect=Dialect.ENGINE)}
    )
    """Asked in the order of the file. Default: the embedded model."""
    exact: Exact = field(default_factory=Exact)
    stores: Stores = field(default_factory=Stores)
    single_flight: SingleFlight = field(default_factory=SingleFlight)
    semantic: Semantic = field(default_factory=Semantic)
    prefix: Prefix = field(default_factory=Prefix)
    embedding: Embedding = field(default_factory=Embedding)
    classes: dict[Name, Class] = field(default_factory=dict)
    routes: tuple[RouteRule, ...] = ()
    """The first that matches chooses the class, if the request itself does not."""
    prices: Prices = field(default_factory=Prices)
    log: Log = field(default_factory=Log)

    def __post_init__(self) -> None:
        embedded = [
            name for name, upstream in self.upstreams.items() if upstream.kind == "embedded"
        ]
        if not self.upstreams or len(embedded) > 1:
            raise ValueError("upstreams needs at least one table, and at most one is embedded")
        urls = {"redis": self.stores.redis.url, "postgres": self.stores.postgres.url}
        kind = self.semantic.index.kind
        if kind != "own" and urls[kind] is None:
            raise ValueError(f'semantic.index.kind = "{kind}" needs stores.{kind}.url')
        if self.embedding.share and self.auth.mode == "passthrough":
            raise ValueError('embedding.share = true needs auth.mode = "keys" or "shared"')


def load_settings(path: Path) -> Settings:
    """Return the settings in ``path``. Paths in it are relative to where it is.

    Raises:
        ConfigError: The file cannot be read, is not TOML, or holds a value that is not allowed.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"Settings file {path} cannot be read: {error.strerror}.") from error
    try:
        return _placed(parse_settings(tomllib.loads(text.decode())), path.absolute().parent)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Settings file {path} is not TOML: {error}.") from error
    except ConfigError as error:
        raise ConfigError(f"Settings file {path}: {error}") from error


def _placed(settings: Settings, folder: Path) -> Settings:
    """Return ``settings`` with the paths in them made absolute; ``folder`` is where the file is."""

    def placed(path: str | None) -> str | None:
        return None if path is None else str(folder / Path(path).expanduser())

    semantic = replace(settings.semantic, opposites=placed(settings.semantic.opposites))
    upstreams = {
        name: replace(table, torch=replace(table.torch, weights=placed(table.torch.weights)))
        for name, table in settings.upstreams.items()
    }
    warm = tuple(
        replace(one, system_file=placed(one.system_file), tools_file=placed(one.tools_file))
        for one in settings.prefix.warm
    )
    return replace(
        settings,
        data_dir=placed(settings.data_dir),
        upstreams=upstreams,
        semantic=semantic,
        prefix=replace(settings.prefix, warm=warm),
    )


def parse_settings(data: Mapping[str, Any]) -> Settings:
    """Return parsed TOML as settings.

    Raises:
        ConfigError: Names the key, its value and what is allowed.
    """
    try:
        return msgspec.convert(data, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(explain(error, data, Settings)) from error
