"""Models that judges ask, as tests want them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from stepwell.core.judging import Respondent


class Deaf:
    """A respondent that must not be asked."""

    async def ask(self, instructions: str, text: str) -> str:
        """Fail."""
        raise AssertionError("nobody was to be asked")


@dataclass
class Voice:
    """A respondent that replies as the test says."""

    reply: Callable[[str], str]
    """From what is asked to the reply."""
    asked: list[str] = field(default_factory=list)
    instructions: set[str] = field(default_factory=set)

    async def ask(self, instructions: str, text: str) -> str:
        """Reply."""
        self.asked.append(text)
        self.instructions.add(instructions)
        return self.reply(text)


def last_line(text: str) -> str:
    """Return the question at the end of what a judge asks."""
    return text.rsplit("\n", 1)[-1]


def asks_whether_same(text: str) -> bool:
    """Return whether *yes* to this means that the two are the same."""
    line = last_line(text)
    positive = line.startswith(("Do answer A and answer B agree", "Is one and the same answer"))
    negative = line.startswith(("Do answer A and answer B contradict", "Does question A need"))
    assert positive != negative, line
    return positive


def honest(*, same: bool = True) -> Callable[[str], str]:
    """Return how a model replies that holds the two to be the same, or not."""
    return lambda text: "Yes." if asks_whether_same(text) == same else " no"


@dataclass
class HandOpinion:
    """A second opinion that says what the test says, when it says so."""

    told: bool | Exception | None
    held: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    stopped: int = 0
    """How often nobody waited for it any more."""
    say: asyncio.Event = field(default_factory=asyncio.Event)
    """What it waits for if it is ``held``."""

    async def one_answer(
        self,
        asked: str,
        stored: str,
        respondent: Respondent | None,
    ) -> bool | None:
        """As `SecondOpinion.one_answer`."""
        self.asked.append((asked, stored))
        try:
            if self.held:
                await self.say.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        if isinstance(self.told, Exception):
            raise self.told
        return self.told
