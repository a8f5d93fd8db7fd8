"""Options that several commands have, and what they make of the settings."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepwell.assembly.environment import config_file
from stepwell.assembly.settings import Settings, load_settings, parse_settings
from stepwell.core.errors import ConfigError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  (no public name)
else:
    Subparsers = object


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Import inside what an extra brings.

    Raises:
        ConfigError: It is not installed; says how to.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"this needs the package {error.name}, which is not installed:"
            f" in a clone of Stepwell, pip install '.[{extra}]'"
        ) from error


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--config`` and ``--data``."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings file (TOML); default: $STEPWELL_CONFIG, else none",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="data directory; default: data_dir of the settings, else ~/.local/share/stepwell",
    )


def add_upstream_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--upstream``."""
    parser.add_argument(
        "--upstream", metavar="URL", help="base URL of the one model server to ask, ending in /v1"
    )


def add_redis_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--redis``."""
    parser.add_argument(
        "--redis", metavar="URL", help="share all entries with other gateways through this Redis"
    )


def add_postgres_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--postgres``."""
    parser.add_argument(
        "--postgres", metavar="URL", help="keep vectors in this PostgreSQL, not below --data"
    )


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Add where vectors and documents are kept, and ``--json``."""
    add_redis_option(parser)
    add_postgres_option(parser)
    add_settings_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def config_path(options: argparse.Namespace) -> Path | None:
    """Return the settings file that is read, if one is."""
    path: Path | None = options.config or config_file()
    return path


def read_settings(options: argparse.Namespace) -> Settings:
    """Return the settings file, or the defaults, with what the command line says on top.

    Raises:
        ConfigError: The file cannot be used, or an option's value is not allowed.
    """
    path = config_path(options)
    settings = Settings() if path is None else load_settings(path)
    tables: dict[str, Any] = msgspec.to_builtins(settings)
    if options.data is not None:
        tables["data_dir"] = options.data
    if getattr(options, "upstream", None) is not None:
        tables["upstreams"] = {"upstream": {"base_url": options.upstream}}
    if getattr(options, "redis", None) is not None:
        tables["stores"]["redis"]["url"] = options.redis
    if getattr(options, "postgres", None) is not None:
        tables["stores"]["postgres"]["url"] = options.postgres
    for name in ("host", "port", "workers"):
        if (value := getattr(options, name, None)) is not None:
            tables["server"][name] = value
    return parse_settings(tables)
