"""Finds out which node of a cluster has which slots, from whichever node tells."""

import random
from collections.abc import Iterable, Mapping
from typing import TypeVar

from stepwell.core.errors import ConfigError, StoreError, StoreUnavailable
from stepwell.stores.redis.address import HostPort
from stepwell.stores.redis.dialing import Dialer, expect_any
from stepwell.stores.redis.link import Refused
from stepwell.stores.redis.node import Node
from stepwell.stores.redis.slots import SlotRange, parse_slots

T = TypeVar("T")

_COMMAND = ("CLUSTER", "SLOTS")


async def ask_around(
    working: Mapping[HostPort, Node], others: Iterable[HostPort], dialer: Dialer
) -> tuple[SlotRange, ...]:
    """Return the slots as the first node says that answers.

    Each set in random order, so that no node has to tell all clients. Each gets the dialer's time.

    Args:
        working: Nodes that should answer; asked first, over the connections there are.
        others: Asked over connections made for it.
        dialer: Makes those.

    Raises:
        StoreUnavailable: None told. Says of each why.
        ConfigError: A server is not in a cluster.
    """
    errors: list[str] = []
    for endpoint, node in _shuffled(working.items()):
        try:
            reply = await node.ask(*_COMMAND, timeout_seconds=dialer.timeout_seconds)
            return _usable(parse_slots(reply, endpoint))
        except StoreError as error:
            errors.append(f"{endpoint}: {error}")
    for endpoint in _shuffled(others):
        try:
            return _usable(await _ask_once(endpoint, dialer))
        except StoreError as error:
            errors.append(str(error))
    raise StoreUnavailable("; ".join(errors))


async def _ask_once(endpoint: HostPort, dialer: Dialer) -> tuple[SlotRange, ...]:
    link = await dialer.dial(endpoint, expect_any)
    try:
        reply = await link.ask(*_COMMAND, timeout_seconds=dialer.timeout_seconds)
    except Refused as error:
        if "cluster support disabled" in str(error):
            raise ConfigError(
                f"stores.redis.url: {endpoint} is not in a cluster; its URL must begin with"
                " redis:// (rediss:// for TLS)"
            ) from None
        raise StoreUnavailable(f"{endpoint} does not tell of its cluster: {error}") from error
    finally:
        link.close()
    return parse_slots(reply, endpoint)


def _usable(ranges: tuple[SlotRange, ...]) -> tuple[SlotRange, ...]:
    if not ranges:
        raise StoreUnavailable("no slot of the cluster has a server")
    return ranges


def _shuffled(items: Iterable[T]) -> list[T]:
    listed = list(items)
    return random.sample(listed, len(listed))
