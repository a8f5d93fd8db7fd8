"""What a room needs from the world, as protocols. `stepwell.assembly` hands in the real things."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from stepwell.core.changes import Change
from stepwell.core.entry import Arrived, Entry, Phrasing, Selector
from stepwell.core.events import Event
from stepwell.core.judgement import Judgement
from stepwell.core.likeness import Match, NoMatch, Terms
from stepwell.core.names import Arrival, CacheKey, Endpoint, Namespace, Position, Tier


class Store(Protocol):
    """The truth about entries; shared by the worker processes of a machine, or of several.

    Safe for many tasks on one event loop. No call blocks the loop. Every method raises
    `StoreError` and nothing else when the store cannot do its work.
    """

    @property
    def tier(self) -> Tier:
        """What it is called."""
        ...

    async def get(self, key: CacheKey) -> Entry | None:
        """Return the entry under ``key``, fresh or not, or ``None``.

        Raises:
            CorruptEntry: The record was damaged; it has been removed.
        """
        ...

    async def put(self, entry: Entry) -> bool:
        """Store ``entry``, replacing what is under its key, and return once others can see it.

        Returns:
            ``False`` if nothing was stored because an invalidation later than
            ``entry.as_of`` means this entry.
        """
        ...

    async def count(self, selector: Selector) -> int:
        """Return how many entries ``selector`` means, expired ones included."""
        ...

    async def invalidate(self, selector: Selector) -> int:
        """Remove the entries ``selector`` means, those still being made too; return how many.

        When it returns, every worker obeys: `Feed.behind` is true for all that have not yet.
        """
        ...

    async def revoke(self, selector: Selector) -> None:
        """As `invalidate`, but without counting, so it need not look for what is meant.

        When it returns, every worker obeys. What is meant may take up room for a while.
        """
        ...

    async def aclose(self) -> None:
        """Write what is pending and release everything. May be called twice."""
        ...


class Feed(Protocol):
    """The change feed of a store, and the current values of named sources."""

    def behind(self) -> bool:
        """Return whether a change has not been read yet, or nobody can say.

        Costs under a microsecond; no I/O wait.
        """
        ...

    def position(self) -> Position:
        """Return the position of the last change read."""
        ...

    async def read(self) -> Sequence[Change]:
        """Return the changes since the last call, oldest first, and move the position.

        Raises:
            CutOff: The feed cannot be heard just now. When it can be, nothing will be missing.
            StoreError: Changes may be missing.
        """
        ...

    async def move_source(self, namespace: Namespace, name: str, value: str) -> bool:
        """Set the current value of a named source; return whether that changed anything.

        Setting it for `EVERYONE` takes the values that single namespaces have away.
        """
        ...

    async def source_values(self) -> dict[tuple[Namespace, str], str]:
        """Return the current value of every source, after `read` or at start."""
        ...


@runtime_checkable
class SupportsTrouble(Protocol):
    """A store that may be bypassed for a while."""

    @property
    def trouble(self) -> str:
        """Why it is, just now; empty if it is not."""
        ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lease is ours."""

    is_made: bool
    """Whether there is an entry under the key, fresh or not."""


class Leases(Protocol):
    """Leases on making entries, one at a time for each key, among all that share a store.

    Safe for many tasks on one event loop. All raise `StoreError` if the store does not answer.
    """

    async def claim(self, key: CacheKey, milliseconds: int) -> Claimed | str:
        """Take the lease on ``key`` for so long, or return the address of who has it.

        As often as it was taken it must be released.
        """
        ...

    async def holder(self, key: CacheKey) -> str | None:
        """Return the address of who has the lease on ``key``, if anybody has."""
        ...

    async def renew(self, milliseconds: int) -> None:
        """Hold all leases that were taken for so long from now, unless others have them.

        What fails shows later: to others, that the lease has run out.
        """
        ...

    async def release(self, key: CacheKey) -> None:
        """Give the lease on ``key`` up."""
        ...


class Post(Protocol):
    """Letters between processes that share a store. Some may be lost; none comes twice."""

    @property
    def address(self) -> str:
        """Where letters to this process go."""
        ...

    def start(self, take: Callable[[bytes], None]) -> None:
        """Hand letters to ``take``, each sender's in the order they were sent, from now on."""
        ...

    async def send(self, to: str, letter: bytes, *, patience_seconds: float | None = None) -> None:
        """Send a letter to an address.

        Args:
            to: The address.
            letter: Some KB.
            patience_seconds: How long that may take; what a request may wait for, by default.

        Raises:
            StoreError: It was not sent, or too many wait there already.
        """
        ...


@runtime_checkable
class SharesCalls(Protocol):
    """A store by which several machines can agree on who asks a model server."""

    @property
    def leases(self) -> Leases:
        """Who does."""
        ...

    @property
    def post(self) -> Post:
        """How the others hear of it."""
        ...


class Judgements(Protocol):
    """What was said of hits. Kept with the store; every worker hears of it through the feed."""

    async def judge(self, judgement: Judgement) -> None:
        """Keep a judgement, in place of an older one of the same pair.

        Raises:
            StoreError: It could not be made known.
        """
        ...

    async def judgements(self) -> Sequence[Judgement]:
        """Return all that are kept, oldest first; after `Feed.read` or at start.

        Raises:
            StoreError: They could not be read.
        """
        ...


class Follower(Protocol):
    """A view that must hear of every change of the store."""

    def apply(self, change: Change) -> None:
        """Take one change. Must not raise or block."""
        ...


class Arrivals(Protocol):
    """What came to a store, in order, for views that hold something of every phrased entry."""

    async def arrived(self, after: Arrival, at_most: int) -> tuple[Sequence[Arrived], Arrival]:
        """Return the next phrased entries that came after ``after``, and where to go on.

        Entries that have left again are not among them. After the feed said `Lost`, start from 0.
        Costs a microsecond an entry: answers are not read.

        Raises:
            StoreError: They could not be read.
        """
        ...


class Paraphrases(Protocol):
    """Finds stored questions that have the same answer. Safe for many tasks on one event loop."""

    async def lookup(self, phrasing: Phrasing, terms: Terms) -> Match | NoMatch:
        """Return a question whose answer may be given, or why there is none. Never raises.

        The entry may have left the store, or not be fresh: that is for the caller to see.
        """
        ...

    def learn(self, entry: Entry) -> None:
        """Make ``entry`` findable by its words, soon. Does not wait."""
        ...

    def forget(self, key: CacheKey) -> None:
        """Drop what was found and is not in the store any more."""
        ...


class PrefixHints(Protocol):
    """Takes hints which KV blocks may serve a request that goes on to a model server."""

    def note(self, asked: CacheKey, near: CacheKey, similarity: float) -> None:
        """Note that the question ``asked`` is much like ``near``, which was answered before.

        A hint only: what is shared of their KV blocks, the tokens must tell. Must not raise or
        block.
        """
        ...


class EvictionPolicy(Protocol):
    """Which key leaves first. Sees keys and sizes, never entries; not thread-safe."""

    def on_put(self, key: CacheKey, size_bytes: int) -> None:
        """Note that ``key`` came in, or was replaced."""
        ...

    def on_hit(self, key: CacheKey) -> None:
        """Note that ``key`` was read. On the hot path: well under a microsecond."""
        ...

    def on_delete(self, key: CacheKey) -> None:
        """Forget ``key``: it expired or was invalidated. Unknown keys are ignored."""
        ...

    def victim(self) -> CacheKey:
        """Choose a key that must leave, and forget it. Raises `LookupError` if there is none."""
        ...


Headers = tuple[tuple[str, str], ...]
"""Header fields in order; names in lower case."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model server."""

    endpoint: Endpoint
    body: bytes
    """JSON, as it goes over the wire."""
    headers: Headers
    """End-to-end fields to send, ``authorization`` included; content type and length are added."""
    query: str = ""
    """Query string without the question mark, or empty."""
    namespace: Namespace | None = None
    """Whose it is, for servers that keep tenants' prefixes apart; ``None``: nobody's."""
    key: CacheKey | None = None
    """Of the question it puts; what hints speak of."""


class Reply(Protocol):
    """A model server's reply, whose body is still coming. Close it, read to the end or not."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """End-to-end fields of the reply; hop-by-hop fields and body framing are left out."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, decoded from any transfer or content coding.

        Raises:
            UpstreamTimeout: The next chunk did not come in time.
            UpstreamBroken: The connection ended before the body did.
        """
        ...

    async def aclose(self) -> None:
        """Release the connection; drop it if the body was not read, so that the server stops."""
        ...


class Upstream(Protocol):
    """A model server. Safe for many tasks on one event loop."""

    @property
    def name(self) -> str:
        """Name in the settings; a metric label."""
        ...

    @property
    def identity(self) -> str:
        """What makes its answers its own: part of every cache key, the same after a restart."""
        ...

    async def send(self, call: Call) -> Reply:
        """Send ``call`` and return when the reply's head is there.

        Cancelling the call, or closing the reply, makes the server stop as soon as it can tell.

        Raises:
            UpstreamUnreachable: No connection, after the retries that are safe.
            UpstreamTimeout: No head in time.
            UpstreamBroken: The connection broke after the request was sent.
        """
        ...

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """Send any other request, as it is.

        Args:
            method: In upper case.
            path: Below the server's ``/v1``, without a leading slash, percent-encoded.
            query: Without the question mark, or empty.
            headers: As in `Call`, content type included.
            body: May be empty.

        Raises:
            UpstreamError: As `send`.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class EventSink(Protocol):
    """Where events go. Must not raise and must not block."""

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...
