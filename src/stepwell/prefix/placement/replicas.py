"""Replicas of one model server, and how busy each of them is."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

ReplicaName = NewType("ReplicaName", str)
"""As the settings name it. Gateways that must agree use the same names."""

PREFILL_TOKENS_PER_REQUEST = 1024
"""A request in flight counts as one; so many tokens still to prefill count as one more."""


class Condition(StrEnum):
    """Whether a replica may be given work."""

    READY = "ready"
    DRAINING = "draining"
    """Finishes what it has and takes no more."""
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica at the moment of a choice."""

    name: ReplicaName
    load: float = 0.0
    """Requests in flight, those with much to prefill counted more: see `Loads`."""
    condition: Condition = Condition.READY


class Work:
    """One request at a replica. Each of its methods may be called twice."""

    __slots__ = ("_add", "_prefill")

    def __init__(self, add: Callable[[float], None], prefill: float) -> None:
        self._add: Callable[[float], None] | None = add
        self._prefill = prefill
        add(1.0 + prefill)

    def prefilled(self) -> None:
        """Note that its first token has come: it costs the replica little from now on."""
        if self._add is not None:
            self._add(-self._prefill)
            self._prefill = 0.0

    def ended(self) -> None:
        """Note that it is over, however it ended."""
        if self._add is not None:
            self._add(-1.0 - self._prefill)
            self._add = None


class Loads:
    """What this process has in flight at each replica. One event loop; not thread-safe.

    Other gateways' requests are not in it; where a replica reports how many it runs, that may be
    added.
    """

    def __init__(self) -> None:
        self._loads: dict[ReplicaName, float] = {}

    def of(self, replica: ReplicaName) -> float:
        """Return the load of a replica, in requests."""
        return self._loads.get(replica, 0.0)

    def begin(self, replica: ReplicaName, prefill_tokens: int) -> Work:
        """Count a request until its end.

        Args:
            replica: Who works on it.
            prefill_tokens: Tokens of its prompt that the replica probably has to compute.
        """

        def add(load: float) -> None:
            self._loads[replica] = self._loads.get(replica, 0.0) + load

        return Work(add, max(0, prefill_tokens) / PREFILL_TOKENS_PER_REQUEST)
