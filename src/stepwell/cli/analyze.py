"""``stepwell analyze``."""

import argparse
import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from stepwell.assembly.rules import prices_of
from stepwell.assembly.settings import Settings
from stepwell.cli.options import Subparsers, add_settings_options, needs, read_settings
from stepwell.cli.studying import (
    add_cache_option,
    check_outputs,
    opened,
    progress_of,
    rules_of,
)
from stepwell.core.errors import ConfigError

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.study.analysis.analyzer import Analyzer

_DESCRIPTION = """\
Say what caching would have saved on the requests of a log: the same ones again, the same in other
words at each level, prompts that begin alike; in requests, tokens, seconds and money; by class and
hour; and which pairs a person should look at. Asks no model server, and sends nothing anywhere.

LOG holds a line for each request, in order of time, gzipped or not, in one of these shapes:

  {"timestamp": ..., "body": {...}}     also ts, time, t_ms, created; also request, request_body;
                                        perhaps with response, usage, latency, status
  {"model": ..., "messages": [...]}     a body, alone or with such fields beside it
  {"prompt": "..."}  or plain text      questions only

Classes, time to live, prices and what counts as the same come from the settings file. Without
times, answers never expire. The report holds words of the log: keep it as you keep the log.
"""

_EXAMPLES = """\
examples:
  stepwell analyze requests.jsonl.gz --html report.html
  stepwell analyze day1.jsonl day2.jsonl --config stepwell.toml --json report.json --cache vectors
  stepwell analyze requests.jsonl --exact-only
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "analyze",
        help="say what caching would have saved on a log",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="LOG", help="in order of time; - for stdin")
    parser.add_argument("--html", type=Path, metavar="OUT", help="write a report to look at")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures")
    parser.add_argument(
        "--exact-only", action="store_true", help="compare nothing by meaning: much faster"
    )
    parser.add_argument(
        "--max-entries",
        type=int,
        default=100_000,
        metavar="N",
        help="answers each cache holds, the least recently used leave first; default: 100000",
    )
    parser.add_argument(
        "--tenant-field",
        default="tenant",
        metavar="NAME",
        help="field of the log that says whose a request is; answers are shared within; "
        "default: tenant",
    )
    add_cache_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Analyze."""
    if options.max_entries < 1:
        raise ConfigError(f"--max-entries is {options.max_entries}; allowed: 1 and more.")
    if options.html is not None and options.html == options.json:
        raise ConfigError(
            f"--html and --json are both {options.html}; give each a file of its own."
        )
    with needs("semantic"):
        check_outputs(options.files, options.html, options.json)
        figures = asyncio.run(_analyze(read_settings(options), options))
        _tell(figures, options)
    return 0


async def _analyze(settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    from stepwell.study.analysis.analyzer import Analyzer  # noqa: PLC0415  (an extra)
    from stepwell.study.analysis.figures import figures  # noqa: PLC0415
    from stepwell.study.analysis.findings import Run  # noqa: PLC0415

    started, prices = time.monotonic(), prices_of(settings)
    async with AsyncExitStack() as stack:
        found = None
        if not options.exact_only:
            found = await stack.enter_async_context(opened(settings, options.cache))
        analyzer = Analyzer(
            rules_of(settings),
            prices,
            semantics=None if found is None else found.semantics,
            max_entries=options.max_entries,
            tenant_field=options.tenant_field,
        )
        await _read(analyzer, options.files)
    run = Run(
        files=tuple(options.files),
        model_id="" if found is None else found.known.model_id,
        levels={} if found is None else found.parts.calibration.min_similarity,
        currency=prices.currency,
        seconds=time.monotonic() - started,
        embedded=0 if found is None else found.known.embedded,
        failed=0 if found is None else found.known.failed,
        max_entries=options.max_entries,
    )
    return figures(analyzer.finish(), run)


async def _read(analyzer: "Analyzer", files: list[str]) -> None:
    from stepwell.study.lines import LineFile  # noqa: PLC0415  (an extra)

    progress = progress_of("lines")
    try:
        for number, name in enumerate(files):
            with LineFile(name) as file:

                def show(done: int, file: LineFile = file, before: int = number) -> None:
                    share = file.share
                    progress.update(done, None if share is None else (before + share) / len(files))

                await analyzer.read(file, show)
    finally:
        progress.end()


def _tell(figures: dict[str, Any], options: argparse.Namespace) -> None:
    from stepwell.study.analysis.page import as_html  # noqa: PLC0415  (an extra)
    from stepwell.study.analysis.text import as_text  # noqa: PLC0415
    from stepwell.study.output import written_aside  # noqa: PLC0415

    if options.json is not None:
        with written_aside(options.json) as file:
            file.write(
                orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
            )
    if options.html is not None:
        with written_aside(options.html) as file:
            file.write(as_html(figures).encode("utf-8", "replace"))
    sys.stdout.write(as_text(figures))
