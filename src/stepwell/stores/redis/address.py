"""Where the servers are: the URL in the settings, taken apart and checked."""

import re
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from urllib.parse import quote, unquote

from stepwell.core.errors import ConfigError

PORT = 6379
SENTINEL_PORT = 26379

_ALLOWED = (
    "redis://[user[:password]@]host[:port][/db], unix:///path[?db=n],"
    " redis+cluster://host[:port],host[:port] or redis+sentinel://host[:port],.../service[/db];"
    " rediss for TLS; db is 0 or more, and 0 alone in a cluster; percent-encode what a URL"
    " cannot hold"
)
_URL = re.compile(
    r"(?P<scheme>[a-z+]+)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_HOST_PORT = re.compile(
    r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<name>[\w.-]+))(?::(?P<port>[0-9]{1,5}))?"  # underscores: Docker
)
_NOT_PRINTED = re.compile(r"[\x00- \x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class HostPort:
    """Where a server listens for TCP. Printed as in a URL."""

    host: str
    """Name or IP address in ASCII, an IPv6 address without its brackets."""
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """Where a server of this machine listens. Printed as its path."""

    path: str

    def __str__(self) -> str:
        return self.path


Endpoint = HostPort | UnixSocket


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are to a server. The password is not shown."""

    username: str | None = None
    """``None``: the server's ``default`` user."""
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Single:
    """One server."""

    endpoint: Endpoint
    db: int
    credentials: Credentials
    is_encrypted: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, of which any node tells where the others are."""

    seeds: tuple[HostPort, ...]
    credentials: Credentials
    is_encrypted: bool = False


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A master that sentinels watch, and replace when it fails."""

    sentinels: tuple[HostPort, ...]
    service: str
    """The name under which they know the master."""
    db: int
    credentials: Credentials
    """Of the master; sentinels have their own."""
    is_encrypted: bool = False


Address = Single | Cluster | Sentinel


class _Wrong(Exception):
    """What is wrong with a URL. Quotes nothing of it that may be secret."""


def parse_address(url: str) -> Address:
    """Take the URL in ``stores.redis.url`` apart.

    Raises:
        ConfigError: It is none of the forms. The password is not quoted.
    """
    try:
        return _parse(url)
    except _Wrong as wrong:
        raise ConfigError(
            f"stores.redis.url is {_masked(url)!r}: {wrong}; allowed: {_ALLOWED}"
        ) from None


def show_address(address: Address) -> str:
    """Return the URL without user and password, for people."""
    s = "s" if address.is_encrypted else ""
    match address:
        case Single(UnixSocket(path), db):
            return f"unix://{quote(path)}?db={db}"
        case Single(endpoint, db):
            return f"redis{s}://{endpoint}/{db}"
        case Cluster(seeds):
            return f"redis{s}+cluster://{','.join(map(str, seeds))}"
        case Sentinel(sentinels, service, db):
            hosts = ",".join(map(str, sentinels))
            return f"redis{s}+sentinel://{hosts}/{quote(service, safe='')}/{db}"


def merge_credentials(address: Address, given: Credentials) -> Credentials:
    """Return the credentials in a URL together with those in other settings.

    Raises:
        ConfigError: One of them is in both places, or there is a user without a password.
    """
    own = address.credentials
    if own.username is not None and given.username is not None:
        raise ConfigError("stores.redis.username is in stores.redis.url too; take one away")
    if own.password is not None and given.password is not None:
        raise ConfigError("stores.redis.password_env: stores.redis.url holds a password too")
    username = given.username if own.username is None else own.username
    password = given.password if own.password is None else own.password
    if username is not None and password is None:
        raise ConfigError(
            f"stores.redis.password_env is missing: the user {username!r} needs a password"
        )
    return Credentials(username, password)


def _parse(url: str) -> Address:
    if _NOT_PRINTED.search(url) or _BAD_ESCAPE.search(url):
        raise _Wrong("it holds a space, a control character or a % that begins no escape")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise _Wrong("it is no URL of a server")
    user, at, hosts = parts["authority"].rpartition("@")
    credentials = _credentials(user) if at else Credentials()
    path, query = parts["path"] or "", parts["query"]
    if parts["scheme"] == "unix":
        return Single(_unix_socket(hosts, path), _unix_db(query), credentials)
    if query is not None:
        raise _Wrong("only unix:// has a query")
    return _parse_tcp(parts["scheme"], credentials, hosts, path)


def _parse_tcp(scheme: str, credentials: Credentials, hosts: str, path: str) -> Address:
    is_encrypted = scheme.startswith("rediss")
    match scheme:
        case "redis" | "rediss":
            return Single(_one(hosts), _db(path), credentials, is_encrypted=is_encrypted)
        case "redis+cluster" | "rediss+cluster":
            if _db(path) != 0:
                raise _Wrong("a cluster has db 0 only")
            return Cluster(_several(hosts, PORT), credentials, is_encrypted=is_encrypted)
        case "redis+sentinel" | "rediss+sentinel":
            service, slash, db = path.removeprefix("/").partition("/")
            if not service:
                raise _Wrong("the service is missing, such as mymaster")
            return Sentinel(
                _several(hosts, SENTINEL_PORT),
                _decoded(service),
                _db(slash + db),
                credentials,
                is_encrypted=is_encrypted,
            )
        case _:
            raise _Wrong("its scheme is unknown")


def _credentials(text: str) -> Credentials:
    username, colon, password = text.partition(":")
    return Credentials(_decoded(username) or None, _decoded(password) if colon else None)


def _one(text: str) -> HostPort:
    if "," in text:
        raise _Wrong("it names several hosts")
    return _host_port(text, PORT)


def _several(text: str, default_port: int) -> tuple[HostPort, ...]:
    return tuple(dict.fromkeys(_host_port(part, default_port) for part in text.split(",")))


def _host_port(text: str, default_port: int) -> HostPort:
    parts = _HOST_PORT.fullmatch(text)
    if parts is None:
        raise _Wrong("a host must be a name, an IPv4 address or an IPv6 address in brackets")
    port = default_port if parts["port"] is None else int(parts["port"])
    if not 1 <= port <= _MAX_PORT:
        raise _Wrong(f"a port is 1 to {_MAX_PORT}")
    try:
        if parts["ipv6"] is not None:
            return HostPort(str(IPv6Address(_decoded(parts["ipv6"]))), port)
        return HostPort(parts["name"].encode("idna").decode("ascii"), port)
    except ValueError:  # of encoding too
        raise _Wrong("a host must be a name or an IP address") from None


def _db(path: str) -> int:
    text = path.removeprefix("/")
    if not text:
        return 0
    if re.fullmatch("[0-9]{1,9}", text) is None:
        raise _Wrong("the db must be a number")
    return int(text)


def _unix_socket(host: str, path: str) -> UnixSocket:
    if host or path in {"", "/"}:
        raise _Wrong("unix:// needs three slashes and the path of a socket")
    return UnixSocket(_decoded(path))


def _unix_db(query: str | None) -> int:
    name, _, db = (query or "db=0").partition("=")
    if name != "db" or not db:
        raise _Wrong("the query of unix:// may hold db, a number, and nothing else")
    return _db(db)


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise _Wrong("what is percent-encoded is not UTF-8") from None


def _masked(url: str) -> str:
    """Return a URL that may be anything without what may be a password in it."""
    without_user = re.sub(r"//.*@", "//***@", url, flags=re.DOTALL)
    without_query = re.sub(r"([?&](?!db=)[^=&]*=)[^&]*", r"\1***", without_user)
    # A password where the host is missing stands in the place of the port.
    return re.sub(r":(?!//|[0-9]*(?:[/,?:\]]|$))[^/,\]]*", ":***", without_query)
