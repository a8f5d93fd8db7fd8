"""``stepwell tune``."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from stepwell.assembly.settings import Settings
from stepwell.cli.json_text import print_json
from stepwell.cli.options import Subparsers, add_settings_options, needs, read_settings
from stepwell.cli.studying import (
    Opened,
    add_cache_option,
    check_outputs,
    opened,
    progress_of,
    scheme_of,
)
from stepwell.core.errors import ConfigError
from stepwell.core.names import Level

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.study.labels import Labels
    from stepwell.study.tuning import Tuning

_DESCRIPTION = """\
Find the similarity that each level needs, from pairs that somebody has judged: how many hits it
gives, how many of them are right, and how sure that is. Asks no model server, changes no settings.

LABELS hold a JSON object a line: {"a": ..., "b": ..., "label": 1}, with 1 where the answer to one
may be given to the other, 0 where it must not, null where nobody knows. "lang", "class" and
"category" are optional; each is reported apart. Beyond that request classes do not count: every
pair is looked at, also one whose class a gateway never caches.
"""

_EXAMPLES = """\
examples:
  stepwell tune judged.jsonl
  stepwell tune judged.jsonl more.jsonl.gz --out levels.toml
  stepwell tune judged.jsonl --target-precision strict=0.995 --target-precision faq=0.85 --json
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "tune",
        help="find the similarity that each level needs",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="+", metavar="LABELS", help="judged pairs; gzipped or not; - for stdin"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--out", type=Path, metavar="TOML", help="write the levels, ready for the settings file"
    )
    parser.add_argument(
        "--target-precision",
        action="append",
        default=[],
        metavar="LEVEL=SHARE",
        help="of the answers a level gives to other words, how many must be right;"
        " default: strict=0.99, general=0.95, faq=0.9",
    )
    add_cache_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Tune."""
    with needs("semantic"):
        check_outputs(options.files, options.out)
        tuning = asyncio.run(_tune(read_settings(options), options))
        _tell(tuning, options)
    return 0


async def _tune(settings: Settings, options: argparse.Namespace) -> "Tuning":
    from stepwell.study.tuning import tune  # noqa: PLC0415  (an extra)

    targets = _targets(options.target_precision)
    async with opened(settings, options.cache) as found:
        labels = await _labels(options.files, found, settings)
        calibration = found.parts.calibration
        return tune(
            labels,
            found.known.model_id,
            targets,
            calibration.min_similarity,
            calibration.compared,
        )


async def _labels(files: list[str], source: Opened, settings: Settings) -> "Labels":
    from stepwell.study.labels import Labels, Measured, measure  # noqa: PLC0415  (an extra)
    from stepwell.study.lines import LineFile, rows  # noqa: PLC0415

    progress, pairs, left_out = progress_of("pairs"), list[Measured](), Counter[str]()
    for number, name in enumerate(files):
        with LineFile(name) as file:
            placed = ((file.place, row) for row in rows(file))
            async for found in measure(
                placed, source.known, scheme_of(settings), source.parts.comparer
            ):
                if isinstance(found, str):
                    left_out[found] += 1
                else:
                    pairs.append(found)
                done = None if file.share is None else (number + file.share) / len(files)
                progress.update(len(pairs), done)
    progress.end()
    if not pairs:
        raise ConfigError(f"{', '.join(files)}: no pair to choose by{_without(left_out)}.")
    return Labels(pairs, left_out)


def _without(left_out: Mapping[str, int]) -> str:
    """Say what was left out."""
    said = ", ".join(f"{count:,} {why}" for why, count in left_out.items())
    return f"; left out: {said}" if said else ""


def _targets(given: list[str]) -> dict[Level, float]:
    from stepwell.study.levels import TARGETS  # noqa: PLC0415  (an extra)

    targets = dict(TARGETS)
    for text in given:
        name, _, value = text.partition("=")
        level = next((level for level in get_args(Level) if level == name), None)
        share = _share(value)
        if level is None or share is None:
            raise ConfigError(
                f"--target-precision {text!r}: allowed is strict, general or faq, then = and a"
                " number from 0 to 0.9999."
            )
        targets[level] = share
    if not targets["strict"] >= targets["general"] >= targets["faq"]:
        raise ConfigError(
            "--target-precision: strict must ask for as much as general or more, general as faq."
        )
    return targets


def _share(value: str) -> float | None:
    try:
        share = float(value)
    except ValueError:
        return None
    return share if 0 <= share <= 0.9999 else None  # noqa: PLR2004  (as the message says)


def _tell(tuning: "Tuning", options: argparse.Namespace) -> None:
    from stepwell.study.levels import as_toml  # noqa: PLC0415  (an extra)
    from stepwell.study.output import written_aside  # noqa: PLC0415
    from stepwell.study.tuning import as_json, as_text  # noqa: PLC0415

    if options.out is not None:
        levels = as_toml(tuning.recommendations, tuning.model_id, tuning.curve.pairs)
        with written_aside(options.out) as file:
            file.write(levels.encode())
    if options.json:
        print_json(as_json(tuning))
    else:
        sys.stdout.write(as_text(tuning))
