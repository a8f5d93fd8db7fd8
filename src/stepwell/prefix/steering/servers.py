"""The replicas of an upstream: which there are, how they are, and any one of them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stepwell.core.clock import Clock
from stepwell.core.errors import UpstreamUnreachable
from stepwell.core.ports import Headers, Reply, Upstream
from stepwell.prefix.placement.replicas import Condition, Loads, ReplicaName, ReplicaState
from stepwell.prefix.steering.health import Health

NOT_READY = frozenset({502, 503})
"""What a server says that is starting, or a proxy whose server is gone."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a server; see `Upstream.forward`."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Replica:
    """One server of several that have the same model."""

    name: ReplicaName
    upstream: Upstream
    """Where its OpenAI operations are."""
    root: Upstream
    """Where its own routes are."""
    health: Health = field(default_factory=Health)


class Closes(Protocol):
    """Something that goes on behind calls until it is closed."""

    async def aclose(self) -> None:
        """Stop."""
        ...


class Replicas:
    """All replicas of an upstream. One event loop; not thread-safe."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[Replica],
        loads: Loads,
        *,
        clock: Clock,
        is_draining: Callable[[ReplicaName], bool],
        on_lost: Callable[[ReplicaName], None],
        hear: Callable[[], Awaitable[object]],
    ) -> None:
        """Look after ``replicas``.

        Args:
            name: Of the upstream, in the settings.
            replicas: At least one.
            loads: What is in flight at each.
            clock: The time.
            is_draining: Whether the operator wants a replica to have no new work.
            on_lost: Hears of a replica that cannot be reached, and may thus be another one when it
                is there again.
            hear: Hears what operators have said meanwhile, here or elsewhere. Must not raise.
        """
        self._name = name
        self._replicas: Mapping[ReplicaName, Replica] = {one.name: one for one in replicas}
        self._loads = loads
        self._clock = clock
        self._is_draining = is_draining
        self._on_lost = on_lost
        self._hear = hear

    def __getitem__(self, name: ReplicaName) -> Replica:
        return self._replicas[name]

    def condition(self, name: ReplicaName) -> Condition:
        """Return whether a replica may be given work."""
        health = self._replicas[name].health
        return health.condition(self._clock.monotonic(), draining=self._is_draining(name))

    async def hear(self) -> None:
        """Hear what operators want now. Costs a microsecond while that is nothing new."""
        await self._hear()

    @property
    def names(self) -> Sequence[ReplicaName]:
        """All replicas, in the order of the settings."""
        return tuple(self._replicas)

    def is_draining(self, name: ReplicaName) -> bool:
        """Return whether the operator wants a replica to have no new work."""
        return self._is_draining(name)

    def down_seconds(self, name: ReplicaName) -> float:
        """Return for how long a replica is left out yet; 0 if it is not down."""
        return max(0.0, self._replicas[name].health.out_until - self._clock.monotonic())

    def states(self, *, without: frozenset[ReplicaName] = frozenset()) -> Sequence[ReplicaState]:
        """Return how each replica is, but for some that were tried already.

        Where none is ready, all count as ready: what is believed of them may be wrong, and a
        request that fails is worse than one that is tried in vain.
        """
        states = [
            ReplicaState(name, self._loads.of(name), self.condition(name))
            for name in self._replicas
            if name not in without
        ]
        if any(state.condition is Condition.READY for state in states):
            return states
        return [ReplicaState(state.name, state.load) for state in states]

    def tried(self, replica: Replica) -> None:
        """Note that a call goes to a replica."""
        replica.health.tried(self._clock.monotonic())

    def failed(self, replica: Replica) -> None:
        """Note that a replica says that it is not ready."""
        replica.health.failed(self._clock.monotonic())

    def lost(self, replica: Replica) -> None:
        """Note that a replica cannot be reached."""
        self.failed(replica)
        self._on_lost(replica.name)

    async def forward(self, request: Request) -> Reply:
        """Send a request to the replica that has least to do, or to the next that can be reached.

        Raises:
            UpstreamError: As `Upstream.forward`.
        """
        await self.hear()
        for replica in self._by_load():
            self.tried(replica)
            try:
                reply = await _send(request, replica.upstream)
            except UpstreamUnreachable:
                self.lost(replica)
                continue
            if reply.status not in NOT_READY:
                replica.health.worked()
            return reply
        raise UpstreamUnreachable(f"{self._name} cannot be reached", upstream=self._name)

    async def ask_any(self, request: Request) -> Reply:
        """Send a request to the own routes of any replica, those on trial last.

        That it answers there says nothing of its answers elsewhere.

        Raises:
            UpstreamError: As `Upstream.forward`.
        """
        for replica in sorted(self._by_load(), key=lambda one: one.health.is_on_trial):
            try:
                return await _send(request, replica.root)
            except UpstreamUnreachable:
                self.lost(replica)
        raise UpstreamUnreachable(f"{self._name} cannot be reached", upstream=self._name)

    def _by_load(self) -> list[Replica]:
        states = [state for state in self.states() if state.condition is Condition.READY]
        return [self._replicas[one.name] for one in sorted(states, key=lambda one: one.load)]

    async def aclose(self) -> None:
        """Close all connections."""
        for replica in self._replicas.values():
            await replica.upstream.aclose()
            await replica.root.aclose()


class Roots:
    """The own routes of whichever replica can be reached."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """Send a request; see `Upstream.forward`."""
        return await self._replicas.ask_any(Request(method, path, query, headers, body))


async def _send(request: Request, server: Upstream) -> Reply:
    return await server.forward(
        request.method, request.path, request.query, request.headers, request.body
    )
