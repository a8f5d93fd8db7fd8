"""The URL of the store: what it may be, and what is said of one that it may not."""

import pytest

from stepwell.core.errors import ConfigError
from stepwell.stores.redis.address import (
    Address,
    Cluster,
    Credentials,
    HostPort,
    Sentinel,
    Single,
    UnixSocket,
    merge_credentials,
    parse_address,
    show_address,
)

NOBODY = Credentials()


def single(
    host: str = "cache",
    port: int = 6379,
    db: int = 0,
    who: Credentials = NOBODY,
    *,
    tls: bool = False,
) -> Single:
    return Single(HostPort(host, port), db, who, is_encrypted=tls)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://cache", single()),
        ("redis://cache/", single()),
        ("rediss://cache", single(tls=True)),
        ("redis://cache:1/15", single(port=1, db=15)),
        ("redis://10.0.0.7:6380", single("10.0.0.7", 6380)),
        ("redis://[2001:db8::7]", single("2001:db8::7")),
        ("redis://[::1]:6380/2", single("::1", 6380, 2)),
        ("redis://[fe80::1%25eth0]", single("fe80::1%eth0")),
        ("redis://my_cache", single("my_cache")),
        ("redis://köln.example", single("xn--kln-sna.example")),
        ("redis://ann@cache", single(who=Credentials("ann"))),
        ("redis://:word@cache", single(who=Credentials(None, "word"))),
        ("redis://ann:@cache", single(who=Credentials("ann", ""))),
        ("redis://a%40n:p%2Fw%3A%C3%BC@cache", single(who=Credentials("a@n", "p/w:ü"))),
        ("redis://ann:a@b@cache", single(who=Credentials("ann", "a@b"))),
        ("unix:///run/cache.sock", Single(UnixSocket("/run/cache.sock"), 0, NOBODY)),
        ("unix:///run/a@b%20c?db=3", Single(UnixSocket("/run/a@b c"), 3, NOBODY)),
        ("unix://:w@/s", Single(UnixSocket("/s"), 0, Credentials(None, "w"))),
        ("redis+cluster://a", Cluster((HostPort("a", 6379),), NOBODY)),
        (
            "rediss+cluster://ann:w@a:1,[::1]:2,a:1/0",
            Cluster(
                (HostPort("a", 1), HostPort("::1", 2)), Credentials("ann", "w"), is_encrypted=True
            ),
        ),
        (
            "redis+sentinel://a,b:1/main",
            Sentinel((HostPort("a", 26379), HostPort("b", 1)), "main", 0, NOBODY),
        ),
        (
            "rediss+sentinel://ann:w@a/my%2Fmain/4",
            Sentinel(
                (HostPort("a", 26379),), "my/main", 4, Credentials("ann", "w"), is_encrypted=True
            ),
        ),
    ],
)
def test_forms(url: str, address: Address) -> None:
    """Each form says where the servers are and who asks them."""
    assert parse_address(url) == address


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("", "no URL"),
        ("cache:6379", "no URL"),
        ("redis:/cache", "no URL"),
        ("http://cache", "scheme is unknown"),
        ("REDIS://cache", "no URL"),
        ("redis://", "a host must be"),
        ("redis://ca che", "a space"),
        ("redis://cache\n", "control character"),
        ("redis://cache/%zz", "begins no escape"),
        ("redis://a..b", "a host must be"),
        ("redis://[1.2.3.4]", "a host must be"),
        ("redis://::1", "a host must be"),
        ("redis://cache:0", "1 to 65535"),
        ("redis://cache:65536", "1 to 65535"),
        ("redis://cache/-1", "must be a number"),
        ("redis://cache/one", "must be a number"),
        ("redis://cache/1/2", "must be a number"),
        ("redis://a,b", "several hosts"),
        ("redis://cache?db=1", "only unix:// has a query"),
        ("redis://cache#1", "no URL"),
        ("redis://%ff@cache", "not UTF-8"),
        ("redis+cluster://a,b/1", "db 0 only"),
        ("redis+cluster://a,", "a host must be"),
        ("redis+sentinel://a,b", "service is missing"),
        ("redis+sentinel://a//0", "service is missing"),
        ("redis+sentinel://a/main/x", "must be a number"),
        ("unix://cache/s", "three slashes"),
        ("unix:///", "three slashes"),
        ("unix:///s?db=", "a number, and nothing else"),
        ("unix:///s?size=1", "a number, and nothing else"),
    ],
)
def test_refused(url: str, what: str) -> None:
    """An error names the setting, what is wrong and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        parse_address(url)
    assert what in str(caught.value)
    assert str(caught.value).startswith("stores.redis.url is '")
    assert "allowed: redis://[user[:password]@]host[:port][/db]" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://ann:SECRET@cache:99999",
        "redis://:SECRET@cache/x",
        "redis://ann:SECRET",
        "redis://:SECRET",
        "redis://ann:1SECRET/0",
        "redis://ann:SEC/SECRET@cache",
        "redis://ann:SEC@SECRET@cache/x",
        "redis://ann:SEC?SECRET#SECRET@cache",
        "redis://ann:SEC\nSECRET@cache",
        "redis://ann:%zzSECRET@cache",
        "ann:SECRET@cache",
        "redis+cluster://:SECRET@a,b/1",
        "redis+sentinel://:SECRET@a,b",
        "unix:///s?password=SECRET",
    ],
)
def test_password_is_never_shown(url: str) -> None:
    """Not even of a URL that nobody can read."""
    with pytest.raises(ConfigError) as caught:
        parse_address(url)
    assert "SECRET" not in str(caught.value)
    assert "***" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ann:SECRET@cache", "redis://cache:6379/0"),
        ("rediss://:SECRET@[::1]/2", "rediss://[::1]:6379/2"),
        ("unix://:SECRET@/run/a%20b?db=1", "unix:///run/a%20b?db=1"),
        ("redis+cluster://:SECRET@a,b:1", "redis+cluster://a:6379,b:1"),
        ("rediss+sentinel://:SECRET@a/m%2Fn/1", "rediss+sentinel://a:26379/m%2Fn/1"),
    ],
)
def test_shown_without_secrets(url: str, shown: str) -> None:
    """For logs, and it leads to the same place."""
    address = parse_address(url)
    assert show_address(address) == shown
    assert show_address(parse_address(shown)) == shown
    assert "SECRET" not in repr(address)


def test_credentials_are_put_together() -> None:
    """A user may stand in the URL and the password elsewhere."""
    given = Credentials(None, "word")
    assert merge_credentials(single(who=Credentials("ann")), given) == Credentials("ann", "word")
    assert merge_credentials(single(), given) == given
    assert merge_credentials(single(), NOBODY) == NOBODY


@pytest.mark.parametrize(
    ("own", "given", "setting"),
    [
        (Credentials("ann", "a"), Credentials("bob"), "username"),
        (Credentials(None, "a"), Credentials(None, "b"), "password_env"),
        (Credentials("ann"), NOBODY, "password_env"),
    ],
)
def test_credentials_that_do_not_go_together(
    own: Credentials, given: Credentials, setting: str
) -> None:
    """What is said twice, or by half, is refused."""
    with pytest.raises(ConfigError, match=rf"^stores\.redis\.{setting}"):
        merge_credentials(single(who=own), given)
