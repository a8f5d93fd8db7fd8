"""``stepwell stats``."""

import argparse
import shutil
import sys
from pathlib import Path

from stepwell.assembly.checks import data_directory
from stepwell.assembly.house import LEDGER_FILE
from stepwell.cli.options import Subparsers, add_settings_options, read_settings
from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.telemetry.ledger import read_totals
from stepwell.telemetry.ledger_anew import judge_anew
from stepwell.telemetry.ledger_file import DamagedLedger
from stepwell.telemetry.precision import judged_lines
from stepwell.telemetry.savings import as_json, draw_up
from stepwell.telemetry.savings_text import render_statement

_DESCRIPTION = """\
Show what the cache saved: requests by outcome, hit ratio, upstream calls, tokens, seconds and
money, since the ledger in the data directory was begun. Works while the gateway runs (its
workers write their counts once a second) and when it does not. Money needs a price table:

  [prices.models."gpt-4o*"]
  input_per_million = 2.5
  output_per_million = 10

For answers to other words it shows what was judged right and wrong, by class and by who judged (a
person, a sample, shadow mode), the precision with its 95 % interval, and what shadow mode withheld.
After a change of what is matched (levels, embedder, judge, Stepwell itself) that speaks of how
things were: --judge-anew begins the count of a class again.
"""

NEEDED_BYTES = 64 << 10
"""Even to read it, SQLite makes a file of 32 KiB beside it."""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "stats",
        help="show what the cache saved",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--judge-anew",
        metavar="CLASS",
        help="forget what was judged and withheld in CLASS so far, then show what is left",
    )
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the statement, after forgetting what is to be forgotten."""
    ledger = data_directory(read_settings(options)) / LEDGER_FILE
    try:
        is_there = ledger.exists()
    except OSError as error:
        raise ConfigError(f"data_dir: {ledger} cannot be read: {error.strerror}.") from error
    if not is_there:
        raise ConfigError(f"data_dir: there is no {ledger}; has a gateway run with it?")
    try:
        if options.judge_anew is not None:
            _judge_anew(ledger, options.judge_anew)
        totals = read_totals(ledger)
    except DamagedLedger as error:
        raise ConfigError(
            f"data_dir: {ledger} cannot be read ({error}). A gateway that starts with it sets it"
            " aside and begins a new one."
        ) from error
    except StoreUnavailable as error:
        raise ConfigError(_unreadable(ledger, error)) from error
    statement = draw_up(totals.values, totals.since)
    if options.json:
        sys.stdout.write(as_json(statement).decode() + "\n")
    else:
        sys.stdout.write(render_statement(statement))
    return 0


def _judge_anew(ledger: Path, request_class: str) -> None:
    if not judge_anew(ledger, request_class):
        lines = judged_lines(read_totals(ledger).values)
        known = sorted({line.request_class for line in lines})
        raise ConfigError(
            f"--judge-anew is {request_class!r}, of which nothing was judged;"
            f" allowed: {', '.join(known) or 'nothing yet'}."
        )


def _unreadable(ledger: Path, error: StoreUnavailable) -> str:
    """Return what is to be done about a ledger that is there and cannot be read."""
    free_bytes = shutil.disk_usage(ledger.parent).free
    if free_bytes < NEEDED_BYTES:
        return (
            f"data_dir: {ledger} cannot be read ({error}): its disk is full ({free_bytes} bytes"
            " free). Free some space and ask again; a gateway that runs goes on meanwhile."
        )
    return (
        f"data_dir: {ledger} cannot be read ({error}); the disk may be broken or the file another"
        " user's. Ask again as the user that runs the gateway."
    )
