"""How a cluster shares out keys, and how it says so. Pure.

https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
"""

import binascii
from dataclasses import dataclass

from stepwell.core.errors import StoreUnavailable
from stepwell.stores.redis.address import HostPort
from stepwell.stores.redis.link import Refused, Reply

SLOTS = 16_384


def slot_of(key: bytes) -> int:
    """Return the slot of a key; of its hash tag, the first ``{...}`` that is not empty, if any."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return binascii.crc_hqx(key, 0) % SLOTS


@dataclass(frozen=True, slots=True)
class SlotRange:
    """Slots that have one master."""

    first: int
    last: int
    """It, too."""
    master: HostPort
    replicas: tuple[HostPort, ...]


def parse_slots(reply: Reply, asked: HostPort) -> tuple[SlotRange, ...]:
    """Return what ``CLUSTER SLOTS`` says. ``asked`` is the node that said it.

    Ranges of a master whose host the cluster does not know are left out.

    Raises:
        StoreUnavailable: It is something else.
    """
    ranges = []
    for entry in reply if isinstance(reply, list) else [None]:
        match entry:
            case [int(first), int(last), [*_] as master, *replicas] if 0 <= first <= last < SLOTS:
                endpoint = _endpoint(master, asked)
                found = (_endpoint(replica, asked) for replica in replicas)
                if endpoint is not None:
                    known = tuple(replica for replica in found if replica is not None)
                    ranges.append(SlotRange(first, last, endpoint, known))
            case _:
                raise StoreUnavailable(f"{asked} does not tell of a cluster's slots")
    return tuple(ranges)


@dataclass(frozen=True, slots=True)
class Moved:
    """A slot has another master now."""

    slot: int
    master: HostPort


@dataclass(frozen=True, slots=True)
class Ask:
    """This one key is where its slot is moving to; ask there, and say so."""

    importing: HostPort


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The command's keys are on both sides of a slot's move."""


Redirect = Moved | Ask | TryAgain


def parse_redirect(error: Refused, asked: HostPort) -> Redirect | None:
    """Return where an error sends us; ``None`` if it is one that stays."""
    match str(error).split():
        case ["MOVED", slot, target] if slot.isdecimal() and int(slot) < SLOTS:
            endpoint = _target(target, asked)
            return Moved(int(slot), endpoint) if endpoint is not None else None
        case ["ASK", _, target]:
            endpoint = _target(target, asked)
            return Ask(endpoint) if endpoint is not None else None
        case ["TRYAGAIN", *_]:
            return TryAgain()
        case _:
            return None


def _endpoint(node: Reply, asked: HostPort) -> HostPort | None:
    match node:
        case [bytes(host), int(port), *_]:
            return _host_port(host.decode(errors="replace"), port, asked)
        case [None, int(port), *_]:
            return HostPort(asked.host, port)
        case _:
            return None


def _target(text: str, asked: HostPort) -> HostPort | None:
    host, _, port = text.rpartition(":")  # an IPv6 address has no brackets here
    return _host_port(host, int(port), asked) if port.isdecimal() else None


def _host_port(host: str, port: int, asked: HostPort) -> HostPort | None:
    """Return where a node is; no host means the one that was asked, ``?`` one that is unknown."""
    return None if host == "?" else HostPort(host or asked.host, port)
