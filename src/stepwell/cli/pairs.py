"""``stepwell pairs``."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import orjson

from stepwell.assembly.settings import Settings
from stepwell.cli.options import Subparsers, add_settings_options, needs, read_settings
from stepwell.cli.studying import (
    add_cache_option,
    check_outputs,
    opened,
    progress_of,
    scheme_of,
)
from stepwell.core.names import Level

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.study.lines import LineFile
    from stepwell.study.pairs import Pairs

_DESCRIPTION = """\
Say for pairs of questions whether the answer to the first would be given to the second. Each pair
is on its own: the answer to a is stored, then b is asked. Asks no model server.

The level of --level counts for all, request classes do not: a pair may be a hit though a gateway
never caches questions of its class, such as `factual` ones. `stepwell explain` says the class.

FILE holds a JSON object a line, {"a": ..., "b": ...}; both are texts, lists of messages, or request
bodies; other fields are ignored. Written is a line for each, in order:

  {"hit": false, "similarity": 0.962, "refused_by": "number"}

similarity is the cosine of the two, from 0 to 1: 1 if they are the same question to the exact
layer, 0 if one of them has no vector. refused_by says what spoke against it:

  similarity               not alike enough for the level
  language, literal, number, date, negation, antonym, modality, entity, order, scope,
  instruction, question    the safety valve found a difference of this kind
  comparison               token by token they do not look the same
  temperature, partition   the requests differ there, or elsewhere than in their last words
  no words                 b is no question in words
  empty, unknown-tokens, over-window, embedder
                           one of them has no vector: why, or the embedder failed at it

In the end a line on standard error counts the pairs, the hits, and what refused the others.
"""

_EXAMPLES = """\
examples:
  stepwell pairs questions.jsonl --out verdicts.jsonl
  stepwell pairs questions.jsonl.gz --level strict | jq -c 'select(.hit)'
"""


_STANDARD_OUTPUT = Path("/dev/stdout")


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "pairs",
        help="say which questions would share an answer",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", metavar="FILE", help="pairs, a JSON object a line; gzipped or not; - for stdin"
    )
    parser.add_argument(
        "--level",
        choices=get_args(Level),
        default="general",
        help="how alike two questions must be; default: general",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=_STANDARD_OUTPUT,
        metavar="OUT",
        help="file to write, once all is done; default: standard output, as it comes",
    )
    add_cache_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare."""
    with needs("semantic"):
        check_outputs([options.file], options.out)
        asyncio.run(_run(read_settings(options), options))
    return 0


async def _run(settings: Settings, options: argparse.Namespace) -> None:
    from stepwell.study.lines import LineFile  # noqa: PLC0415  (an extra)
    from stepwell.study.pairs import Pairs  # noqa: PLC0415

    with LineFile(options.file) as file:
        async with opened(settings, options.cache) as found:
            pairs = Pairs(found.semantics, scheme_of(settings), options.level)
            await _write(pairs, file, options.out)


async def _write(pairs: "Pairs", file: "LineFile", out: Path) -> None:
    from stepwell.study.output import written_aside  # noqa: PLC0415  (an extra)

    progress, outcomes = progress_of("pairs"), Counter[str | None]()
    try:
        with written_aside(out) as lines:
            async for comparison in pairs.compare(_placed(file)):
                lines.write(orjson.dumps(comparison.as_row(), option=orjson.OPT_APPEND_NEWLINE))
                outcomes[comparison.refused_by] += 1
                progress.update(outcomes.total(), file.share)
    finally:
        progress.end()
    print(_summary(outcomes), file=sys.stderr)


def _summary(outcomes: Counter[str | None]) -> str:
    """Return the counts on one line; a hit is refused by ``None``."""
    text = f"{outcomes.total():,} pairs, {outcomes[None]:,} hits"
    refused = [f"{why} {count:,}" for why, count in outcomes.most_common() if why is not None]
    return f"{text}; refused by {', '.join(refused)}" if refused else text


def _placed(file: "LineFile") -> Iterator[tuple[str, Mapping[str, Any]]]:
    from stepwell.study.lines import rows  # noqa: PLC0415  (an extra)

    return ((file.place, row) for row in rows(file))
