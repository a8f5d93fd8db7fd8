"""What each replica of a model server probably holds, of which prompts. Hints, never promises."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from stepwell.core.kv import TOKEN_BYTES, KvScope, Tokens
from stepwell.core.kv_events import (
    AllCleared,
    BlocksRemoved,
    BlocksStored,
    Gap,
    KvEvent,
    Resync,
)
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.replicas import ReplicaName
from stepwell.prefix.placement.sent import SentPrefixes
from stepwell.prefix.placement.told import ToldBlocks

SHRINK = 0.95
"""What is left of an assumed room after a report of less than was foretold."""

GROW = 1.1
"""By how much it grows after a report of more, as long as it is full."""

LEAST_SHARE, MOST_SHARE = 1 / 64, 16.0
"""Bounds of what is learned, as shares of what was assumed first."""

MISSES_IN_A_ROW = 3
"""After so many reports of next to nothing, a replica is taken to have lost all, as in a restart
that nobody saw; its events, if it had sent any, are not believed until they begin anew."""

TELLING_TOKENS = 256
"""By fewer, what was foretold may be off without its meaning anything."""

MISS_SHARE = 0.1
"""Less than this share of what was foretold is next to nothing."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is known of the memory a replica has for prefixes."""

    tokens: int = 256 * 1024
    block_tokens: int = 16
    is_known: bool = False
    """Whether the replica says so, as in vLLM's ``vllm:cache_config_info``; else it is assumed, and
    learned from what is reported."""


class _Replica:
    """What is believed of one replica."""

    __slots__ = ("has_begun_anew", "is_believed", "misses", "room", "run", "sent", "told")

    def __init__(self, room: Room, room_tokens: int, max_told_tokens: int) -> None:
        self.room = room
        self.sent = SentPrefixes(room_tokens, room.block_tokens)
        self.told = ToldBlocks(max_told_tokens)
        self.misses = 0
        self.is_believed = True
        self.has_begun_anew = False
        """Whether events began anew since it last said who it is: they are of that run or later."""
        self.run: str | None = None

    @property
    def told_tokens_in_all(self) -> int:
        return self.told.tokens if self.is_believed else 0

    def told_tokens(self, region: Region, prompt: Tokens, as_of: int | None) -> int:
        return self.told.matched_tokens(region, prompt, as_of) if self.is_believed else 0


def _no_salt(_: KvScope) -> None:
    """Say that requests carry no salt."""


class Residency:
    """Which replica probably holds how much of a prompt.

    Two sources: what was sent there, in a shadow of the replica's cache, and what the replica tells
    in KV events. The larger counts, because each is blind where the other sees: events may be lost
    or not sent at all, and other gateways send, too. Reports of cached tokens, and removals, cut
    the shadow back, so that it is not believed against better knowledge.

    Bounded: per replica at most its room in the shadow (5 bytes a token) and ``max_told_tokens``
    from events (23 bytes a token in blocks of 16, 6 in blocks of 128). A lookup costs, for each
    replica, 2 us and as much a thousand tokens that it holds; from events, 30 us a thousand
    tokens in blocks of 16, 8 in blocks of 128. One event loop; not thread-safe.
    """

    def __init__(
        self,
        rooms: Mapping[ReplicaName, Room],
        *,
        salt_of: Callable[[KvScope], str | None] = _no_salt,
        max_told_tokens: int = 1024 * 1024,
    ) -> None:
        """Start with nothing known.

        Args:
            rooms: The memory of each replica of which that is known from the start; another is
                taken to have `Room()`.
            salt_of: The salt that requests of a scope are sent with. Scopes with one salt share.
            max_told_tokens: How many tokens' blocks are remembered of a replica's events.
        """
        self._rooms = dict(rooms)
        self._salt_of = salt_of
        self._max_told_tokens = max_told_tokens
        self._learned: dict[ReplicaName, int] = {}
        self._losses: Counter[ReplicaName] = Counter()
        self._replicas: dict[ReplicaName, _Replica] = {}
        self._moment = 0

    @property
    def moment(self) -> int:
        """Now, counted in what has been learned; see `held_tokens`."""
        return self._moment

    def region(self, scope: KvScope) -> Region:
        """Return where requests of a scope meet. Costs what making the salt costs."""
        adapter = None if scope.adapter is None else scope.adapter.name
        return Region(adapter, self._salt_of(scope))

    def adapter_of(self, model: str) -> str | None:
        """Return by which adapter a model's prefixes are kept apart from those of others.

        vLLM names an adapter as the model that requests ask for, and its base model not at all.
        Where replicas send events, a name that none of them has as an adapter is the base model's.
        """
        told = [known.told for known in self._replicas.values() if known.told.tokens]
        if told and not any(model in one.adapters for one in told):
            return None
        return model

    def held_tokens(
        self, replica: ReplicaName, region: Region, prompt: Tokens, *, as_of: int | None = None
    ) -> int:
        """Return how many of a prompt's tokens a replica need not compute, as far as is known.

        Never all of them: a model must compute at least the last to go on.

        Args:
            replica: Who would compute it.
            region: Where the prompt is met.
            prompt: Its tokens.
            as_of: A `moment` that was: what was learned to be held since does not count. So it can
                be said what was to be expected of a prompt that was sent before its tokens were
                known. What was forgotten since is not remembered.
        """
        known = self._replicas.get(replica)
        if known is None:
            return 0
        prompt = Tokens(prompt[:-TOKEN_BYTES])
        sent = known.sent.matched_tokens(region, prompt, as_of)
        return max(sent, known.told_tokens(region, prompt, as_of))

    def believed_tokens(self, replica: ReplicaName) -> int:
        """Return how many tokens of prompts a replica is believed to hold, whosever they are."""
        known = self._replicas.get(replica)
        return 0 if known is None else max(known.sent.tokens, known.told_tokens_in_all)

    def losses(self, replica: ReplicaName) -> int:
        """Return how often all that a replica held was forgotten."""
        return self._losses[replica]

    def sent(self, replica: ReplicaName, region: Region, tokens: Tokens) -> None:
        """Note what a replica has computed for us.

        To be called when the first token of the answer has come, with the prompt, and again at its
        end, with the tokens of the answer behind, where those are known: they can be met by the
        next turn. Not before: a prompt that is still in a queue is held by nobody.
        """
        self._of(replica).sent.add(region, tokens, self._next_moment())

    def reported(
        self,
        replica: ReplicaName,
        region: Region,
        prompt: Tokens,
        *,
        foretold_tokens: int,
        cached_tokens: int,
    ) -> None:
        """Learn from what a replica reports on a prompt that it was sent and has computed.

        What stood behind the first block that was not there is forgotten; the prompt itself is
        there now. An assumed room follows.

        Args:
            replica: Who reports.
            region: Where the prompt is met.
            prompt: Its tokens.
            foretold_tokens: What `held_tokens` said when the replica was chosen.
            cached_tokens: As reported, whatever it is.
        """
        known = self._of(replica)
        if cached_tokens + known.room.block_tokens <= foretold_tokens:
            known.sent.cut(region, prompt, max(0, cached_tokens))
        if cached_tokens + TELLING_TOKENS <= foretold_tokens:
            self._assume(known, known.sent.max_tokens * SHRINK)
        elif cached_tokens >= foretold_tokens + TELLING_TOKENS and known.sent.is_full:
            self._assume(known, known.sent.max_tokens * GROW)
        known.sent.add(region, prompt, self._next_moment())
        if foretold_tokens >= TELLING_TOKENS:
            self._count(replica, known, is_miss=cached_tokens < foretold_tokens * MISS_SHARE)

    def told(self, replica: ReplicaName, event: KvEvent) -> None:
        """Take a replica's KV event. Costs 2 us a block; a removal 0.3 us for each before it."""
        known = self._of(replica)
        match event:
            case BlocksStored():
                known.told.store(event, self._next_moment())
            case BlocksRemoved():
                self._removed(known, event)
            case AllCleared():
                self._empty(replica, is_believed=known.is_believed)
            case Gap():
                known.told.clear()
            case Resync():
                known.told.clear()
                known.is_believed = known.has_begun_anew = True
            case _:
                assert_never(event)

    def running(self, replica: ReplicaName, run: str, room: Room | None = None) -> None:
        """Take what a replica says of itself.

        Args:
            replica: Who says so.
            run: Names the run of its process, such as its start time. Another one than before has
                empty memory, but for what events have told since they began anew: they are faster.
            room: Its memory, if it tells. What was sent there is forgotten if that is news.
        """
        known = self._of(replica)
        if known.run not in {None, run}:
            told = known.told if known.has_begun_anew else None
            self._empty(replica, is_believed=True)
            known = self._of(replica)
            known.told = known.told if told is None else told
        if room is not None and room != known.room:
            self._rooms[replica] = known.room = room
            known.sent = SentPrefixes(room.tokens, room.block_tokens)
        known.run, known.has_begun_anew = run, False

    def forget(self, replica: ReplicaName) -> None:
        """Forget what a replica held: it was down, or has been emptied. Its room stays known."""
        known = self._replicas.pop(replica, None)
        if known is not None:
            self._learned[replica] = known.sent.max_tokens
            self._losses[replica] += 1

    def _empty(self, replica: ReplicaName, *, is_believed: bool) -> None:
        run = self._of(replica).run
        self.forget(replica)
        anew = self._of(replica)
        anew.run, anew.is_believed = run, is_believed

    def _next_moment(self) -> int:
        self._moment += 1
        return self._moment

    def _of(self, replica: ReplicaName) -> _Replica:
        known = self._replicas.get(replica)
        if known is None:
            room = self._rooms.get(replica, Room())
            tokens = self._learned.get(replica, room.tokens)
            known = self._replicas[replica] = _Replica(room, tokens, self._max_told_tokens)
        return known

    @staticmethod
    def _assume(known: _Replica, tokens: float) -> None:
        room = known.room
        if not room.is_known:
            least, most = room.tokens * LEAST_SHARE, room.tokens * MOST_SHARE
            known.sent.resize(int(min(max(tokens, least), most)))

    def _count(self, replica: ReplicaName, known: _Replica, *, is_miss: bool) -> None:
        known.misses = known.misses + 1 if is_miss else 0
        if known.misses == MISSES_IN_A_ROW:
            self._empty(replica, is_believed=not known.told.tokens)

    @staticmethod
    def _removed(known: _Replica, event: BlocksRemoved) -> None:
        for block in event.blocks:
            way = known.told.way(block)
            known.told.remove(block, event.medium)
            if way is not None and not known.told.holds(block):
                known.sent.cut(way.region, way.tokens, way.before_tokens)
