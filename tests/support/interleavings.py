"""Every order in which the steps of several coroutines can come, one after the other.

No event loop: a coroutine runs until it comes to a `gate`, and goes on when it is its turn. What
waits for anything else cannot be run so.
"""

import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Protocol

Act = Coroutine[Any, Any, object]


@types.coroutine
def gate() -> Generator[None]:
    """Let any of the others go first."""
    yield


class Play(Protocol):
    """Some coroutines that share something, and what must hold of it."""

    def acts(self) -> Sequence[Act]:
        """Return the coroutines, none of which has begun."""
        ...

    def look(self) -> None:
        """Check what must hold between any two steps."""
        ...

    def end(self) -> None:
        """Check what must hold when all have ended."""
        ...


def in_every_order(begin: Callable[[], Play]) -> int:
    """Play it anew for each order of steps; return how many there are.

    What fails names the order: by place, who went next.
    """
    orders, chosen = 0, list[int]()
    while True:
        taken = _play(begin(), chosen)
        orders += 1
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return orders
        chosen = [choice for choice, _ in taken]
        chosen[-1] += 1


def _play(play: Play, chosen: Sequence[int]) -> list[tuple[int, int]]:
    """Play once: the first steps as ``chosen``, then the first that can go.

    Returns:
        For each step, which one was taken, and of how many.
    """
    acts = list(enumerate(play.acts()))
    taken: list[tuple[int, int]] = []
    order: list[int] = []
    try:
        while acts:
            choice = chosen[len(taken)] if len(taken) < len(chosen) else 0
            taken.append((choice, len(acts)))
            number, act = acts[choice]
            order.append(number)
            if _is_over(act):
                del acts[choice]
            play.look()
        play.end()
    except AssertionError as error:
        error.add_note(f"in the order {order}")
        raise
    return taken


def _is_over(act: Act) -> bool:
    try:
        act.send(None)
    except StopIteration:
        return True
    return False


def run(act: Act) -> Any:
    """Run a coroutine to its end, with nobody in between; return what it returns."""
    while True:
        try:
            act.send(None)
        except StopIteration as end:
            return end.value
