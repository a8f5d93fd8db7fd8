"""Chooses a replica for a call, and learns from what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stepwell.core.entry import Usage
from stepwell.core.events import CachedTokensCompared, Degraded, Placed
from stepwell.core.kv import TOKEN_BYTES, Adapter, KvScope
from stepwell.core.names import CacheKey, Namespace
from stepwell.core.ports import Call, EventSink
from stepwell.prefix.placement.foretold import Foretold, FoundAgain, Remark
from stepwell.prefix.placement.replicas import Loads, ReplicaName, ReplicaState, Work
from stepwell.prefix.placement.residency import Residency
from stepwell.prefix.placement.router import Choice, Near, Router, Session, Why
from stepwell.prefix.steering.hints import NearHints
from stepwell.prefix.steering.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of the replicas of one upstream. Shared by all its calls."""

    residency: Residency
    router: Router
    loads: Loads = field(default_factory=Loads)
    foretold: Foretold = field(default_factory=Foretold)

    def forget(self, replica: ReplicaName) -> None:
        """Forget what a replica held: it cannot be reached, so it may have been restarted."""
        self.residency.forget(replica)
        self.foretold.forget(replica)


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

    def near(self, call: Call) -> CacheKey | None:
        """Return the question that this one is like, if the semantic layer has just said so."""
        return self._hints.take(call.key)

    def place(
        self,
        call: Call,
        prompt: Prompt,
        states: Sequence[ReplicaState],
        near: CacheKey | None,
    ) -> "Placement | None":
        """Return where ``call`` is to go; ``None`` if no replica is ready."""
        prefer: Near | Session | None = None
        if near is not None:
            prefer = Near(near)
        elif prompt.session is not None:
            prefer = Session(prompt.session)
        scope = scope_of(self.known.residency.adapter_of(prompt.model), call.namespace)
        choice = self.known.router.choose(prompt.tokens, scope, states, prefer)
        return None if choice is None else self._begin(call, prompt, choice)

    def place_on(self, replica: ReplicaName, call: Call, prompt: Prompt) -> "Placement":
        """Place ``call`` on a replica that is chosen already."""
        residency = self.known.residency
        region = residency.region(scope_of(residency.adapter_of(prompt.model), call.namespace))
        held_tokens = residency.held_tokens(replica, region, prompt.tokens)
        return self._begin(call, prompt, Choice(replica, Why.WARM_UP, region, held_tokens))

    def _begin(self, call: Call, prompt: Prompt, choice: Choice) -> "Placement":
        self._events.emit(Placed(self._upstream, choice.replica, choice.why))
        missing = len(prompt.tokens) // TOKEN_BYTES - choice.predicted_tokens
        work = self.known.loads.begin(choice.replica, missing)
        return Placement(call.key, prompt, choice, self.known, work, self._learn_from)

    def _learn_from(self, placement: "Placement", prompt_tokens: int, cached_tokens: int) -> None:
        choice = placement.choice
        certain = placement.in_tokens(choice.predicted_tokens - choice.reference_tokens)
        self._events.emit(
            CachedTokensCompared(
                self._upstream, choice.replica, prompt_tokens, certain, cached_tokens
            )
        )
        remark = self.known.foretold.note(
            choice.replica,
            prompt_tokens=prompt_tokens,
            foretold_tokens=certain,
            reported_tokens=cached_tokens,
        )
        if remark is not None and not isinstance(remark, FoundAgain):
            self._say(remark)

    def _say(self, remark: Remark) -> None:
        self._events.emit(Degraded(f"prefix.{self._upstream}", str(remark)))


Learn = Callable[["Placement", int, int], None]


class Placement:
    """One call at its replica, from its start to its end."""

    def __init__(
        self,
        key: CacheKey | None,
        prompt: Prompt,
        choice: Choice,
        known: Knowledge,
        work: Work,
        learn: Learn,
    ) -> None:
        self.choice = choice
        self._key = key
        self._prompt = prompt
        self._known = known
        self._work = work
        self._learn = learn
        self._tokens = len(prompt.tokens) // TOKEN_BYTES
        """Of the prompt, in what stands for tokens here."""
        self._reported_tokens = self._tokens
        """Of the prompt, as the server counts."""

    @property
    def noted(self) -> str:
        """What was foretold, in a few words."""
        choice = self.choice
        about = "" if self._prompt.is_exact else "about "
        told = f"{about}{choice.predicted_tokens} of {self._tokens} tokens foretold"
        if choice.reference_tokens:
            told += f", {choice.reference_tokens} by a like question"
        return f"prefix: {told} on {choice.replica} ({choice.why})"

    def in_tokens(self, counted: int) -> int:
        """Return a number of what stands for tokens here as the server would count it."""
        return counted * self._reported_tokens // max(1, self._tokens)

    def began(self) -> None:
        """Note that the first of the answer has come: the prompt has been computed."""
        self._work.prefilled()
        choice = self.choice
        self._known.residency.sent(choice.replica, choice.region, self._prompt.tokens)
        if self._key is not None:
            self._known.router.remember(self._key, choice, self._prompt.tokens)

    def ended(self, usage: Usage | None) -> None:
        """Note that it is over, however it ended. May be called twice.

        Args:
            usage: What the server reports of a whole answer.
        """
        self._work.ended()
        if usage is None or usage.cached_tokens is None or not usage.prompt_tokens:
            return
        self._reported_tokens = usage.prompt_tokens
        choice = self.choice
        self._known.residency.reported(
            choice.replica,
            choice.region,
            self._prompt.tokens,
            foretold_tokens=choice.predicted_tokens - choice.reference_tokens,
            cached_tokens=usage.cached_tokens * self._tokens // usage.prompt_tokens,
        )
        self._learn(self, usage.prompt_tokens, usage.cached_tokens)


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
