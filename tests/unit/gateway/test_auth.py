"""Whose request it is: told from its token, before anything else."""

import hashlib

import pytest

from stepwell.core.errors import RequestError
from stepwell.gateway.auth import (
    Authenticator,
    ConfiguredKeys,
    PassThrough,
    Shared,
    bearer_token,
    is_token,
)

SECRET = bytes(range(32))


def bearer(token: str) -> dict[str, str]:
    """Return the header fields of a request with ``token``."""
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("field", "token"),
    [
        ("Bearer sk-a", "sk-a"),
        ("bearer sk-a", "sk-a"),
        ("BEARER   sk-a  ", "sk-a"),
        ("Bearer", ""),
        ("Bearer ", ""),
        ("Basic sk-a", ""),
        ("sk-a", ""),
        ("", ""),
    ],
)
def test_bearer_token(field: str, token: str) -> None:
    """RFC 6750 (2.1); the scheme's case does not matter, everything else is no token."""
    assert bearer_token({"authorization": field}) == token


def test_no_field_is_no_token() -> None:
    """And no error."""
    assert bearer_token({}) == ""


def test_is_token() -> None:
    """Only the very same; text of any alphabet can be compared."""
    assert is_token(bearer("geheim-ß"), "geheim-ß")
    for wrong in (bearer("geheim"), bearer(""), {}, {"authorization": "geheim-ß"}):
        assert not is_token(wrong, "geheim-ß")


def test_each_token_is_a_tenant() -> None:
    """The same token the same one; no token is nobody."""
    auth = PassThrough(SECRET)
    one, again, other = (auth.tenant(bearer(token)) for token in ("sk-a", "sk-a", "sk-b"))
    assert one == again
    assert one != other
    assert auth.tenant({}) is None
    assert auth.tenant({"authorization": "Basic sk-a"}) is None


def digest(key: str) -> bytes:
    """Return what the settings hold of a key."""
    return hashlib.sha256(key.encode()).digest()


def test_known_keys_are_let_in() -> None:
    """Keys of one name are one tenant."""
    auth = ConfiguredKeys(SECRET, {digest("k1"): "a", digest("k2"): "a", digest("k3"): "b"})
    one, two, three = (auth.tenant(bearer(key)) for key in ("k1", "k2", "k3"))
    assert one == two
    assert one != three


@pytest.mark.parametrize("fields", [{}, bearer("k2"), bearer("a"), {"authorization": "k1"}])
def test_others_are_not(fields: dict[str, str]) -> None:
    """401, in words that say nothing about which keys there are."""
    with pytest.raises(RequestError, match=r"^Incorrect API key provided\.$") as caught:
        ConfiguredKeys(SECRET, {digest("k1"): "a"}).tenant(fields)
    assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")


def test_all_are_one_tenant() -> None:
    """With a token or without."""
    auth = Shared(SECRET)
    assert auth.tenant({}) == auth.tenant(bearer("sk-a")) is not None


def test_kinds_of_tenants_never_meet() -> None:
    """A token that is spelled as a name, or as what all share, has a namespace of its own."""
    kinds: list[Authenticator] = [
        PassThrough(SECRET),
        ConfiguredKeys(SECRET, {digest("shared"): "shared"}),
        Shared(SECRET),
    ]
    tenants = [auth.tenant(bearer("shared")) for auth in kinds]
    assert len({tenant.namespace() for tenant in tenants if tenant is not None}) == 3
