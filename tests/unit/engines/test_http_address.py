"""Base URLs: what they mean, and which mean nothing."""

import pytest

from stepwell.core.errors import ConfigError
from stepwell.engines.http_address import Address, parse_base_url


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("http://host/v1", Address("http", "host", 80, "host", "/v1")),
        ("http://host:80/v1", Address("http", "host", 80, "host", "/v1")),
        ("https://host/v1/", Address("https", "host", 443, "host", "/v1")),
        ("https://host:80", Address("https", "host", 80, "host:80", "")),
        ("HTTP://Host:8000/V1", Address("http", "host", 8000, "host:8000", "/V1")),
        ("http://[::1]:8000/v1", Address("http", "::1", 8000, "[::1]:8000", "/v1")),
        ("http://[::1]/v1", Address("http", "::1", 80, "[::1]", "/v1")),
        ("http://my_model:1/a/b%20c", Address("http", "my_model", 1, "my_model:1", "/a/b%20c")),
        (
            "http://bücher.example:1/v1",
            Address("http", "xn--bcher-kva.example", 1, "xn--bcher-kva.example:1", "/v1"),
        ),
    ],
)
def test_address_of_a_base_url(base_url: str, address: Address) -> None:
    """Names of hosts are ASCII on the wire; a scheme's own port goes without saying."""
    assert parse_base_url("upstreams.main", base_url) == address


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "localhost:8000",
        "//host/v1",
        "ftp://host/v1",
        "http://",
        "http:///v1",
        "http://u:p@host/v1",
        "http://@host/v1",
        "http://host/?q",
        "http://host/?",
        "http://host/v1#f",
        "http://host:0/v1",
        "http://host:70000/v1",
        "http://host:x/v1",
        "http://[::1/v1",
        "http://host/v 1",
        "http://host/v1\n",
        "http://host/v1\r\nx: y",
        "http://ho st/v1",
        "http://host/版",
        f"http://{'a' * 64}.example/v1",
    ],
)
def test_other_base_urls_are_refused(base_url: str) -> None:
    """With their name and value, when they are read and not when they are used."""
    with pytest.raises(ConfigError, match=r"\[upstreams\.main\] base_url"):
        parse_base_url("upstreams.main", base_url)
