"""The process environment: the only place that reads it, and only by names the settings give."""

import os
from pathlib import Path

from stepwell.core.errors import ConfigError


def secret_from(name: str, *, setting: str) -> str:
    """Return the value of an environment variable that a setting names.

    Raises:
        ConfigError: It is not set, or empty.
    """
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"{setting} names the environment variable {name}, which is not set.")
    return value


def default_data_dir() -> Path:
    """Return where a user's data goes (XDG base directories): ``~/.local/share/stepwell``."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "stepwell"


def cache_dir() -> Path:
    """Return where goes what can be made again (XDG): ``~/.cache/stepwell``."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "stepwell"


def config_file() -> Path | None:
    """Return the settings file that ``STEPWELL_CONFIG`` names, if it names one."""
    name = os.environ.get("STEPWELL_CONFIG")
    return Path(name) if name else None


def compute_on_one_thread() -> None:
    """Have numpy multiply on one thread, here and in child processes, unless it is told otherwise.

    Its library (OpenBLAS) shares out products of a few hundred rows. Where other processes want
    the processors, the threads wait for each other, spinning: searches take ten times as long, and
    some of them a second. It reads the variable when numpy is loaded: call this before.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
