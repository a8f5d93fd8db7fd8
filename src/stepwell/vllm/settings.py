"""What the operator says in ``kv_connector_extra_config``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from stepwell.core.errors import ConfigError


class ConnectorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where KV blocks are kept, and for how long anybody waits for them."""

    folder: Annotated[str, msgspec.Meta(min_length=1)]
    """Holds the files; shared by all servers that are to share prefixes. Its files hold what was
    asked."""
    max_bytes: Annotated[int, msgspec.Meta(gt=0)]
    """Of all files together. Servers that share a folder should agree."""
    weights_version: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """Names the weights where they are not files that can be read; else their digest does."""
    load_timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """After this time a prefix is computed instead of loaded."""
    lookup_timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    """After this time a prefix counts as not kept."""

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)


def parse_settings(given: Mapping[str, Any]) -> ConnectorSettings:
    """Check what was given.

    Raises:
        ConfigError: Names the field, and what is allowed.
    """
    try:
        return msgspec.convert(given, ConnectorSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"kv_connector_extra_config of StepwellConnector: {error}") from error
