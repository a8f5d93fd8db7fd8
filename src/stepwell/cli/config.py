"""``stepwell config``."""

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
import tomli_w

from stepwell.assembly.checks import check, data_directory, warnings
from stepwell.assembly.embedder import why_off
from stepwell.assembly.in_force import calibration_in_force, embedder_name, with_measured
from stepwell.assembly.rules import request_classes
from stepwell.assembly.secret import secret_of
from stepwell.assembly.settings import Settings, parse_settings
from stepwell.cli.options import Subparsers, add_settings_options, config_path, read_settings
from stepwell.core.errors import ConfigError
from stepwell.keys.namespace import SECRET_BYTES

if TYPE_CHECKING:  # An extra brings what it needs.
    from stepwell.semantic.acceptance.calibration import Calibration

_DESCRIPTION = """\
Look at the settings. Without a file everything has a default; a file holds only what differs:

  [upstreams.vllm]
  base_url = "http://127.0.0.1:8000/v1"
  dialect = "engine"

  [classes.faq]
  ttl_seconds = 7200
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "config",
        help="show or check the settings",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="print the settings in force, as TOML",
        description="Print the settings in force, as TOML: those of the file, the defaults, and"
        " what was measured for the embedder. Comments say what no setting does.",
    )
    add_settings_options(show)
    show.set_defaults(run=run_show)
    checker = actions.add_parser(
        "check",
        help="check the settings; say what is wrong and where, or that all is well",
        description="Check a settings file as `serve` would, without starting anything: unknown"
        " keys, values out of range, patterns, classes, and environment variables that are named.",
    )
    add_settings_options(checker)
    checker.set_defaults(run=run_check)


def run_show(options: argparse.Namespace) -> int:
    """Print what is in force."""
    settings, remarks = _in_force(read_settings(options))
    tables = msgspec.to_builtins(settings)
    tables["data_dir"] = str(data_directory(settings))
    tables["classes"] = {
        name: {key: value for key, value in asdict(request_class).items() if key != "name"}
        for name, request_class in request_classes(settings).items()
    }
    # Once through the settings' own types, so that what is shown reads as it was shown.
    shown = msgspec.to_builtins(parse_settings(_without_none(tables)))
    sys.stdout.write("".join(f"# {remark}\n" for remark in remarks))
    sys.stdout.write(tomli_w.dumps(_without_none(shown)))
    return 0


def _in_force(settings: Settings) -> tuple[Settings, list[str]]:
    """Return the settings as the semantic layer has them, and what no setting can say."""
    try:
        calibration = calibration_in_force(settings)
        if calibration is None:
            off = settings.semantic.embedder == "off"
            return settings, [] if off else [f"Answers to other words are off: {why_off()}"]
        return with_measured(settings), _about_levels(calibration, embedder_name(settings))
    except ConfigError as error:
        return settings, [f"Answers to other words: {error}"]


def _about_levels(calibration: "Calibration", model: str) -> list[str]:
    """Return what the levels ask for beside similarity, a line each."""
    compared = calibration.compared
    if compared is None:
        return [f"semantic.levels: the similarity for {model}; the comparison is not asked."]
    return [
        f"semantic.levels: the similarity for {model}; the comparison then asks:",
        *(
            f"  {level}: a score of {score}; a similarity of"
            f" {compared.min_similarity[level]} where texts cannot be compared"
            for level, score in compared.min_score.items()
        ),
    ]


def run_check(options: argparse.Namespace) -> int:
    """Check, or raise `ConfigError`."""
    settings = read_settings(options)
    check(settings, _any_secret(settings))
    for warning in warnings(settings):
        print(f"Warning: {warning}")
    if config_path(options) is None:
        print("No settings file was given (--config); every setting has its default.")
    print("The settings are fine.")
    return 0


def _any_secret(settings: Settings) -> bytes:
    """Return a secret to check with; none is made in the data directory for that."""
    if settings.auth.namespace_secret_env is None:
        return bytes(SECRET_BYTES)
    return secret_of(settings, data_directory(settings))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is not set: TOML has no null."""
    return {name: _set(value) for name, value in table.items() if value is not None}


def _set(value: Any) -> Any:  # noqa: ANN401  (any value of TOML)
    if isinstance(value, dict):
        return _without_none(value)
    return [_set(item) for item in value] if isinstance(value, list | tuple) else value
