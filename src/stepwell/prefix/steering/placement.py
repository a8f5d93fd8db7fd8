"""One call at its replica, and what is learned from it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from stepwell.core.entry import Usage
from stepwell.core.kv import TOKEN_BYTES
from stepwell.core.names import CacheKey
from stepwell.core.steering import Cancel
from stepwell.prefix.placement.foretold import Foretold
from stepwell.prefix.placement.replicas import Loads, ReplicaName, Work
from stepwell.prefix.placement.residency import Residency
from stepwell.prefix.placement.router import Choice, Near, Router
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


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands for a prompt whose tokens are not known yet, of a call that is on its way."""

    near: Near | None
    """A like question."""
    moment: int
    """The `Residency.moment` when it was sent: what came later was not to be foretold."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was foretold of a prompt against what its replica reports, in the replica's tokens."""

    prompt_tokens: int
    foretold_tokens: int
    """Without what only a reference promised."""
    cached_tokens: int


Learn = Callable[[ReplicaName, Comparison], None]


class Placement:
    """One call at its replica, from its start to its end.

    Its prompt may become known at any time: before it is sent, or while it is answered, or later.
    What it teaches is learned as soon as that is so.

    One event loop; not thread-safe.

    Attributes:
        choice: Where it went; until its prompt is known, nothing is foretold.
    """

    def __init__(
        self,
        key: CacheKey | None,
        choice: Choice,
        prompt: Prompt | Unread,
        known: Knowledge,
        learn: Learn,
    ) -> None:
        """Count the call as the replica's work.

        Args:
            key: Of the question it puts.
            choice: Where it goes.
            prompt: What it begins with.
            known: What to learn for.
            learn: Hears what was foretold against what is reported, once at most.
        """
        self.choice = choice
        self._key = key
        self._prompt = prompt
        self._known = known
        self._learn = learn
        self._cancel_reading: Cancel | None = None
        self._has_begun = False
        self._is_over = False
        self._usage: Usage | None = None
        self._work = self._begin_work()

    @property
    def noted(self) -> str:
        """What was foretold, in a few words."""
        choice, prompt = self.choice, self._prompt
        if isinstance(prompt, Unread):
            return f"prefix: tokens not named yet, on {choice.replica} ({choice.why})"
        about = "" if prompt.is_exact else "about "
        told = f"{about}{choice.predicted_tokens} of {_count(prompt)} tokens foretold"
        if choice.reference_tokens:
            told += f", {choice.reference_tokens} by a like question"
        return f"prefix: {told} on {choice.replica} ({choice.why})"

    def is_read_beside(self, cancel: Cancel) -> None:
        """Note that its prompt is being read; ``cancel`` ends that.

        It is ended with a call of which nothing has come. Else it goes on after the call's end,
        because what was computed is held.
        """
        self._cancel_reading = cancel

    def read(self, prompt: Prompt) -> None:
        """Take the prompt, which was not known when the call was sent. The first call counts."""
        if isinstance(self._prompt, Prompt):
            return
        unread, self._prompt = self._prompt, prompt
        self.choice = self._known.router.foretell(
            self.choice, prompt.tokens, as_of=unread.moment, near=unread.near
        )
        if not self._is_over:
            self._work.ended()
            self._work = self._begin_work()
        if self._has_begun:
            self._work.prefilled()
            self._note_held(prompt)
        self._compare(prompt)

    def began(self) -> None:
        """Note that the first of the answer has come: the prompt has been computed."""
        self._has_begun = True
        self._work.prefilled()
        if isinstance(self._prompt, Prompt):
            self._note_held(self._prompt)

    def ended(self, usage: Usage | None) -> None:
        """Note that it is over, however it ended. The first call counts.

        Args:
            usage: What the server reports of a whole answer.
        """
        if self._is_over:
            return
        self._is_over = True
        self._usage = usage
        self._work.ended()
        if isinstance(self._prompt, Prompt):
            self._compare(self._prompt)
        elif self._cancel_reading is not None and not self._has_begun:
            self._cancel_reading()

    def _begin_work(self) -> Work:
        missing = 0
        if isinstance(self._prompt, Prompt):
            missing = _count(self._prompt) - self.choice.predicted_tokens
        return self._known.loads.begin(self.choice.replica, missing)

    def _note_held(self, prompt: Prompt) -> None:
        choice = self.choice
        self._known.residency.sent(choice.replica, choice.region, prompt.tokens)
        if self._key is not None:
            self._known.router.remember(self._key, choice, prompt.tokens)

    def _compare(self, prompt: Prompt) -> None:
        """Compare what was foretold with what is reported, if anything is."""
        usage = self._usage
        if usage is None or usage.cached_tokens is None or not usage.prompt_tokens:
            return
        choice, tokens = self.choice, _count(prompt)
        certain = choice.predicted_tokens - choice.reference_tokens
        self._known.residency.reported(
            choice.replica,
            choice.region,
            prompt.tokens,
            foretold_tokens=certain,
            cached_tokens=usage.cached_tokens * tokens // usage.prompt_tokens,
        )
        # What stands for tokens here, as the server would count it.
        foretold = certain * usage.prompt_tokens // max(1, tokens)
        compared = Comparison(usage.prompt_tokens, foretold, usage.cached_tokens)
        self._learn(choice.replica, compared)


def _count(prompt: Prompt) -> int:
    return len(prompt.tokens) // TOKEN_BYTES
