"""A house without a server, for commands that look at the same stores as a running gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from stepwell.assembly.checks import data_directory
from stepwell.assembly.engines import absent_engines
from stepwell.assembly.house import House, Plan
from stepwell.assembly.own_house import open_own_house
from stepwell.assembly.secret import secret_of
from stepwell.assembly.settings import Log, Settings
from stepwell.assembly.upstreams import http_targets
from stepwell.core.errors import ConfigError

_PATIENCE_SECONDS = 120.0
"""For loading an embedder, or converting it, and for embedding what its index lacks."""


@asynccontextmanager
async def offline_house(settings: Settings, *, by_meaning: bool = False) -> AsyncIterator[House]:
    """Build the house of ``settings`` on the data directory that is there.

    It makes the same keys as the gateway, sees the same entries, and its invalidations reach the
    running workers at once. It asks no model server and starts none.

    Args:
        settings: As the gateway has them.
        by_meaning: With the semantic layer, if there is one: its embedder is started, and the
            house is there when that is loaded and all entries are found.

    Raises:
        ConfigError: A setting cannot be used, or there is no data yet.
    """
    data_dir = data_directory(settings)
    if not data_dir.is_dir():
        raise ConfigError(f"data_dir: there is no {data_dir}; has a gateway run with it?")
    quiet = msgspec.structs.replace(
        settings,
        log=Log(target="off"),
        server=msgspec.structs.replace(settings.server, workers=1),
    )
    secret = secret_of(settings, data_dir)
    plan = Plan(quiet, data_dir, secret, absent_engines(settings.upstreams, data_dir))
    own = await open_own_house(plan, http_targets, by_meaning=by_meaning)
    try:
        if by_meaning:
            await own.wait_until_current(_PATIENCE_SECONDS)
        yield own.house
    finally:
        await own.aclose()
