"""A model server of several replicas, or of one whose prefix cache is looked after."""

from collections.abc import AsyncIterator, Sequence

from stepwell.core.errors import UpstreamUnreachable
from stepwell.core.ports import Call, Headers, Reply
from stepwell.core.steering import Hold, ReplicaReport
from stepwell.prefix.placement.replicas import ReplicaName, ReplicaState
from stepwell.prefix.placement.router import Near
from stepwell.prefix.steering.placement import Placement
from stepwell.prefix.steering.placing import Placing
from stepwell.prefix.steering.prompts import Asked, NamedPrompts, Prompt, Prompts, TextPrompts
from stepwell.prefix.steering.reports import report_on
from stepwell.prefix.steering.servers import NOT_READY, Closes, Replicas, Request
from stepwell.prefix.steering.shaping import Shaping, hold_body
from stepwell.wire.tail import Tail

_JSON = ("content-type", "application/json")
_OK = 200
_ANOTHER_MAY = NOT_READY | {429}
"""What need not be so at another replica, such as too much to do."""


class SteeredUpstream:
    """Implements `Upstream` and `SupportsReplicas` over replicas, each an upstream itself.

    A call goes to the replica that probably has most of its prompt's KV and not too much to do. One
    that cannot be reached, or says that it is not ready, costs a try of the next one, as long as
    nothing of a reply has come. Where only one is ready, the call does not wait until a server has
    named the tokens of its prompt: they are asked for beside it.

    Safe for many tasks on one event loop.
    """

    def __init__(
        self,
        name: str,
        identity: str,
        replicas: Replicas,
        placing: Placing,
        *,
        prompts: Prompts,
        shaping: Shaping,
        listeners: Sequence[Closes] = (),
    ) -> None:
        """Put the parts together.

        Args:
            name: Name in the settings; a metric label.
            identity: What makes its answers its own.
            replicas: Where calls can go.
            placing: Chooses among them.
            prompts: Reads what a call begins with.
            shaping: What is added to calls.
            listeners: Hear what replicas tell of themselves; closed with this.
        """
        self._name = name
        self._identity = identity
        self._replicas = replicas
        self._placing = placing
        self._prompts = prompts
        self._shaping = shaping
        self._listeners = listeners

    @property
    def name(self) -> str:
        """Name in the settings; a metric label."""
        return self._name

    @property
    def identity(self) -> str:
        """What makes its answers its own."""
        return self._identity

    async def send(self, call: Call) -> Reply:
        """Send ``call`` where it is best placed, and return when the reply's head is there.

        Raises:
            UpstreamUnreachable: No replica can be reached.
            UpstreamTimeout: No head in time: the replica may be at work, so no other is tried.
            UpstreamBroken: The connection broke after the request was sent; as before.
        """
        await self._replicas.hear()
        near = self._placing.near(call)
        asked = Asked.of(call)
        shaped = self._shaping.apply(call, asked.body)
        choosing = _Choosing(self._placing, self._prompts, asked, near)
        tried: frozenset[ReplicaName] = frozenset()
        while True:
            states = self._replicas.states(without=tried)
            placement = await choosing.among(states)
            if placement is None:
                raise UpstreamUnreachable(f"{self._name} has no replica", upstream=self._name)
            tried |= {placement.choice.replica}
            is_last = len(states) == 1
            try:
                reply = await self._send(placement, shaped)
            except UpstreamUnreachable:
                if is_last:
                    raise
                continue
            if is_last or reply.status not in _ANOTHER_MAY:
                return reply
            await reply.aclose()

    async def send_to(self, replica: str, call: Call) -> Reply:
        """Send ``call`` to one replica, however it is.

        Raises:
            UpstreamError: As `send`; no other replica is tried.
        """
        asked = Asked.of(call)
        prompt = await _read(self._prompts, asked)
        placement = self._placing.place_on(ReplicaName(replica), asked, prompt)
        return await self._send(placement, self._shaping.apply(call, asked.body))

    async def hold_at(self, replica: str, call: Call, hold: Hold) -> Reply:
        """Have one replica read the prompt of ``call`` and hold it.

        Raises:
            UpstreamError: As `send`; no other replica is tried.
        """
        body = Asked.of(call).body
        if not hold.is_public:
            body = self._shaping.shape(call, body)
        root = self._replicas[ReplicaName(replica)].root
        return await root.forward("POST", "hold", "", (_JSON,), hold_body(body, hold))

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """Send any other request to the replica that has least to do.

        Raises:
            UpstreamError: As `send`.
        """
        return await self._replicas.forward(Request(method, path, query, headers, body))

    def reports(self) -> Sequence[ReplicaReport]:
        """Return how each replica is, in the order of the settings."""
        known = self._placing.known
        return [
            report_on(self._name, replica, self._replicas, known)
            for replica in self._replicas.names
        ]

    async def aclose(self) -> None:
        """Close all connections."""
        if isinstance(self._prompts, NamedPrompts):
            await self._prompts.aclose()
        for listener in self._listeners:
            await listener.aclose()
        await self._replicas.aclose()

    async def _send(self, placement: Placement, call: Call) -> "SteeredReply":
        """Return the reply of a call's replica, and note how the replica is."""
        replica = self._replicas[placement.choice.replica]
        self._replicas.tried(replica)
        try:
            reply = await replica.upstream.send(call)
        except UpstreamUnreachable:
            placement.ended(None)
            self._replicas.lost(replica)
            raise
        except BaseException:
            placement.ended(None)
            raise
        if reply.status in NOT_READY:
            self._replicas.failed(replica)
        else:
            replica.health.worked()
        return SteeredReply(reply, placement)


class _Choosing:
    """Places one call, as often as that takes; reads its prompt once, and only where it has to."""

    def __init__(self, placing: Placing, prompts: Prompts, asked: Asked, near: Near | None) -> None:
        self._placing = placing
        self._prompts = prompts
        self._asked = asked
        self._near = near
        self._prompt: Prompt | None = None

    async def among(self, states: Sequence[ReplicaState]) -> Placement | None:
        """Return the next place; ``None`` if no replica is left."""
        if self._prompt is None and (placement := self._only_one(states)) is not None:
            return placement
        if self._prompt is None:
            self._prompt = await _read(self._prompts, self._asked)
        return self._placing.place(self._asked, self._prompt, states, self._near)

    def _only_one(self, states: Sequence[ReplicaState]) -> Placement | None:
        """Return the only place there is, if reading the prompt takes time; read it beside."""
        if isinstance(self._prompts, TextPrompts):
            return None
        placement = self._placing.place_unread(self._asked, states, self._near)
        if placement is not None:
            placement.is_read_beside(self._prompts.read_beside(self._asked, placement.read))
        return placement


async def _read(prompts: Prompts, asked: Asked) -> Prompt:
    match prompts:
        case TextPrompts():
            return prompts.at_once(asked)
        case NamedPrompts():
            return await prompts.read(asked)


class SteeredReply:
    """Implements `Reply` and `SupportsNotes`: tells its placement how the answer goes."""

    __slots__ = ("_is_whole", "_placement", "_reply", "_tail")

    def __init__(self, reply: Reply, placement: Placement) -> None:
        self._reply = reply
        self._placement = placement
        self._tail = Tail()
        self._is_whole = False

    @property
    def status(self) -> int:
        """HTTP status."""
        return self._reply.status

    @property
    def headers(self) -> Headers:
        """End-to-end fields of the reply."""
        return self._reply.headers

    @property
    def noted(self) -> tuple[str, ...]:
        """What was foretold, for the trail."""
        return (self._placement.noted,)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises as the replica's reply does."""
        if self.status != _OK:
            async for chunk in self._reply.chunks():
                yield chunk
            return
        has_begun = False
        async for chunk in self._reply.chunks():
            if not has_begun:
                has_begun = True
                self._placement.began()
            self._tail.feed(chunk)
            yield chunk
        self._is_whole = True

    async def aclose(self) -> None:
        """Release the connection."""
        self._placement.ended(self._tail.usage() if self._is_whole else None)
        await self._reply.aclose()
