"""What is done behind an answer, when its caller has it already. Nobody waits for it."""

import math
from dataclasses import dataclass

from stepwell.core.entry import Entry
from stepwell.core.names import LayerName
from stepwell.core.outcome import Hit, Stale
from stepwell.pipeline.audits import Audits
from stepwell.pipeline.flight import Flight
from stepwell.pipeline.question import Ask, Question
from stepwell.pipeline.warming import Warming


@dataclass(frozen=True, slots=True)
class Behind:
    """The things to do, those that are wanted."""

    audits: Audits | None = None
    """Has hits on other words judged, if there is a semantic layer."""
    warming: Warming | None = None
    """Has model servers read what the cache answered."""

    def due_at(self, question: Question, entry: Entry) -> float:
        """Return from when on a hit of the exact layer has `served` do anything."""
        return math.inf if self.warming is None else self.warming.due_at(question, entry)

    def served(self, ask: Ask, found: Hit | Stale) -> None:
        """Take an answer that was given from the cache."""
        if self.warming is not None:
            reworded = found.layer is LayerName.SEMANTIC
            self.warming.served(ask, found.entry, reworded=reworded)
        if self.audits is not None and isinstance(found, Hit):
            self.audits.served(ask, found)

    def withheld(self, ask: Ask, hit: Hit, flight: Flight) -> None:
        """Take an answer that was found and not given, and the flight that brings the other one."""
        if self.audits is not None:
            self.audits.withheld(ask, hit, flight)

    async def aclose(self) -> None:
        """Stop all of it."""
        if self.audits is not None:
            await self.audits.aclose()
        if self.warming is not None:
            await self.warming.aclose()
