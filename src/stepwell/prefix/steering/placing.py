"""Chooses a replica for a call, and tells what came of it."""

from collections.abc import Sequence

from stepwell.core.events import CachedTokensCompared, Degraded, Placed
from stepwell.core.kv import Adapter, KvScope
from stepwell.core.names import Namespace
from stepwell.core.ports import Call, EventSink
from stepwell.prefix.placement.foretold import FoundAgain, Remark
from stepwell.prefix.placement.replicas import ReplicaName, ReplicaState
from stepwell.prefix.placement.router import Choice, Near, Session, Why
from stepwell.prefix.steering.hints import NearHints
from stepwell.prefix.steering.placement import Comparison, Knowledge, Placement, Unread
from stepwell.prefix.steering.prompts import Asked, Prompt


class Placing:
    """Places the calls of one upstream. One event loop; not thread-safe.

    Attributes:
        known: What has been learned of its replicas so far.
    """

    def __init__(
        self, upstream: str, known: Knowledge, *, hints: NearHints, events: EventSink
    ) -> None:
        self._upstream = upstream
        self.known = known
        self._hints = hints
        self._events = events

    def near(self, call: Call) -> Near | None:
        """Return the question that this one is like, if the semantic layer has just said so."""
        key = self._hints.take(call.key)
        return None if key is None else Near(key)

    def place(
        self, asked: Asked, prompt: Prompt, states: Sequence[ReplicaState], near: Near | None
    ) -> Placement | None:
        """Return where a call is to go; ``None`` if no replica is ready."""
        prefer = _session_of(asked) if near is None else near
        choice = self.known.router.choose(prompt.tokens, self._scope(asked), states, prefer)
        return None if choice is None else self._begin(asked, choice, prompt)

    def place_unread(
        self, asked: Asked, states: Sequence[ReplicaState], near: Near | None
    ) -> Placement | None:
        """Return where a call is to go whose prompt has not been read, if it can go nowhere else.

        ``None`` unless exactly one replica is ready. The placement is to be told the prompt.
        """
        session = _session_of(asked) if near is None else None
        choice = self.known.router.choose_unread(self._scope(asked), states, session)
        if choice is None:
            return None
        return self._begin(asked, choice, Unread(near, self.known.residency.moment))

    def place_on(self, replica: ReplicaName, asked: Asked, prompt: Prompt) -> Placement:
        """Place a call on a replica that is chosen already."""
        residency = self.known.residency
        region = residency.region(self._scope(asked))
        held_tokens = residency.held_tokens(replica, region, prompt.tokens)
        return self._begin(asked, Choice(replica, Why.WARM_UP, region, held_tokens), prompt)

    def _scope(self, asked: Asked) -> KvScope:
        adapter = self.known.residency.adapter_of(asked.model)
        return scope_of(adapter, asked.call.namespace)

    def _begin(self, asked: Asked, choice: Choice, prompt: Prompt | Unread) -> Placement:
        self._events.emit(Placed(self._upstream, choice.replica, choice.why))
        return Placement(asked.call.key, choice, prompt, self.known, self._learn_from)

    def _learn_from(self, replica: ReplicaName, compared: Comparison) -> None:
        self._events.emit(
            CachedTokensCompared(
                self._upstream,
                replica,
                compared.prompt_tokens,
                compared.foretold_tokens,
                compared.cached_tokens,
            )
        )
        remark = self.known.foretold.note(
            replica,
            prompt_tokens=compared.prompt_tokens,
            foretold_tokens=compared.foretold_tokens,
            reported_tokens=compared.cached_tokens,
        )
        if remark is not None and not isinstance(remark, FoundAgain):
            self._say(remark)

    def _say(self, remark: Remark) -> None:
        self._events.emit(Degraded(f"prefix.{self._upstream}", str(remark)))


def _session_of(asked: Asked) -> Session | None:
    session = asked.session
    return None if session is None else Session(session)


def scope_of(adapter: str | None, tenant: Namespace | None) -> KvScope:
    """Return what else the KV of a prompt depends on, as far as a gateway can tell."""
    return KvScope(
        model="",
        tokenizer="",
        dtype="",
        rope="",
        adapter=None if adapter is None else Adapter(adapter, ""),
        tenant=tenant,
    )
