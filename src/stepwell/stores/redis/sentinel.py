"""One master that may change: sentinels watch it, replace it when it fails, and know which it is.

https://redis.io/docs/latest/develop/reference/sentinel-clients/
"""

import asyncio
from collections.abc import Callable

from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.stores.breaker import Closed, State
from stepwell.stores.redis.address import HostPort, Sentinel, show_address
from stepwell.stores.redis.dialing import Dialer, expect_lone_master
from stepwell.stores.redis.link import Link
from stepwell.stores.redis.single import LoneServer

LOOK_SECONDS = 5.0
"""How often sentinels are asked while all is well. A master that is cut off from them, and not
from us, hears as late as that of its successor; what we wrote to it meanwhile is lost."""


class SentinelServer(LoneServer):
    """One server at a time, which sentinels name.

    Whenever the connection is lost, or the server says that it is a replica, the sentinels are
    asked anew: each of them, until one names a server that calls itself the master.
    """

    def __init__(
        self,
        address: Sentinel,
        dialer: Dialer,
        *,
        timeout_seconds: float,
        on_change: Callable[[State], None],
    ) -> None:
        self._service = address.service
        self._sentinels = list(address.sentinels)
        self._dialer = dialer
        super().__init__(
            show_address(address),
            self._connect,
            timeout_seconds=timeout_seconds,
            on_change=on_change,
        )
        self._master: HostPort | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, or go on trying in the background.

        Raises:
            ConfigError: What no waiting mends.
        """
        self._watching = asyncio.create_task(self._watch())
        await super().start()

    async def aclose(self) -> None:
        """As `Servers.aclose`."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await super().aclose()

    async def _connect(self) -> Link:
        """Find the master and connect to it."""
        errors: list[StoreUnavailable | ConfigError] = []
        tried: set[HostPort] = set()
        for sentinel in tuple(self._sentinels):
            try:
                master = await self._named_by(sentinel)
                if master in tried:
                    continue
                tried.add(master)
                link = await self._dialer.dial(master, expect_lone_master)
            except (StoreUnavailable, ConfigError) as error:
                errors.append(error)
            else:
                self._prefer(sentinel)
                self._follow(master)
                return link
        text = "; ".join(map(str, errors))
        if all(isinstance(error, ConfigError) for error in errors):
            raise ConfigError(text)
        raise StoreUnavailable(text)

    async def _named_by(self, sentinel: HostPort) -> HostPort:
        reply = await self._dialer.ask_sentinel(
            sentinel,
            *("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service),
            timeout_seconds=self._dialer.timeout_seconds / len(self._sentinels),
        )
        match reply:
            case [bytes(host), bytes(port)] if port.isdigit():
                return HostPort(host.decode(errors="replace"), int(port))
            case None:
                raise ConfigError(
                    f"stores.redis.url: the sentinel {sentinel} watches no service"
                    f" {self._service!r}"
                )
            case _:
                raise StoreUnavailable(f"{sentinel} does not speak as a sentinel does")

    def _prefer(self, sentinel: HostPort) -> None:
        self._sentinels.remove(sentinel)
        self._sentinels.insert(0, sentinel)

    def _follow(self, master: HostPort) -> None:
        """Note which the master is, and leave the one before."""
        before, self._master = self._master, master
        if before not in {None, master}:
            self._node.fail(f"{self._node.name}: the master is {master} now, not {before}")

    async def _watch(self) -> None:
        """See now and then whether there is another master."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not isinstance(self._node.state, Closed):
                continue  # the breaker asks the sentinels already
            for sentinel in tuple(self._sentinels):
                try:
                    master = await self._named_by(sentinel)
                except (StoreUnavailable, ConfigError):
                    continue  # it is asked again soon, and tells nothing of the master
                if isinstance(self._node.state, Closed) and master != self._master:
                    self._node.fail(f"{self._node.name}: the master is {master} now")
                break
