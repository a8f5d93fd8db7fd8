"""Plays a log to caches of every level, and counts what they would have saved."""

import asyncio
from collections.abc import Callable, Iterable
from typing import get_args

from stepwell.core.errors import ConfigError, RequestError
from stepwell.core.names import Level
from stepwell.policy.text import last_user_text
from stepwell.semantic.acceptance.verdict import TOO_FAR
from stepwell.stores.eviction.lru import Lru
from stepwell.study.analysis.findings import (
    EXACT,
    HISTOGRAM_BINS,
    MAX_HOURS,
    OTHER_HOURS,
    CacheFindings,
    Cost,
    Findings,
    Part,
    cost_of,
)
from stepwell.study.analysis.looks import Looks
from stepwell.study.analysis.popular import Popular
from stepwell.study.analysis.prefixes import Prefixes
from stepwell.study.analysis.recent import Recent
from stepwell.study.analysis.shapes import GatewayLine, LoggedRequest, NoRequest, read_line
from stepwell.study.analysis.taking import Taken, take
from stepwell.study.arm import Arm, NotServed, Semantics, Served
from stepwell.study.blocks import blocks
from stepwell.study.lines import LineFile
from stepwell.study.rules import AS_CONFIGURED, Rules
from stepwell.telemetry.prices import Prices

REQUESTS_AT_ONCE = 512
MAX_KEYS = 2_000_000
"""Questions remembered for counting repeats, however old."""

POPULAR = 20
_POPULAR_CHARACTERS = 300
_HOUR = 3_600


class Analyzer:
    """Reads one log. Not thread-safe.

    Memory is bounded: by ``max_entries`` for each cache, and by constants for all else.
    """

    def __init__(
        self,
        rules: Rules,
        prices: Prices,
        *,
        semantics: Semantics | None,
        max_entries: int,
        tenant_field: str,
    ) -> None:
        """Have read nothing.

        Args:
            rules: How requests are judged.
            prices: What tokens cost.
            semantics: ``None``: nothing is compared by meaning.
            max_entries: Answers each cache holds; the least recently used leave first.
            tenant_field: The log's field that says whose a request is.
        """
        levels = {} if semantics is None else semantics.calibration.min_similarity
        self.findings = Findings(Looks(levels))
        self._rules = rules
        self._prices = prices
        self._tenant_field = tenant_field
        self._texts = None if semantics is None else semantics.texts
        self._arms: dict[str, Arm] = {}
        self._add_arm(EXACT, None, max_entries)
        if semantics is not None:
            for level in get_args(Level):
                self._add_arm(level, semantics, max_entries, level)
            self._add_arm(AS_CONFIGURED, semantics, max_entries)
        self._prefixes = Prefixes()
        self._keys = Recent(MAX_KEYS)
        self._popular = Popular()
        self._at = 0.0

    def _add_arm(
        self, name: str, semantics: Semantics | None, max_entries: int, level: Level | None = None
    ) -> None:
        self._arms[name] = Arm(semantics, level=level, policy=Lru(), max_entries=max_entries)
        self.findings.caches[name] = CacheFindings()

    async def read(self, file: LineFile, on_progress: Callable[[int], None]) -> None:
        """Read a file to its end, or to where it breaks off."""
        for block in blocks(self._requests(file), REQUESTS_AT_ONCE):
            if self._texts is not None:
                phrasings = [taken.question.phrasing for taken, _ in block]
                prepared = await self._texts.prepare([p for p in phrasings if p is not None])
                for arm in self._arms.values():
                    arm.begin(prepared)
            for taken, cost in block:
                await self._ask(taken, cost)
                await asyncio.sleep(0)  # else Ctrl-C would wait for the end
            if self._texts is not None:
                self._texts.settle()
            on_progress(self.findings.lines.read)

    def finish(self) -> Findings:
        """Return what was found."""
        self.findings.popular = self._popular.most(POPULAR)
        for name, arm in self._arms.items():
            self.findings.caches[name].evicted = arm.evicted
        return self.findings

    def _requests(self, file: LineFile) -> Iterable[tuple[Taken, Cost]]:
        lines = self.findings.lines
        try:
            for line in file:
                lines.read += 1
                match read_line(line, self._tenant_field):
                    case LoggedRequest() as logged:
                        taken = self._take(logged)
                        if taken is not None:
                            yield taken, self._cost(logged, taken)
                    case GatewayLine(result):
                        lines.gateway[result] += 1
                    case NoRequest(why):
                        lines.unusable[why] += 1
                    case None:
                        pass
        except ConfigError as error:
            # What could be read counts all the same.
            lines.broken_files.append(str(error))

    def _take(self, logged: LoggedRequest) -> Taken | None:
        lines = self.findings.lines
        self._advance(logged.at)
        try:
            taken = take(logged, self._rules, lines.requests, self._at)
        except RequestError:
            lines.unusable["a request no gateway would take"] += 1
            return None
        lines.requests += 1
        lines.failed += logged.failed
        lines.estimated_tokens += taken.is_estimated
        lines.without_seconds += logged.seconds is None
        if taken.bypass is not None:
            lines.bypassed[taken.bypass] += 1
        return taken

    def _advance(self, at: float | None) -> None:
        """Move to the time of a request. Without one, it is made when the one before was."""
        lines = self.findings.lines
        if at is None:
            lines.without_time += 1
            return
        lines.out_of_order += at < self._at
        self._at = max(self._at, at)
        lines.first_at = at if lines.first_at is None else min(at, lines.first_at)
        lines.last_at = self._at

    def _cost(self, logged: LoggedRequest, taken: Taken) -> Cost:
        return cost_of(taken.usage, logged.seconds or 0.0, taken.model, self._prices)

    async def _ask(self, taken: Taken, cost: Cost) -> None:
        findings, question = self.findings, taken.question
        findings.spent.add(cost)
        is_repeat = self._keys.meet(hash(question.key))
        findings.repeats += is_repeat
        parts = self._parts(taken)
        for part in parts:
            part.requests += 1
            part.repeats += is_repeat
        outcome: Served | NotServed = NotServed("not asked")
        for name, arm in self._arms.items():
            outcome = await arm.ask(question)
            findings.caches[name].add(outcome, cost)
            for part in parts:
                part.add(name, outcome)
        # The last cache is the one as configured, or the only one.
        self._count_prefix(taken, outcome)
        self._look(taken, outcome)
        self._popular.meet(_shown(taken))

    def _parts(self, taken: Taken) -> tuple[Part, Part]:
        findings = self.findings
        hour = int(taken.question.at // _HOUR)
        if hour not in findings.hours and len(findings.hours) >= MAX_HOURS:
            hour = OTHER_HOURS
        return (
            findings.classes.setdefault(taken.request_class, Part()),
            findings.hours.setdefault(hour, Part()),
        )

    def _count_prefix(self, taken: Taken, outcome: Served | NotServed) -> None:
        shared = self._prefixes.take(taken.endpoint, taken.body)
        tokens = taken.usage.prompt_tokens
        self.findings.prefixes.add(shared.prompt_bytes, shared.shared_bytes, tokens)
        if isinstance(outcome, NotServed):
            self.findings.prefixes_behind.add(shared.prompt_bytes, shared.shared_bytes, tokens)

    def _look(self, taken: Taken, outcome: Served | NotServed) -> None:
        self.findings.looks.take(taken.question, outcome, taken.request_class)
        place = min(HISTOGRAM_BINS - 1, int(outcome.similarity * HISTOGRAM_BINS))
        match outcome:
            case Served(layer="semantic"):
                self.findings.served_at[place] += 1
            case NotServed() if outcome.why == TOO_FAR:
                self.findings.too_far_at[place] += 1
            case NotServed(nearest=None):
                pass
            case NotServed():
                self.findings.refused_at[place] += 1
            case _:
                pass


def _shown(taken: Taken) -> str:
    """Return the words of a request as they are counted: those that stand in the report."""
    return last_user_text(taken.endpoint, taken.body, _POPULAR_CHARACTERS).strip()
