"""Settings as a program gives them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from stepwell.assembly.settings import Settings, load_settings, parse_settings

_QUIET = {"log": {"target": "off"}, "semantic": {"embedder": "off"}}
"""A library writes nothing and starts no process unless it is told to."""


def settings_of(
    given: Settings | Mapping[str, Any] | Path | str | None, upstream: str | None = None
) -> Settings:
    """Return checked settings; without any, a library writes no log and starts no embedder.

    Args:
        given: Parsed settings, plain tables, or a file.
        upstream: Base URL of the one model server, instead of the settings' ``upstreams``.

    Raises:
        ConfigError: A setting is wrong.
    """
    match given:
        case Settings():
            settings = given
        case Path() | str():
            settings = load_settings(Path(given))
        case None:
            settings = parse_settings(_QUIET)
        case _:
            settings = parse_settings({**_QUIET, **given})
    if upstream is not None:
        tables = msgspec.to_builtins(settings)
        settings = parse_settings({**tables, "upstreams": {"upstream": {"base_url": upstream}}})
    return settings
