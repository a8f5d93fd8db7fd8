"""``stepwell replay``."""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import orjson

from stepwell.assembly.settings import Settings
from stepwell.assembly.stores import POLICIES
from stepwell.cli.options import Subparsers, add_settings_options, needs, read_settings
from stepwell.cli.studying import (
    add_cache_option,
    opened,
    progress_of,
    rules_of,
)
from stepwell.core.errors import ConfigError

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.study.arm import Question
    from stepwell.study.lines import LineFile
    from stepwell.study.replaying import Bounds, Replay

_DESCRIPTION = """\
Play a trace to a cache of each level, and judge every hit by the labels: how many hits, how many of
them wrong, how much of what could be reused was. Asks no model server.

TRACE holds a JSON object a line, in order: {"text": ..., "answer_key": ...}. Two texts may share an
answer if their answer_key is the same, and only then. The first of a key is a miss, and stored.
"model", "system" and "t_ms" are optional; text may be a list of messages, or a request body.

exact only, strict, general and faq take every question, whatever its request class, so that levels
can be compared. as configured is what a gateway with these settings would do: a class that is never
cached is not, each other one has its own level. How long answers are fresh is --ttl for all.
"""

_EXAMPLES = """\
examples:
  stepwell replay trace.jsonl
  stepwell replay phrasings.jsonl --zipf 0.9 --requests 20000 --seed 1
  stepwell replay trace.jsonl --max-entries 1000 --policy lru --json
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "replay",
        help="play a labelled trace to a cache of each level",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", metavar="TRACE", help="a JSON object a line; gzipped or not; - for stdin"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--zipf",
        type=float,
        metavar="S",
        help="draw the requests: the answer of rank r as often as r to the power of -S, then one"
        " of its phrasings; default: the file, as it stands",
    )
    parser.add_argument(
        "--requests", type=int, metavar="N", help="how many to draw; default: 20000"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the drawing")
    parser.add_argument(
        "--ttl", type=float, metavar="SECONDS", help="how long answers are fresh; default: for ever"
    )
    parser.add_argument(
        "--max-entries", type=int, metavar="N", help="answers each cache holds; default: all"
    )
    parser.add_argument(
        "--policy", choices=sorted(POLICIES), default="adaptive", help="what leaves first"
    )
    parser.add_argument(
        "--sample-share",
        type=float,
        metavar="P",
        help="judge so many of the semantic hits, from 0 to 1, by their labels, and learn from it;"
        " default: semantic.sample_share of the settings",
    )
    add_cache_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Replay."""
    _check(options)
    with needs("semantic"):
        _tell(asyncio.run(_replay(read_settings(options), options)), as_json=options.json)
    return 0


def _check(options: argparse.Namespace) -> None:
    positive = {
        "--zipf": options.zipf,
        "--requests": options.requests,
        "--ttl": options.ttl,
        "--max-entries": options.max_entries,
    }
    for name, value in positive.items():
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{name} is {value}; allowed: a number above 0.")
    if options.sample_share is not None and not 0 <= options.sample_share <= 1:
        raise ConfigError(f"--sample-share is {options.sample_share}; allowed: from 0 to 1.")
    if options.seed < 0:
        raise ConfigError(f"--seed is {options.seed}; allowed: 0 and more.")
    if options.requests is not None and options.zipf is None:
        raise ConfigError("--requests goes with --zipf.")


async def _replay(settings: Settings, options: argparse.Namespace) -> "Replay":
    from stepwell.study.lines import LineFile  # noqa: PLC0415  (an extra)
    from stepwell.study.replaying import Replayer  # noqa: PLC0415

    with LineFile(options.file) as file:
        async with opened(settings, options.cache) as found:
            replayer = Replayer(
                found.semantics,
                bounds=_bounds(options),
                sample_share=_sample_share(settings, options),
            )
            progress = progress_of("requests")
            wanted = None if options.zipf is None else options.requests or _DRAWN

            def show(done: int) -> None:
                progress.update(done, file.share if wanted is None else done / wanted)

            try:
                await replayer.play(_stream(settings, options, file), show)
            finally:
                progress.end()
            return await replayer.result(found.parts.embedder)


_DRAWN = 20_000


def _stream(
    settings: Settings, options: argparse.Namespace, file: "LineFile"
) -> Iterator["Question"]:
    from stepwell.study.lines import rows  # noqa: PLC0415  (an extra)
    from stepwell.study.trace import drawn_by_zipf, questions  # noqa: PLC0415

    placed = ((file.place, row) for row in rows(file))
    stream = questions(placed, rules_of(settings), options.ttl or float("inf"))
    if options.zipf is None:
        return stream
    return drawn_by_zipf(stream, options.zipf, options.requests or _DRAWN, options.seed)


def _sample_share(settings: Settings, options: argparse.Namespace) -> float:
    given: float | None = options.sample_share
    return settings.semantic.sample_share if given is None else given


def _bounds(options: argparse.Namespace) -> "Bounds | None":
    from stepwell.study.replaying import Bounds  # noqa: PLC0415  (an extra)

    if options.max_entries is None:
        return None
    return Bounds(options.max_entries, POLICIES[options.policy])


def _tell(replay: "Replay", *, as_json: bool) -> None:
    from stepwell.study import replaying  # noqa: PLC0415  (an extra)

    if as_json:
        told = orjson.dumps(replaying.as_json(replay), option=orjson.OPT_INDENT_2)
        sys.stdout.write(told.decode() + "\n")
    else:
        sys.stdout.write(replaying.as_text(replay))
