"""Encrypted connections: to the right server only, and to one that asks who we are."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from support.certificates import Certificate, encrypt_key, make_authority, make_certificate
from support.redis_client import Changes, OpenServers
from support.redis_servers import REDIS, RedisServer
from support.redis_servers import Servers as Launcher

from stepwell.core.errors import ConfigError
from stepwell.stores.breaker import Closed, Open
from stepwell.stores.redis.servers import Servers
from stepwell.stores.redis.tls import Tls

KEY = b"key"


@dataclass(frozen=True)
class Encrypted:
    """A server with a certificate for ``localhost``, and what signed it."""

    server: RedisServer
    authority: Certificate

    @property
    def trust(self) -> Tls:
        return Tls(ca_file=self.authority.cert_file)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="session")
def certificate(authority: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """For ``localhost``."""
    return make_certificate(tmp_path_factory.mktemp("certificate"), "localhost", authority)


def start(
    launcher: Launcher,
    authority: Certificate,
    certificate: Certificate,
    *lines: str,
    arguments: tuple[str, ...] = (),
) -> RedisServer:
    if REDIS is None:
        pytest.skip("redis-server is not installed, and the Valkey that is has no TLS")
    return launcher.start(
        f"tls-cert-file {certificate.cert_file}",
        f"tls-key-file {certificate.key_file}",
        f"tls-ca-cert-file {authority.cert_file}",
        *lines,
        program=REDIS,
        port_option="tls-port",
        arguments=arguments,
    )


@pytest.fixture
def encrypted(launcher: Launcher, authority: Certificate, certificate: Certificate) -> Encrypted:
    """A server that does not ask who we are."""
    return Encrypted(start(launcher, authority, certificate, "tls-auth-clients no"), authority)


def reason_of(servers: Servers) -> str:
    assert isinstance(servers.state, Open)
    return servers.state.reason


async def test_server_with_a_certificate(encrypted: Encrypted, open_at: OpenServers) -> None:
    """Trusted by its authority and its name; long values pass, too."""
    servers = await open_at(f"rediss://localhost:{encrypted.server.port}/1", tls=encrypted.trust)
    assert servers.state == Closed()
    value = bytes(range(256)) * 4_000
    await servers.ask(KEY, "SET", KEY, value)
    assert await servers.ask(KEY, "GET", KEY) == value
    link = await servers.dial(KEY)
    assert await link.ask("GET", KEY, timeout_seconds=30) == value
    link.close()
    await link.wait_closed()


async def test_recovery(encrypted: Encrypted, open_at: OpenServers, changes: Changes) -> None:
    """As without TLS."""
    servers = await open_at(f"rediss://localhost:{encrypted.server.port}", tls=encrypted.trust)
    encrypted.server.ask("CLIENT", "KILL", "TYPE", "normal")
    await changes.opened()
    await changes.closed()
    assert await servers.ask(KEY, "PING") == b"PONG"


async def test_cluster(
    launcher: Launcher, authority: Certificate, certificate: Certificate, open_at: OpenServers
) -> None:
    """Its nodes are known by the names they announce, and asked at their encrypted ports."""
    server = start(
        launcher,
        authority,
        certificate,
        "tls-auth-clients no",
        "tls-cluster yes",
        "cluster-enabled yes",
        "cluster-port {free}",
        "cluster-announce-hostname localhost",
        "cluster-preferred-endpoint-type hostname",
    )
    server.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
    servers = await open_at(
        f"rediss+cluster://localhost:{server.port}", tls=Tls(ca_file=authority.cert_file)
    )
    assert servers.state == Closed()
    assert [master.name for master in servers.masters()] == [f"localhost:{server.port}"]


async def test_sentinels(
    launcher: Launcher, authority: Certificate, certificate: Certificate, open_at: OpenServers
) -> None:
    """They are asked over TLS as the master is; names they announce are compared."""
    lines = ("tls-auth-clients no", "tls-replication yes")
    master = start(launcher, authority, certificate, *lines)
    sentinel = start(
        launcher,
        authority,
        certificate,
        *lines,
        "sentinel resolve-hostnames yes",
        "sentinel announce-hostnames yes",
        f"sentinel monitor main localhost {master.port} 1",
        arguments=("--sentinel",),
    )
    servers = await open_at(
        f"rediss+sentinel://localhost:{sentinel.port}/main", tls=Tls(ca_file=authority.cert_file)
    )
    assert servers.state == Closed()
    assert await servers.ask(KEY, "SET", KEY, "value") == b"OK"
    assert master.ask("GET", KEY) == b"value"


async def test_unknown_authority(encrypted: Encrypted, open_at: OpenServers) -> None:
    """Nothing is sent to somebody nobody vouches for; the reason names the setting."""
    servers = await open_at(f"rediss://localhost:{encrypted.server.port}")
    assert "certificate is not accepted (" in reason_of(servers)
    assert "stores.redis.ca_file" in reason_of(servers)


async def test_wrong_host(encrypted: Encrypted, open_at: OpenServers) -> None:
    """Unless names are not to be compared, for clusters that announce addresses."""
    url = f"rediss://127.0.0.1:{encrypted.server.port}"
    servers = await open_at(url, tls=encrypted.trust)
    assert "stores.redis.check_hostname" in reason_of(servers)
    unchecked = Tls(ca_file=encrypted.authority.cert_file, check_hostname=False)
    servers = await open_at(url, tls=unchecked)
    assert await servers.ask(KEY, "PING") == b"PONG"


async def test_server_that_asks_who_we_are(
    launcher: Launcher, authority: Certificate, certificate: Certificate, open_at: OpenServers
) -> None:
    """It takes a certificate it trusts, and nobody without."""
    server = start(launcher, authority, certificate)
    url = f"rediss://localhost:{server.port}"
    known = Tls(authority.cert_file, certificate.cert_file, certificate.key_file)
    servers = await open_at(url, tls=known)
    assert await servers.ask(KEY, "PING") == b"PONG"
    unknown = await open_at(url, tls=Tls(authority.cert_file))
    assert isinstance(unknown.state, Open)


async def test_one_side_without_tls(
    encrypted: Encrypted, server: RedisServer, open_at: OpenServers
) -> None:
    """Whichever it is."""
    plain = await open_at(f"redis://localhost:{encrypted.server.port}")
    assert isinstance(plain.state, Open)
    servers = await open_at(
        f"rediss://localhost:{server.port}", tls=encrypted.trust, connect_timeout_seconds=1.0
    )
    assert isinstance(servers.state, Open)


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        (Tls(ca_file=Path("/no/such/file")), "stores.redis.ca_file is '/no/such/file'"),
        (Tls(ca_file=Path(__file__)), "stores.redis.ca_file is"),
        (Tls(cert_file=Path("/no/such/file")), "stores.redis.cert_file is '/no/such/file'"),
        (Tls(key_file=Path("/no/such/file")), "stores.redis.key_file goes with"),
    ],
)
async def test_files_that_cannot_be_used(open_at: OpenServers, tls: Tls, reason: str) -> None:
    """The operator must say others."""
    with pytest.raises(ConfigError, match=reason):
        await open_at("rediss://localhost", tls=tls)


async def test_key_that_is_encrypted(
    open_at: OpenServers, certificate: Certificate, tmp_path: Path
) -> None:
    """Nobody is there to type its password."""
    key_file = tmp_path / "key"
    encrypt_key(certificate.key_file, key_file)
    with pytest.raises(ConfigError, match=r"stores\.redis\.key_file"):
        await open_at("rediss://localhost", tls=Tls(None, certificate.cert_file, key_file))
