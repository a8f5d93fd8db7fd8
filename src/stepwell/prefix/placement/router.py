"""Which replica of a model server gets a prompt."""

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from stepwell.core.kv import TOKEN_BYTES, KvScope, Tokens
from stepwell.core.names import CacheKey
from stepwell.prefix.placement.heat import Heat
from stepwell.prefix.placement.recent import Recent
from stepwell.prefix.placement.references import Reference, References
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.rendezvous import digest, ranked
from stepwell.prefix.placement.replicas import (
    PREFILL_TOKENS_PER_REQUEST,
    Condition,
    ReplicaName,
    ReplicaState,
)
from stepwell.prefix.placement.residency import Residency

_PLACE_BYTES = 128
"""Tokens before the place where a prompt leaves what is known, enough to tell places apart."""


@dataclass(frozen=True, slots=True)
class Session:
    """The conversation a request belongs to: it should stay where it was."""

    name: bytes
    """Unique beyond its tenant."""


@dataclass(frozen=True, slots=True)
class Near:
    """The entry of a question that was found to be like this one, but not like enough."""

    key: CacheKey


class Why(StrEnum):
    """What decided."""

    ONLY = "only"
    """No other is ready."""
    HELD = "held"
    """It holds most of the prompt, for what it has to do."""
    SPREAD = "spread"
    """It is to hold, from now on, a beginning that is too much for those who do."""
    HOME = "home"
    """Nobody holds the prompt; those that begin like it are at home there."""
    LOAD = "load"
    """Others would come first, but have too much to do."""
    SESSION = "session"
    """The conversation was there, and no other is clearly better."""
    NEAR = "near"
    """A like question was there, and no other is clearly better."""
    WARM_UP = "warm-up"
    """It was to read a prompt that is to be held there: nothing was to choose."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a prompt goes."""

    replica: ReplicaName
    why: Why
    region: Region
    """For `Residency.sent` and `Residency.reported`."""
    predicted_tokens: int = 0
    """How many of the prompt's tokens it probably need not compute."""
    reference_tokens: int = 0
    """How many of those only the entry of the like question knew of. Nearly always 0."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How to weigh. The defaults are measured: design/0009."""

    beta: float = 0.3
    """What a load of the fleet's mean above the mean costs, in shares of the prompt."""
    margin: float = 0.05
    """Scores as near as this are equal: a conversation stays, or the prompt's tokens choose."""
    balance: float = 0.1
    """What having been given as much again as others lately costs, in shares of the prompt."""
    overload: float = 2.5
    """Times what the others have to do, what being held saves, and one request: with more load than
    that, it does not count what a replica holds."""
    home_share: float = 0.1
    """What being at home is worth to a prompt that nobody holds, in shares of the prompt."""
    head_tokens: int = 256
    """Prompts that share so many tokens are at home in the same place."""
    cold_share: float = 0.1
    """Of a prompt, what must be held anywhere for that to count."""
    seed: bytes = b""
    """Mixed into the homes; the same for gateways that are to agree."""
    max_sessions: int = 16 * 1024


class Router:
    """Chooses replicas by what they hold and what they have to do.

    A replica's score is the share of the prompt it holds, less ``beta`` times its load above the
    mean as a share of the mean (vLLM production-stack, pull request 1035). Around that:

    * A prompt that nobody holds goes home, unless that has much more to do than others: rendezvous
      hashing of its first tokens, so that several gateways agree without talking.
    * A beginning that makes up more of the traffic than one replica's part is credited to as many
      replicas as that takes, before they hold it.
    * A conversation, or the place of a like question, wins where no other is clearly better.

    The same calls give the same choices. A choice between four replicas, one of which holds a
    prompt of 1,000 tokens, costs 25 us, each further replica 4 us; 32,000 tokens, 60 us. One event
    loop; not thread-safe.
    """

    def __init__(
        self,
        residency: Residency,
        rules: Rules = Rules(),
        references: References | None = None,
    ) -> None:
        self._residency = residency
        self._rules = rules
        self._references = References() if references is None else references
        self._heat = Heat()
        self._recent = Recent()
        self._strangers = 0
        self._sessions: OrderedDict[bytes, ReplicaName] = OrderedDict()

    def choose(
        self,
        prompt: Tokens,
        scope: KvScope,
        replicas: Sequence[ReplicaState],
        prefer: Session | Near | None = None,
    ) -> Choice | None:
        """Return where a prompt goes; ``None`` if no replica is ready.

        Counts as one request for what is hot, and as the conversation's last place.

        Args:
            prompt: Its tokens; empty where they are not known.
            scope: What else its KV depends on.
            replicas: All there are, in any order.
            prefer: A place that would be welcome.
        """
        loads = {one.name: one.load for one in replicas if one.condition is Condition.READY}
        if not loads:
            return None
        region = self._residency.region(scope)
        held = {name: self._residency.held_tokens(name, region, prompt) for name in loads}
        case = _Case(prompt, region, loads, held, self._recent.above_mean(loads))
        wish = self._wish(case, prefer)
        if wish.credit:
            case.credits[wish.replica] = max(held[wish.replica], wish.credit)
        name, why = self._decide(case, wish)
        if isinstance(prefer, Session):
            self._settle(prefer, name)
        credit = wish.credit if name == wish.replica else 0
        return self._foretold(Choice(name, why, region), prompt, held[name], credit)

    def choose_unread(
        self,
        scope: KvScope,
        replicas: Sequence[ReplicaState],
        session: Session | None = None,
    ) -> Choice | None:
        """Return where a prompt goes whose tokens are not known yet; `foretell` when they are.

        ``None`` unless exactly one replica is ready: else there is something to choose. Counts as
        the conversation's last place.

        Args:
            scope: What else its KV depends on.
            replicas: All there are, in any order.
            session: The conversation it belongs to.
        """
        ready = [one.name for one in replicas if one.condition is Condition.READY]
        if len(ready) != 1:
            return None
        if session is not None:
            self._settle(session, ready[0])
        return Choice(ready[0], Why.ONLY, self._residency.region(scope))

    def foretell(
        self, choice: Choice, prompt: Tokens, *, as_of: int, near: Near | None = None
    ) -> Choice:
        """Return a choice of `choose_unread` with what it foretells. Once for each.

        Args:
            choice: Where the prompt went.
            prompt: Its tokens.
            as_of: The `Residency.moment` when it went.
            near: A like question.
        """
        held = self._residency.held_tokens(choice.replica, choice.region, prompt, as_of=as_of)
        reference = None if near is None else self._references.find(near.key)
        credit = 0
        if reference is not None and reference.replica == choice.replica:
            credit = _credit(reference, choice.region, prompt)
        return self._foretold(choice, prompt, held, credit)

    def remember(self, key: CacheKey, choice: Choice, prompt: Tokens) -> None:
        """Keep where the prompt of a stored answer was computed, for `Near`."""
        self._references.keep(key, Reference(choice.replica, choice.region, prompt))

    def _foretold(self, choice: Choice, prompt: Tokens, held: int, credit: int) -> Choice:
        """Return a choice with its tokens, of which ``credit`` are held as a reference has it."""
        known = max(held, credit)
        prefill_tokens = max(1, len(prompt) // TOKEN_BYTES) - known
        self._recent.note(choice.replica, 1.0 + prefill_tokens / PREFILL_TOKENS_PER_REQUEST)
        return replace(choice, predicted_tokens=known, reference_tokens=known - held)

    def _wish(self, case: "_Case", prefer: Session | Near | None) -> "_Wish":
        match prefer:
            case Session(name):
                replica = self._sessions.get(name)
                wish = None if replica is None else _Wish(replica, Why.SESSION)
            case Near(key):
                reference = self._references.find(key)
                wish = None if reference is None else _near(case, reference)
            case None:
                wish = None
        return _NO_WISH if wish is None or wish.replica not in case.loads else wish

    def _settle(self, session: Session, replica: ReplicaName) -> None:
        self._sessions[session.name] = replica
        self._sessions.move_to_end(session.name)
        if len(self._sessions) > self._rules.max_sessions:
            self._sessions.popitem(last=False)

    def _decide(self, case: "_Case", wish: "_Wish") -> tuple[ReplicaName, Why]:
        if len(case.loads) == 1:
            return next(iter(case.loads)), Why.ONLY
        if case.best < self._rules.cold_share * case.prompt_tokens or not case.best:
            return self._go_home(case, wish)
        return self._weigh(case, wish)

    def _go_home(self, case: "_Case", wish: "_Wish") -> tuple[ReplicaName, Why]:
        """Send a prompt that nobody holds where those go that begin like it."""
        self._strangers += not case.prompt
        homes = ranked(self._key(case), case.loads)
        scores = {name: -self._penalty(case, name) for name in homes}
        scores[homes[0]] += self._rules.home_share
        if wish.replica in scores:  # Where no tokens are known, the conversation tells most.
            scores[wish.replica] += self._rules.home_share if case.prompt else 1.0
        if self._is_good(scores, wish):
            return wish.replica, wish.why
        name = max(homes, key=scores.__getitem__)
        return name, Why.HOME if name == homes[0] else Why.LOAD

    def _weigh(self, case: "_Case", wish: "_Wish") -> tuple[ReplicaName, Why]:
        """Send a prompt where most of it is held, for what there is to do."""
        self._credit_carriers(case)
        scores = {name: self._score(case, name) for name in case.loads}
        if self._is_good(scores, wish):
            return wish.replica, wish.why
        top = max(scores.values())
        tied = [name for name, score in scores.items() if score >= top - self._rules.margin]
        name = tied[0] if len(tied) == 1 else ranked(self._key(case), tied)[0]
        if case.held[name] == max(case.held.values()):
            return name, Why.HELD
        return name, Why.SPREAD if case.credits[name] > case.held[name] else Why.LOAD

    def _score(self, case: "_Case", name: ReplicaName) -> float:
        """Return what a replica is worth. One with far too much to do counts as holding nothing.

        In a small fleet the penalty alone could not say so: of two replicas, none is ever more than
        the mean above the mean.
        """
        others = case.mean_load + (case.mean_load - case.loads[name]) / (len(case.loads) - 1)
        saved = case.credits[name] / PREFILL_TOKENS_PER_REQUEST
        is_overloaded = case.loads[name] > self._rules.overload * (1.0 + others + saved)
        share = 0.0 if is_overloaded else case.credits[name] / case.prompt_tokens
        return share - self._penalty(case, name)

    def _penalty(self, case: "_Case", name: ReplicaName) -> float:
        above = (case.loads[name] - case.mean_load) / max(1.0, case.mean_load)
        return self._rules.beta * above + self._rules.balance * case.recent[name]

    def _is_good(self, scores: Mapping[ReplicaName, float], wish: "_Wish") -> bool:
        """Return whether nobody is clearly better than the place that would be welcome."""
        if wish.replica not in scores:
            return False
        return scores[wish.replica] >= max(scores.values()) - self._rules.margin

    def _credit_carriers(self, case: "_Case") -> None:
        """Credit a hot beginning to as many replicas as its share of the traffic takes."""
        end = case.best * TOKEN_BYTES
        last = case.prompt[max(0, end - _PLACE_BYTES) : end]
        share = self._heat.note((case.region, case.best, last))
        carriers = math.ceil(share * len(case.loads))
        if carriers > 1:
            key = digest(self._rules.seed + case.region.seed(), last)
            for name in ranked(key, case.loads)[:carriers]:
                case.credits[name] = max(case.credits[name], case.best)

    def _key(self, case: "_Case") -> bytes:
        """Return what the homes of a prompt follow from: the first tokens that are news."""
        start = case.best * TOKEN_BYTES
        head = case.prompt[start : start + self._rules.head_tokens * TOKEN_BYTES]
        head = head or self._strangers.to_bytes(8, "little")
        return digest(self._rules.seed + case.region.seed(), head)


class _Case:
    """One choice to make."""

    __slots__ = (
        "credits",
        "held",
        "loads",
        "mean_load",
        "prompt",
        "prompt_tokens",
        "recent",
        "region",
    )

    def __init__(
        self,
        prompt: Tokens,
        region: Region,
        loads: Mapping[ReplicaName, float],
        held: Mapping[ReplicaName, int],
        recent: Mapping[ReplicaName, float],
    ) -> None:
        self.prompt = prompt
        self.prompt_tokens = max(1, len(prompt) // TOKEN_BYTES)
        self.region = region
        self.loads = loads
        self.mean_load = sum(loads.values()) / len(loads)
        self.held = held
        self.recent = recent
        self.credits = dict(held)
        """What each is taken to hold."""

    @property
    def best(self) -> int:
        return max(self.credits.values())


@dataclass(frozen=True, slots=True)
class _Wish:
    """A place that would be welcome."""

    replica: ReplicaName
    why: Why
    credit: int = 0
    """Tokens it holds as far as only the reference knows."""


_NO_WISH = _Wish(ReplicaName(""), Why.ONLY)


def _near(case: _Case, reference: Reference) -> _Wish:
    credit = _credit(reference, case.region, case.prompt)
    return _Wish(reference.replica, Why.NEAR, credit)


def _credit(reference: Reference, region: Region, prompt: Tokens) -> int:
    """Return how many of a prompt's tokens the place of a like question has computed."""
    return reference.shared_tokens(region, Tokens(prompt[:-TOKEN_BYTES]))
