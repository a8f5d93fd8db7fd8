"""A cluster: each key has one master, which may change at any time."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.stores.breaker import Closed, Open, State
from stepwell.stores.redis.address import Cluster, HostPort, show_address
from stepwell.stores.redis.dialing import Dialer, expect_master
from stepwell.stores.redis.link import Late, Link, Refused, Reply, Word
from stepwell.stores.redis.node import Node
from stepwell.stores.redis.nodes import Nodes
from stepwell.stores.redis.slots import (
    SLOTS,
    Ask,
    Moved,
    Redirect,
    SlotRange,
    TryAgain,
    parse_redirect,
    slot_of,
)
from stepwell.stores.redis.topology import ask_around

MAX_REDIRECTS = 3
"""How often one call is sent elsewhere, all within its time."""

TRY_AGAIN_SECONDS = 0.005

MIN_REFRESH_SECONDS = 0.1
MAX_REFRESH_SECONDS = 1.0
"""How far apart nodes are asked for the topology: at least, and while something is wrong."""

LOOK_SECONDS = 30.0
"""How often they are asked while all is well."""

_MAX_DOUBLINGS = 4


class ClusterServers:
    """`Servers` of which each has some of the slots.

    A call follows redirections by itself. What it learns from them counts at once; the whole
    topology is asked for in the background, once for all calls that want it. A node that is lost
    makes the calls for its own slots fail, until the cluster has given them to another.
    """

    def __init__(
        self,
        address: Cluster,
        dialer: Dialer,
        *,
        timeout_seconds: float,
        on_change: Callable[[State], None],
    ) -> None:
        self._name = show_address(address)
        self._seeds = address.seeds
        self._dialer = dialer
        self._timeout_seconds = timeout_seconds
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._nodes = Nodes(self._make_node)
        self._ranges: tuple[SlotRange, ...] = ()
        self._owners: list[Node | None] = [None] * SLOTS
        self._masters: Mapping[HostPort, Node] = {}
        self._no_topology = f"{self._name} was not reached yet"
        self._reported: frozenset[str] = frozenset()
        self._is_stale = asyncio.Event()
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Learn the topology and connect, or go on trying in the background.

        Raises:
            ConfigError: What no waiting mends.
        """
        await self._refresh()
        if not isinstance(self.state, Closed):
            self._is_stale.set()
        self._refreshing = asyncio.create_task(self._keep_fresh())

    @property
    def state(self) -> State:
        """As `Servers.state`; open if any slot cannot be asked for."""
        problems = self._problems()
        return Open("; ".join(problems.values())) if problems else Closed()

    async def ask(self, key: bytes, *words: Word, timeout_seconds: float | None = None) -> Reply:
        """As `Servers.ask`."""
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        end = self._loop.time() + seconds
        slot = slot_of(key)
        node = self._owner(slot)
        try:
            return await node.ask(*words, timeout_seconds=timeout_seconds)
        except Refused as error:
            return await self._ask_elsewhere(slot, node, words, error, end)

    def together(self, keys: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        """As `Servers.together`: by slot."""
        groups: dict[int, list[bytes]] = {}
        for key in keys:
            groups.setdefault(slot_of(key), []).append(key)
        return tuple(groups.values())

    def masters(self) -> Sequence[Node]:
        """As `Servers.masters`."""
        return tuple(self._masters.values())

    async def dial(self, key: bytes) -> Link:
        """As `Servers.dial`."""
        await self.ask(key, "EXISTS", key)  # over a connection of its own nobody is redirected
        return await self._owner(slot_of(key)).dial()

    async def aclose(self) -> None:
        """As `Servers.aclose`."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        await self._nodes.aclose()

    # Calls.

    def _owner(self, slot: int) -> Node:
        node = self._owners[slot]
        if node is None:
            raise StoreUnavailable(self._no_topology or f"no server has slot {slot}")
        return node

    async def _ask_elsewhere(
        self, slot: int, node: Node, words: Sequence[Word], error: Refused, end: float
    ) -> Reply:
        """Go where errors send us; raise the first that is not about where."""
        asked = self._nodes.endpoint_of(node) or self._seeds[0]
        for _ in range(MAX_REDIRECTS):
            redirect = parse_redirect(error, asked)
            if redirect is None:
                break
            try:
                return await self._ask_again(redirect, slot, words, end)
            except Refused as again:
                error = again
        if error.code in {"MOVED", "CLUSTERDOWN"}:
            self._is_stale.set()
        raise error

    async def _ask_again(
        self, redirect: Redirect, slot: int, words: Sequence[Word], end: float
    ) -> Reply:
        match redirect:
            case Moved(moved, master):
                self._is_stale.set()
                node = self._owners[moved] = await self._ready(master, end)
                return await node.ask(*words, timeout_seconds=self._left(end))
            case Ask(importing):
                node = await self._ready(importing, end)
                return await node.ask_importing(*words, timeout_seconds=self._left(end))
            case TryAgain():
                await asyncio.sleep(min(TRY_AGAIN_SECONDS, self._left(end)))
                return await self._owner(slot).ask(*words, timeout_seconds=self._left(end))

    async def _ready(self, endpoint: HostPort, end: float) -> Node:
        """Return a node; wait for its first connection, but no longer than the call may."""
        try:
            async with asyncio.timeout_at(end):
                return await self._nodes.ready(endpoint)
        except TimeoutError:
            raise Late(f"{endpoint}, where the key is now, was not connected in time") from None

    def _left(self, end: float) -> float:
        left = end - self._loop.time()
        if left <= 0:
            raise Late("the time ran out while the key was looked for")
        return left

    # The topology.

    async def _keep_fresh(self) -> None:
        failures = 0
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._is_stale.wait()
            except TimeoutError:
                pass  # time to look all the same
            self._is_stale.clear()
            try:
                await self._refresh()
            except ConfigError as error:
                self._note_failure(str(error))
            if isinstance(self.state, Closed):
                failures = 0
            else:
                failures += 1
                self._is_stale.set()
            pause = MIN_REFRESH_SECONDS * 2 ** min(failures, _MAX_DOUBLINGS)
            await asyncio.sleep(min(pause, MAX_REFRESH_SECONDS))

    async def _refresh(self) -> None:
        """Learn the topology, if a node tells, and connect to masters that are new in it."""
        working = {at: node for at, node in self._masters.items() if isinstance(node.state, Closed)}
        known = {at for slots in self._ranges for at in (slots.master, *slots.replicas)}
        try:
            ranges = await ask_around(
                working, (known | {*self._seeds}) - working.keys(), self._dialer
            )
        except StoreUnavailable as error:
            self._note_failure(f"{self._name}: {error}")
            return
        masters = {slots.master for slots in ranges}
        nodes = await asyncio.gather(*map(self._nodes.ready, masters))
        self._adopt(ranges, dict(zip(masters, nodes, strict=True)))
        await self._nodes.keep(masters, self._timeout_seconds)

    def _adopt(self, ranges: tuple[SlotRange, ...], masters: Mapping[HostPort, Node]) -> None:
        owners: list[Node | None] = [None] * SLOTS
        for slots in ranges:
            count = slots.last - slots.first + 1
            owners[slots.first : slots.last + 1] = [masters[slots.master]] * count
        self._ranges, self._owners, self._masters = ranges, owners, masters
        self._no_topology = ""
        self._report()

    def _note_failure(self, reason: str) -> None:
        """Note that nobody told; what was known before stays in use."""
        if not self._ranges:
            self._no_topology = reason
        self._report()

    def _make_node(self, endpoint: HostPort) -> Node:
        async def connect() -> Link:
            return await self._dialer.dial(endpoint, expect_master)

        return Node(
            str(endpoint),
            connect,
            timeout_seconds=self._timeout_seconds,
            on_change=self._on_node_change,
        )

    def _on_node_change(self, state: State) -> None:
        if isinstance(state, Open):
            self._is_stale.set()
        self._report()

    # What is wrong.

    def _problems(self) -> dict[str, str]:
        """Return what cannot be asked, and why."""
        if self._no_topology:
            return {"topology": self._no_topology}
        problems = {
            str(at): node.state.reason
            for at, node in self._masters.items()
            if isinstance(node.state, Open)
        }
        missing = SLOTS - sum(slots.last - slots.first + 1 for slots in self._ranges)
        if missing:
            problems["slots"] = f"{missing} of the cluster's slots have no server"
        return problems

    def _report(self) -> None:
        """Tell of a change: of which servers fail, not of why they do."""
        failing = frozenset(self._problems())
        if failing != self._reported:
            self._reported = failing
            self._on_change(self.state)
