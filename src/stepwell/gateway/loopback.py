"""Addresses that only this machine reaches."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether ``host``, a name or an address, is this machine as seen by itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
