"""Which names and addresses only this machine reaches."""

import pytest

from stepwell.gateway.loopback import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"])
def test_loopback(host: str) -> None:
    """The name, and every address of the loopback networks."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", "2130706433", "x"],
)
def test_not_loopback(host: str) -> None:
    """Also what only begins like it, and what another program might read as it."""
    assert not is_loopback(host)
