"""What an analysis counts."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from stepwell.core.entry import Usage
from stepwell.core.names import LayerName, Level
from stepwell.study.analysis.looks import Looks
from stepwell.study.arm import NotServed, Served
from stepwell.telemetry.prices import Prices

EXACT = "exact only"

MAX_HOURS = 2_000
"""Hours told apart; a log whose times jump about gets one row for the rest."""

OTHER_HOURS = -1


@dataclass(frozen=True, slots=True)
class Cost:
    """What one answer cost, as far as it is known."""

    usage: Usage
    seconds: float
    money: float
    unpriced_tokens: int


def cost_of(usage: Usage, seconds: float, model: str, prices: Prices) -> Cost:
    """Return the cost of an answer of ``model``."""
    price = prices.of(model)
    if price is None:
        return Cost(usage, seconds, 0.0, usage.prompt_tokens + usage.completion_tokens)
    return Cost(usage, seconds, price.of(usage), 0)


@dataclass(slots=True)
class Account:
    """Answers and what they cost."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    money: float = 0.0
    unpriced_tokens: int = 0

    def add(self, cost: Cost) -> None:
        """Take one answer more."""
        self.requests += 1
        self.prompt_tokens += cost.usage.prompt_tokens
        self.completion_tokens += cost.usage.completion_tokens
        self.seconds += cost.seconds
        self.money += cost.money
        self.unpriced_tokens += cost.unpriced_tokens


@dataclass(slots=True)
class CacheFindings:
    """What one cache would have saved."""

    exact: Account = field(default_factory=Account)
    semantic: Account = field(default_factory=Account)
    missed: Counter[str] = field(default_factory=Counter)
    """Requests it would not have answered, by what the semantic layer says."""
    evicted: int = 0

    def add(self, outcome: Served | NotServed, cost: Cost) -> None:
        """Take one outcome."""
        if isinstance(outcome, NotServed):
            self.missed[outcome.why] += 1
        elif outcome.layer is LayerName.EXACT:
            self.exact.add(cost)
        else:
            self.semantic.add(cost)


@dataclass(slots=True)
class PrefixFindings:
    """How much of the prompts engines would not have had to read again."""

    requests: int = 0
    with_shared: int = 0
    """Prompts of which at least a block was known."""
    prompt_bytes: int = 0
    shared_bytes: int = 0
    prompt_tokens: float = 0.0
    shared_tokens: float = 0.0
    """Prompt tokens, in proportion to the bytes."""

    def add(self, prompt_bytes: int, shared_bytes: int, prompt_tokens: int) -> None:
        """Take one prompt."""
        self.requests += 1
        self.with_shared += shared_bytes > 0
        self.prompt_bytes += prompt_bytes
        self.shared_bytes += shared_bytes
        self.prompt_tokens += prompt_tokens
        if prompt_bytes:
            self.shared_tokens += prompt_tokens * shared_bytes / prompt_bytes


@dataclass(slots=True)
class Part:
    """Requests of one class, or one hour."""

    requests: int = 0
    repeats: int = 0
    """Asked before in the very same way, however long ago."""
    hits: dict[str, list[int]] = field(default_factory=dict)
    """Exact and semantic hits by cache."""

    def add(self, name: str, outcome: Served | NotServed) -> None:
        """Take what became of a request in the cache ``name``."""
        hits = self.hits.setdefault(name, [0, 0])
        if isinstance(outcome, Served):
            hits[outcome.layer is LayerName.SEMANTIC] += 1


HISTOGRAM_BINS = 50

_FIRST_DATE = 946_684_800.0
"""The year 2000: no log of language models is older, and no clock of its own runs so long."""


@dataclass(slots=True)
class Lines:
    """What the lines of the log were."""

    read: int = 0
    requests: int = 0
    unusable: Counter[str] = field(default_factory=Counter)
    gateway: Counter[str] = field(default_factory=Counter)
    """Lines of Stepwell's own log, by result."""
    broken_files: list[str] = field(default_factory=list)
    """What could not be read to the end, and why."""
    bypassed: Counter[str] = field(default_factory=Counter)
    """Requests no layer may answer, by why."""
    failed: int = 0
    without_time: int = 0
    out_of_order: int = 0
    estimated_tokens: int = 0
    """Requests whose tokens are estimated from the length of their texts."""
    without_seconds: int = 0
    first_at: float | None = None
    last_at: float | None = None

    @property
    def has_dates(self) -> bool:
        """Whether times are of the calendar; else there are none, or they begin by themselves."""
        return self.last_at is not None and self.last_at >= _FIRST_DATE


@dataclass(slots=True)
class Findings:
    """Everything an analysis finds."""

    looks: Looks
    lines: Lines = field(default_factory=Lines)
    spent: Account = field(default_factory=Account)
    """All requests, as they were answered."""
    repeats: int = 0
    """Requests that were asked before in the very same way, however long ago."""
    caches: dict[str, CacheFindings] = field(default_factory=dict)
    prefixes: PrefixFindings = field(default_factory=PrefixFindings)
    prefixes_behind: PrefixFindings = field(default_factory=PrefixFindings)
    """Only of requests that the cache as configured would not have answered."""
    classes: dict[str, Part] = field(default_factory=dict)
    hours: dict[int, Part] = field(default_factory=dict)
    """By hours since the epoch."""
    served_at: list[int] = field(default_factory=lambda: [0] * HISTOGRAM_BINS)
    """Semantic hits of the cache as configured, by similarity."""
    refused_at: list[int] = field(default_factory=lambda: [0] * HISTOGRAM_BINS)
    too_far_at: list[int] = field(default_factory=lambda: [0] * HISTOGRAM_BINS)
    popular: list[tuple[str, int]] = field(default_factory=list)
    """The questions asked most often, and how often at least."""


@dataclass(frozen=True, slots=True)
class Run:
    """How an analysis was made."""

    files: tuple[str, ...]
    model_id: str
    """Of the embedder; empty: nothing was compared by meaning."""
    levels: Mapping[Level, float]
    """Least similarity of each level."""
    currency: str
    seconds: float
    embedded: int
    failed: int
    """Texts that the embedder failed at."""
    max_entries: int
