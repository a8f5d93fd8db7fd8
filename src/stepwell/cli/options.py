"""Options that several commands have, and what they make of the settings."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwell.assembly.environment import config_file
from stepwell.assembly.settings import Settings, load_settings

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  (no public name)
else:
    Subparsers = object


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


def read_settings(options: argparse.Namespace) -> Settings:
    """Return the settings file, or the defaults, with ``--data`` on top.

    Raises:
        ConfigError: The file cannot be used.
    """
    path = options.config or config_file()
    settings = Settings() if path is None else load_settings(path)
    if options.data is not None:
        settings = msgspec.structs.replace(settings, data_dir=options.data)
    return settings
