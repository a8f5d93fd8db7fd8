"""Model servers of a program of its own: those that this package runs start at the first call."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec

from stepwell.assembly.engines import absent_engines, running_engines
from stepwell.assembly.house import Plan, Surroundings
from stepwell.assembly.upstreams import http_targets
from stepwell.core.errors import ConfigError
from stepwell.core.ports import Call, Headers, Reply, Upstream
from stepwell.engines.late import LateUpstream
from stepwell.pipeline.targets import Target, Targets


def late_targets(plan: Plan, around: Surroundings) -> Targets:
    """Return the model servers of the settings, in their order.

    Raises:
        ConfigError: Names the upstream and the key; or a model of ours is not installed.
    """
    tables = plan.settings.upstreams
    ours = [name for name, table in tables.items() if table.kind != "openai"]
    if not ours:
        return http_targets(plan, around)
    if plan.data_dir is None:
        raise ConfigError(
            f"upstreams.{ours[0]} is a model that runs here, and needs a data directory: give"
            " data_dir, or upstream, the base URL of a model server."
        )
    absent = absent_engines(tables, plan.data_dir)
    targets = http_targets(replace(plan, engines=absent), around)
    return Targets([_late(target, plan, around, plan.data_dir) for target in targets])


def _late(target: Target, plan: Plan, around: Surroundings, data_dir: Path) -> Target:
    name = target.upstream.name
    table = plan.settings.upstreams[name]
    if table.kind == "openai":
        return target

    async def start() -> Upstream:
        engines = ExitStack()
        starting = running_engines({name: table}, data_dir, _ignore)
        addresses = await asyncio.to_thread(engines.enter_context, starting)
        settings = msgspec.structs.replace(plan.settings, upstreams={name: table})
        [running] = http_targets(replace(plan, settings=settings, engines=addresses), around)
        return _WithEngine(running.upstream, engines)

    return replace(target, upstream=LateUpstream(name, target.upstream.identity, start))


class _WithEngine:
    """An upstream whose model server ends with it."""

    def __init__(self, upstream: Upstream, engine: ExitStack) -> None:
        self._upstream = upstream
        self._engine = engine
        self.name = upstream.name
        self.identity = upstream.identity

    async def send(self, call: Call) -> Reply:
        """As `Upstream.send`."""
        return await self._upstream.send(call)

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """As `Upstream.forward`."""
        return await self._upstream.forward(method, path, query, headers, body)

    async def aclose(self) -> None:
        """Close all connections, then stop the server."""
        try:
            await self._upstream.aclose()
        finally:
            await asyncio.to_thread(self._engine.close)


def _ignore(_: str) -> None:
    """Say nothing: a program that asks waits for the answer, not for the engine."""
