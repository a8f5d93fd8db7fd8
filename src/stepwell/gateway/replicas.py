"""The replicas behind the gateway, as its admin routes show and move them."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from stepwell.core.entry import SourceValue
from stepwell.core.errors import RequestError
from stepwell.core.names import EVERYONE
from stepwell.core.steering import ReplicaReport, SupportsReplicas, Wanted, replica_source
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.targets import Targets

_NOT_FOUND = 404


class ReplicaMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /admin/replicas``."""

    upstream: str
    """Its name in the settings."""
    replica: str
    """As ``GET /admin/replicas`` names it."""
    state: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(Wanted)})]
    """``draining``: no new work for it; ``serving``: as the others."""


class ReplicaReports(msgspec.Struct, frozen=True):
    """What ``GET /admin/replicas`` answers."""

    replicas: list[ReplicaReport]
    """Of all upstreams that have replicas, as this worker sees them."""


class ReplicaDesk:
    """Looks at replicas, and tells all gateways which of them are to drain."""

    def __init__(self, targets: Targets, exact: ExactLayer) -> None:
        """Speak of the replicas of ``targets``, through the sources of ``exact``."""
        self._targets = targets
        self._exact = exact

    async def look(self) -> ReplicaReports:
        """Return how all replicas are. Where the store fails, as was heard of them last."""
        await self._exact.catch_up()
        return ReplicaReports(list(self._reports()))

    async def move(self, asked: ReplicaMove) -> bool:
        """Say what is wanted of a replica, in every worker and gateway of the store.

        Returns:
            Whether that changed it.

        Raises:
            RequestError: 404, no such replica; 400, no such state.
            StoreError: It could not be made known.
        """
        wanted = _wanted(asked.state)
        self._check(asked)
        source = replica_source(asked.upstream, asked.replica)
        return await self._exact.move_source(EVERYONE, SourceValue(source, wanted))

    def _reports(self) -> Iterator[ReplicaReport]:
        for target in self._targets:
            if isinstance(target.upstream, SupportsReplicas):
                yield from target.upstream.reports()

    def _check(self, asked: ReplicaMove) -> None:
        reports = list(self._reports())
        upstreams = sorted({report.upstream for report in reports})
        if asked.upstream not in upstreams:
            message = f"No upstream {asked.upstream!r} has replicas; known: {_listed(upstreams)}."
            raise RequestError(
                message, status=_NOT_FOUND, code="upstream_not_found", param="upstream"
            )
        replicas = [one.replica for one in reports if one.upstream == asked.upstream]
        if asked.replica not in replicas:
            message = (
                f"Upstream {asked.upstream!r} has no replica {asked.replica!r};"
                f" known: {_listed(replicas)}."
            )
            raise RequestError(
                message, status=_NOT_FOUND, code="replica_not_found", param="replica"
            )


def _wanted(state: str) -> Wanted:
    try:
        return Wanted(state)
    except ValueError:
        message = f"'state' must be one of {', '.join(Wanted)}."
        raise RequestError(message, code="invalid_value", param="state") from None


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
