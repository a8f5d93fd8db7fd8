"""`RedisStore`: the ports of a store on Redis, Valkey, or a cluster of them."""

import secrets
from collections.abc import Callable, Sequence
from typing import Self, assert_never

from stepwell.core.changes import Change
from stepwell.core.clock import Clock
from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.errors import StepwellError, StoreFull, StoreUnavailable
from stepwell.core.events import Degraded
from stepwell.core.judgement import Judgement
from stepwell.core.names import Arrival, CacheKey, Namespace, Position, Tier
from stepwell.core.ports import EventSink
from stepwell.stores.breaker import Closed, Open
from stepwell.stores.messages import replaced_message
from stepwell.stores.redis.arrivals import Arrivals
from stepwell.stores.redis.entries import Entries, Written
from stepwell.stores.redis.facets import facets_of
from stepwell.stores.redis.feed import MAX_LAG_SECONDS, RedisFeed
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.leases import Leases
from stepwell.stores.redis.link import Refused
from stepwell.stores.redis.post import Post
from stepwell.stores.redis.removal import Removal
from stepwell.stores.redis.replies import integer
from stepwell.stores.redis.said import Said
from stepwell.stores.redis.scripts import REPLACED
from stepwell.stores.redis.servers import Servers

START_SECONDS = 2.0
"""How long opening waits for the feed's first word."""

_NO_MEMORY = "OOM"
_ADDRESS_BYTES = 8


class RedisStore:
    """Entries, change feed, sources and judgements of all gateways that share a Redis.

    What one gateway puts, another can get when `put` has returned. What one invalidates, the
    others obey when their feed has brought it: milliseconds, and never more than
    ``max_lag_seconds``, after which a gateway that hears nothing serves nothing of what it holds
    (`CutOff`). No call on a request's way waits longer than the servers' time budget.

    A killed gateway loses nothing that was acknowledged. A fail-over of Redis may lose the last
    entries, but no invalidation, source or judgement that was acknowledged while a replica was
    there. One event loop.
    """

    def __init__(
        self,
        servers: Servers,
        layout: Layout,
        *,
        clock: Clock,
        events: EventSink,
        max_lag_seconds: float,
        on_change: Callable[[str], None],
    ) -> None:
        """Use `open`."""
        self._servers = servers
        self._layout = layout
        self._events = events
        self._on_change = on_change
        self._feed = RedisFeed(
            servers,
            layout,
            clock=clock,
            max_lag_seconds=max_lag_seconds,
            on_error=self._degraded,
            on_word=self._note,
        )
        self._entries = Entries(servers, layout, clock=clock)
        address = secrets.token_hex(_ADDRESS_BYTES)
        self._leases = Leases(servers, layout, self._feed, token=address)
        self._post = Post(servers, layout, address=address)
        self._said = Said(servers, layout)
        self._arrivals = Arrivals(servers, layout, self._entries)
        self._removal = Removal(servers, layout, self._entries, self._feed)

    @classmethod
    async def open(
        cls,
        servers: Servers,
        *,
        prefix: str = "stepwell",
        clock: Clock,
        events: EventSink,
        max_lag_seconds: float = MAX_LAG_SECONDS,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Open the store on ``servers``, which it closes with itself.

        Waits at most two seconds for them. If they are not there, the store is: whatever it is
        asked raises `StoreUnavailable` until they are.

        Args:
            servers: Opened.
            prefix: What all names begin with; the same for all that share.
            clock: The time; its wall clock may differ between gateways by less than a time to live.
            events: Gets `Degraded`.
            max_lag_seconds: How long what is held may be served without a word from the feed.
            on_change: Called with `trouble`, also where it is as it was.
        """
        store = cls(
            servers,
            Layout(prefix),
            clock=clock,
            events=events,
            max_lag_seconds=max_lag_seconds,
            on_change=on_change,
        )
        await store._feed.start(START_SECONDS)
        store._removal.start()
        return store

    @property
    def tier(self) -> Tier:
        """As `Store.tier`."""
        return Tier.REDIS

    async def get(self, key: CacheKey) -> Entry | None:
        """As `Store.get`. One ``GET``."""
        feed = self._feed
        return await self._entries.find(feed.generation, key, feed.epochs)

    async def put(self, entry: Entry) -> bool:
        """As `Store.put`. One script, and one more for each that replaced an entry or has words.

        Nothing is stored either where another wrote since our lease on the key ran out.

        Raises:
            StoreFull: Redis is full, and evicts nothing.
        """
        try:
            return await self._put(entry)
        except Refused as error:
            if error.code == _NO_MEMORY:
                raise StoreFull(f"Redis has no memory left: {error}") from error
            raise

    async def _put(self, entry: Entry) -> bool:
        facets, feed = facets_of(entry), self._feed
        heard_at = await self._heard_at()
        if feed.epochs.outrun(entry.key, facets):
            return False
        token = self._leases.token_for(entry.key)
        written = await self._entries.put(feed.generation, entry, facets, heard_at, token)
        match written:
            case Written.LATE:
                raise StoreUnavailable("the entry came to Redis too late to be written")
            case Written.FENCED:
                return False
            case Written.OUTDATED:
                return True  # This gateway may hold it all the same.
            case Written.IN_PLACE:
                layout, message = self._layout, replaced_message(entry.key)
                keys = layout.meta, layout.changes
                told = await REPLACED.run(self._servers, keys, feed.generation, message)
                await feed.heard(Position(integer(told)))
            case Written.ANEW:
                pass
            case _:
                assert_never(written)
        if entry.phrasing is not None:
            await self._arrivals.note(feed.generation, entry)
        return True

    async def _heard_at(self) -> int:
        """As `RedisFeed.heard_at`; where we have slept, when the feed has been heard again."""
        if isinstance(self._servers.state, Closed):
            await self._feed.until_heard()  # Nobody waits for a put.
        return self._feed.heard_at

    async def arrived(self, after: Arrival, at_most: int) -> tuple[Sequence[Arrived], Arrival]:
        """As `stepwell.core.ports.Arrivals.arrived`."""
        return await self._arrivals.after(self._feed.generation, after, at_most)

    async def count(self, selector: Selector) -> int:
        """As `Store.count`. Walks through the store unless ``selector`` names a key."""
        return await self._removal.count(selector)

    async def invalidate(self, selector: Selector) -> int:
        """As `Store.invalidate`, but that gateways that hear nothing obey within a second.

        Walks through the store unless ``selector`` names a key. From the first moment nothing
        that is meant is served.
        """
        return await self._removal.invalidate(selector)

    async def revoke(self, selector: Selector) -> None:
        """As `Store.revoke`. One script; what is meant is removed within two minutes."""
        await self._removal.revoke(selector)

    def behind(self) -> bool:
        """As `Feed.behind`; also true while the feed is not heard."""
        return self._feed.behind()

    def position(self) -> Position:
        """As `Feed.position`."""
        return self._feed.position()

    async def read(self) -> Sequence[Change]:
        """As `Feed.read`. Waits for nothing.

        Raises:
            CutOff: The feed is not heard.
        """
        return self._feed.read()

    async def move_source(self, namespace: Namespace, name: str, value: str) -> bool:
        """As `Feed.move_source`.

        Raises:
            StoreFull: The namespace, or all together, have too many sources.
        """
        position = await self._said.move_source(self._feed.generation, namespace, name, value)
        await self._feed.heard(Position(position))
        return position > 0

    async def source_values(self) -> dict[tuple[Namespace, str], str]:
        """As `Feed.source_values`."""
        return await self._said.source_values()

    async def judge(self, judgement: Judgement) -> None:
        """As `Judgements.judge`."""
        position = await self._said.judge(self._feed.generation, judgement)
        await self._feed.heard(Position(position))

    async def judgements(self) -> Sequence[Judgement]:
        """As `Judgements.judgements`."""
        return await self._said.judgements()

    @property
    def leases(self) -> Leases:
        """As `SharesCalls.leases`."""
        return self._leases

    @property
    def post(self) -> Post:
        """As `SharesCalls.post`."""
        return self._post

    @property
    def trouble(self) -> str:
        """Why it is not, or not wholly, used just now; empty if it is."""
        state = self._servers.state
        return state.reason if isinstance(state, Open) else self._feed.trouble

    async def aclose(self) -> None:
        """As `Store.aclose`."""
        await self._post.aclose()
        await self._removal.aclose()
        await self._feed.aclose()
        await self._servers.aclose()

    def _degraded(self, error: StepwellError) -> None:
        self._events.emit(Degraded("store.redis", str(error)))
        self._note()

    def _note(self) -> None:
        self._on_change(self.trouble)
