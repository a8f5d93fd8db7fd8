"""Salts: apart for tenants, alike for gateways with one secret."""

import string

from stepwell.core.names import Namespace
from stepwell.prefix.placement.salt import cache_salt

SECRET = b"s" * 16
ONE, OTHER = Namespace(b"1" * 16), Namespace(b"2" * 16)


def test_the_same_everywhere() -> None:
    """Known answer: gateways of different versions must share, so this must not change."""
    assert cache_salt(SECRET, "vllm", ONE) == cache_salt(SECRET, "vllm", ONE)
    assert cache_salt(SECRET, "vllm", ONE) == "i2aPEcCiuxYH7--sBWykzA16wmpb7F_g"


def test_apart() -> None:
    """Another tenant, server, secret or meaning is another salt."""
    salts = {
        cache_salt(SECRET, "vllm", ONE),
        cache_salt(SECRET, "vllm", OTHER),
        cache_salt(SECRET, "vllm", None),
        cache_salt(SECRET, "vllm", Namespace(b"")),
        cache_salt(SECRET, "other", ONE),
        cache_salt(b"t" * 16, "vllm", ONE),
    }
    assert len(salts) == 6


def test_accepted_by_vllm() -> None:
    """Between 22 and 128 characters, none of them forbidden there."""
    salt = cache_salt(SECRET, "a/b@c", ONE)
    assert 22 <= len(salt) <= 128
    assert set(salt) <= set(string.ascii_letters + string.digits + "-_")
