"""What vectors stand in Redis, looked at from outside: for audits and figures."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stepwell.core.embedding import ContentDigest
from stepwell.stores.redis.embeddings import SLICE, TOMBSTONE
from stepwell.stores.redis.eviction import Eviction, eviction_of
from stepwell.stores.redis.line import PATIENCE_SECONDS
from stepwell.stores.redis.link import Reply
from stepwell.stores.redis.replies import integer, items
from stepwell.stores.redis.scanning import scan
from stepwell.stores.redis.servers import Servers

NO_END: Final = -1
"""As ``PTTL`` says it."""

_GONE: Final = -2
_DIGEST_HEX: Final = 64


@dataclass(frozen=True, slots=True)
class Standing:
    """A key."""

    name: bytes
    version: str
    digest: ContentDigest | None
    """``None``: the name is none of ours."""
    value: bytes | None
    """``None``: it is no string."""
    milliseconds: int
    """To live; `NO_END`: it has no end."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """Some keys out of all."""

    keys: Mapping[str, int]
    """How many there are, by version; a few may be counted twice while the server resizes."""
    standing: Sequence[Standing]


class Survey:
    """Looks at all servers. One event loop. Every method raises `StoreError`."""

    def __init__(self, servers: Servers, *, prefix: str) -> None:
        """Ask nothing yet.

        Args:
            servers: Opened, and closed by others.
            prefix: As `RedisEmbeddings` has it.
        """
        self._servers = servers
        self._beginning = f"{prefix}emb:".encode()

    async def sample(self, at_most: int) -> Sampled:
        """Return ``at_most`` keys, each as likely as any other, without those that go meanwhile.

        Walks through all names, a page at a time; holds only those that are returned.
        """
        keys: Counter[str] = Counter()
        chosen: list[bytes] = []
        seen = 0
        async for name in self._names():
            keys[_parsed(name, self._beginning)[0]] += 1
            seen += 1
            # Algorithm R (J. S. Vitter, ACM Trans. Math. Softw. 11(1), 1985).
            if len(chosen) < at_most:
                chosen.append(name)
            elif (place := random.randrange(seen)) < at_most:  # noqa: S311
                chosen[place] = name
        return Sampled(keys, await self.look(chosen))

    async def look(self, names: Sequence[bytes]) -> Sequence[Standing]:
        """Return keys, without those that are gone, or only say that a vector was deleted."""
        standing: list[Standing] = []
        for at in range(0, len(names), SLICE):
            found = await asyncio.gather(*map(self._look_at, names[at : at + SLICE]))
            standing += (one for one in found if one is not None)
        return standing

    def name_of(self, version: str, digest: ContentDigest) -> bytes:
        """Return what a vector's key is called."""
        return self._beginning + f"{version}:{digest.hex()}".encode()

    async def _look_at(self, name: bytes) -> Standing | None:
        # In this order: a value that has come since the time was asked for has one, too.
        milliseconds = integer(await self._ask(name, "PTTL"))
        (value,) = items(await self._ask(name, "MGET"))  # none of another type, and no error
        if milliseconds == _GONE or value == TOMBSTONE:
            return None
        version, digest = _parsed(name, self._beginning)
        standing = value if isinstance(value, bytes) else None
        return Standing(name, version, digest, standing, milliseconds)

    async def evictions(self) -> Mapping[str, Eviction]:
        """Return what the servers do when they are full, as far as they tell."""
        told = {node.name: await eviction_of(node) for node in self._servers.masters()}
        return {name: eviction for name, eviction in told.items() if eviction is not None}

    async def _names(self) -> AsyncIterator[bytes]:
        for node in self._servers.masters():
            async for names in scan(node, self._beginning):
                for name in names:
                    yield name

    async def _ask(self, name: bytes, command: str) -> Reply:
        return await self._servers.ask(name, command, name, timeout_seconds=PATIENCE_SECONDS)


def _parsed(name: bytes, beginning: bytes) -> tuple[str, ContentDigest | None]:
    version, _, digest = name.removeprefix(beginning).decode(errors="replace").rpartition(":")
    try:
        told = bytes.fromhex(digest) if len(digest) == _DIGEST_HEX else b""
    except ValueError:
        told = b""
    return version, ContentDigest(told) if version and told else None
