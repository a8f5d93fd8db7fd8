"""Which problems have been said already, so that one that lasts does not fill the log."""

from collections.abc import Iterator
from dataclasses import dataclass

EVERY_SECONDS = 60.0
"""How often a problem that lasts is said again."""

_MOST = 64
"""Problems remembered; the oldest is forgotten for another."""


@dataclass(slots=True)
class _Said:
    at: float
    """When it was said last, in seconds."""
    unsaid: int = 0
    """How often it was met since."""


class Lasting:
    """When each problem was said last. Not safe across threads."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], _Said] = {}
        self._explained: dict[str, float] = {}
        """Components of which another line says that they fail, and since when."""

    def say(self, component: str, error: str, now: float) -> int | None:
        """Return how often a problem was met unsaid, or ``None`` if it is to stay so now too."""
        problem = component, error
        last = self._said.get(problem)
        if last is None and component in self._explained:
            last = self._remember(problem, self._explained[component])
        if last is not None and 0 <= now - last.at < EVERY_SECONDS:
            last.unsaid += 1
            return None
        self._remember(problem, now)
        return 0 if last is None else last.unsaid

    def explain(self, component: str, now: float) -> None:
        """Take all problems of a component as said now, whichever they are."""
        self._explained[component] = now

    def forget(self, component: str) -> None:
        """Take what a component meets from now on as new."""
        self._explained.pop(component, None)
        self._said = {
            problem: last for problem, last in self._said.items() if problem[0] != component
        }

    def unsaid(self) -> Iterator[tuple[str, str, int]]:
        """Yield components, errors, and how often they were met since they were last said."""
        for (component, error), last in self._said.items():
            if last.unsaid:
                yield component, error, last.unsaid

    def _remember(self, problem: tuple[str, str], at: float) -> _Said:
        if problem not in self._said and len(self._said) >= _MOST:
            del self._said[next(iter(self._said))]
        said = self._said[problem] = _Said(at)
        return said
