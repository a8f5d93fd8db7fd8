"""A trace, played to caches of every level; hits are judged by the names of the answers."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, get_args

import numpy as np

from stepwell.core.judgement import Verdict
from stepwell.core.names import LayerName, Level
from stepwell.core.ports import EvictionPolicy
from stepwell.core.vectors import Embedder
from stepwell.policy.intervals import Interval, wilson
from stepwell.study.arm import NEVER_CACHED, Arm, NotServed, Question, Semantics, Served
from stepwell.study.blocks import blocks
from stepwell.study.rules import AS_CONFIGURED
from stepwell.study.statistics import bootstrap
from stepwell.study.terminal import interval
from stepwell.telemetry.tables import share, table

QUESTIONS_AT_ONCE = 512
TIMED_LOOKUPS = 300

EXACT_ONLY = "exact only"
"""The name of the cache that has no semantic layer."""

CACHES = (*get_args(Level), AS_CONFIGURED)
"""All but the last take every question, whatever its request class."""

_PER = 10_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a cache holds, and what leaves first."""

    max_entries: int
    make_policy: Callable[[], EvictionPolicy]


@dataclass(slots=True)
class Tally:
    """What became of the questions in one cache."""

    requests: int = 0
    exact_hits: int = 0
    semantic_hits: int = 0
    wrong_exact: int = 0
    """The same question, with another answer in the trace: its labels contradict each other."""
    wrong_semantic: int = 0
    reusable: int = 0
    """Requests whose right answer was stored, in their partition."""
    right: int = 0
    wrong_where_none_was_right: int = 0
    judged: int = 0
    """Semantic hits that were judged, at the price of a call each."""
    refused: Counter[str] = field(default_factory=Counter)
    """Misses by what the semantic layer says."""
    by_answer: dict[str, list[int]] = field(default_factory=dict)
    """Semantic hits and right ones, by the right answer."""

    def count(self, question: Question, outcome: Served | NotServed, *, was_there: bool) -> None:
        """Take one more outcome; ``was_there``: whether the right answer was stored."""
        self.requests += 1
        self.reusable += was_there
        if isinstance(outcome, NotServed):
            self.refused[outcome.why] += 1
            return
        right = outcome.stored.answer == question.answer
        self.right += right
        self.wrong_where_none_was_right += not right and not was_there
        if outcome.layer is LayerName.EXACT:
            self.exact_hits += 1
            self.wrong_exact += not right
            return
        self.semantic_hits += 1
        self.wrong_semantic += not right
        hits = self.by_answer.setdefault(question.answer, [0, 0])
        hits[0] += 1
        hits[1] += right

    def precision_by_answer(self) -> Interval:
        """Return where the semantic layer's precision lies, by drawing answers."""
        table = np.array(list(self.by_answer.values()), dtype=np.float64).reshape(-1, 2)
        return bootstrap(table[:, 1:], table[:, :1])[0]


@dataclass(frozen=True, slots=True)
class Times:
    """How long lookups took that were prepared by nothing, embedding included."""

    lookups: int
    stored: int
    """Entries there were to compare with."""
    p50_seconds: float
    p99_seconds: float


@dataclass(frozen=True, slots=True)
class Replay:
    """What became of a trace, by the name of the cache."""

    tallies: dict[str, Tally]
    evicted: dict[str, int]
    times: Times | None
    embedded: int
    failed: int
    """Texts that the embedder failed at."""


class Replayer:
    """Plays one trace. Not thread-safe."""

    def __init__(
        self,
        semantics: Semantics,
        caches: Sequence[str] = CACHES,
        bounds: Bounds | None = None,
        sample_share: float = 0.0,
    ) -> None:
        """Have empty caches, and one more without a semantic layer.

        Args:
            semantics: Of every cache.
            caches: Which, of `CACHES`.
            bounds: Of each; ``None``: they hold all.
            sample_share: Share of the semantic hits that are judged, from which a cache learns.
        """
        self._sample_share = sample_share
        self._texts = semantics.texts
        self._arms: dict[str, Arm] = {}
        levels: Mapping[str, Level] = {level: level for level in get_args(Level)}
        for name in (EXACT_ONLY, *caches):
            self._arms[name] = Arm(
                None if name == EXACT_ONLY else semantics,
                level=levels.get(name),
                policy=None if bounds is None else bounds.make_policy(),
                max_entries=0 if bounds is None else bounds.max_entries,
            )
        self._tallies = {name: Tally() for name in self._arms}
        self._sample: list[Question] = []
        self._sampling = random.Random(0)  # noqa: S311  (which lookups are timed)
        # Of its own for each, so that what one draws does not depend on the others.
        self._drawing = {name: random.Random(0) for name in self._arms}  # noqa: S311  (which hits are judged)

    async def play(self, stream: Iterable[Question], on_progress: Callable[[int], None]) -> None:
        """Ask the questions of ``stream`` in order."""
        done = 0
        for block in blocks(stream, QUESTIONS_AT_ONCE):
            prepared = await self._texts.prepare(
                [question.phrasing for question in block if question.phrasing is not None]
            )
            for arm in self._arms.values():
                arm.begin(prepared)
            for question in block:
                await self._ask(question)
                await asyncio.sleep(0)  # else Ctrl-C would wait for the end
                done += 1
                self._take_sample(question, done)
            self._texts.settle()
            on_progress(done)

    async def _ask(self, question: Question) -> None:
        for name, arm in self._arms.items():
            asked = question.as_ruled() if name == AS_CONFIGURED else question
            arm.advance(asked.at)
            was_there = arm.has_answer(asked)
            outcome = await arm.ask(asked)
            tally = self._tallies[name]
            tally.count(asked, outcome, was_there=was_there)
            if self._is_drawn(outcome, name):
                right = outcome.stored.answer == asked.answer
                arm.judge(asked, outcome, Verdict.RIGHT if right else Verdict.WRONG)
                tally.judged += 1

    def _is_drawn(self, outcome: Served | NotServed, name: str) -> TypeGuard[Served]:
        """Return whether what became of a question is judged."""
        if not (isinstance(outcome, Served) and outcome.layer is LayerName.SEMANTIC):
            return False
        return self._drawing[name].random() < self._sample_share

    def _take_sample(self, question: Question, done: int) -> None:
        """Keep some questions, each with the same chance (Vitter 1985, algorithm R)."""
        if len(self._sample) < TIMED_LOOKUPS:
            self._sample.append(question)
        elif (place := self._sampling.randrange(done)) < TIMED_LOOKUPS:
            self._sample[place] = question

    async def result(self, embedder: Embedder | None) -> Replay:
        """Return what became of it; with ``embedder``, the time of lookups is measured first."""
        times = None if embedder is None else await self._time(embedder)
        return Replay(
            tallies=self._tallies,
            evicted={name: arm.evicted for name, arm in self._arms.items()},
            times=times,
            embedded=self._texts.embedder.embedded,
            failed=self._texts.embedder.failed,
        )

    async def _time(self, embedder: Embedder) -> Times | None:
        name = "general" if "general" in self._arms else [*self._arms][-1]
        arm = self._arms[name]
        seconds = [
            await arm.time_lookup(question, embedder)
            for question in self._sample
            if question.phrasing is not None
        ]
        if not seconds:
            return None
        p50, p99 = np.quantile(seconds, [0.5, 0.99])
        return Times(len(seconds), len(arm), float(p50), float(p99))


def as_json(replay: Replay) -> dict[str, Any]:
    """Return a replay as an object of JSON."""
    times = replay.times
    return {
        "caches": {
            name: _tally(tally) | {"evicted": replay.evicted[name]}
            for name, tally in replay.tallies.items()
        },
        "lookup": None
        if times is None
        else {
            "lookups": times.lookups,
            "stored": times.stored,
            "p50_ms": 1_000 * times.p50_seconds,
            "p99_ms": 1_000 * times.p99_seconds,
        },
        "embedded": replay.embedded,
        "embedder_failed": replay.failed,
    }


def _tally(tally: Tally) -> dict[str, Any]:
    hits, wrong = tally.exact_hits + tally.semantic_hits, tally.wrong_exact + tally.wrong_semantic
    right_semantic = tally.semantic_hits - tally.wrong_semantic
    by_wilson = wilson(right_semantic, tally.semantic_hits)
    by_answer = tally.precision_by_answer()
    return {
        "requests": tally.requests,
        "hits": hits,
        "exact_hits": tally.exact_hits,
        "semantic_hits": tally.semantic_hits,
        "wrong_hits": wrong,
        "wrong_exact_hits": tally.wrong_exact,
        "wrong_semantic_hits": tally.wrong_semantic,
        "judged_hits": tally.judged,
        "hit_rate": _ratio(hits, tally.requests),
        "precision": _ratio(hits - wrong, hits),
        "semantic_precision": _ratio(right_semantic, tally.semantic_hits),
        "semantic_precision_wilson": [by_wilson.low, by_wilson.high],
        "semantic_precision_bootstrap": [by_answer.low, by_answer.high],
        "wrong_per_10k": _ratio(_PER * wrong, tally.requests),
        "false_hit_rate": _ratio(tally.wrong_where_none_was_right, tally.requests - tally.reusable),
        "reusable": tally.reusable,
        "recall_of_reusable": _ratio(tally.right, tally.reusable),
        "misses_by_reason": dict(tally.refused.most_common()),
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def as_text(replay: Replay) -> str:
    """Return a replay as text for a terminal, ending in a line feed."""
    told = as_json(replay)
    columns = [
        ["", *(name for name in replay.tallies)],
        *(
            [label, *(show(cache) for cache in told["caches"].values())]
            for label, show in _ROWS.items()
        ),
    ]
    parts = [table(columns)]
    if (times := replay.times) is not None:
        parts.append(
            f"A lookup takes {1_000 * times.p50_seconds:.1f} ms (p50), "
            f"{1_000 * times.p99_seconds:.1f} ms (p99): {times.lookups:,} at the general level, the"
            f" embedding included, each compared with all {times.stored:,} stored questions."
        )
    if replay.failed:
        parts.append(f"The embedder failed at {replay.failed:,} texts.")
    return "\n\n".join(parts) + "\n"


def _count(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda cache: f"{cache[key]:,}"


def _share(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda cache: share(cache[key])


def _between(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda cache: interval(Interval(*cache[key])) if cache["semantic_hits"] else "-"


_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "requests": _count("requests"),
    "never cached": lambda cache: f"{cache['misses_by_reason'].get(NEVER_CACHED, 0):,}",
    "exact hits": _count("exact_hits"),
    "semantic hits": _count("semantic_hits"),
    "hit rate": _share("hit_rate"),
    "wrong hits": _count("wrong_hits"),
    "  of the exact layer": _count("wrong_exact_hits"),
    "wrong per 10,000": lambda cache: f"{cache['wrong_per_10k'] or 0:.1f}",
    "precision, semantic": _share("semantic_precision"),
    "  by Wilson": _between("semantic_precision_wilson"),
    "  by answers": _between("semantic_precision_bootstrap"),
    "false hits": _share("false_hit_rate"),
    "recall of reusable": _share("recall_of_reusable"),
    "judged": _count("judged_hits"),
    "evicted": _count("evicted"),
}
