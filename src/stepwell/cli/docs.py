"""``stepwell docs``."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.assembly.checks import data_directory
from stepwell.cli.docs_text import (
    as_row,
    collections_as_text,
    failed_as_line,
    passage_as_row,
    passages_as_text,
    summary_as_row,
    summary_as_text,
)
from stepwell.cli.failures import OnStandardError
from stepwell.cli.json_text import print_json
from stepwell.cli.options import (
    Subparsers,
    add_place_options,
    needs,
    read_settings,
)
from stepwell.core.errors import ConfigError

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.client.documents import Documents
    from stepwell.embedding.documents.summary import Summary

    Action = Callable[[Documents, argparse.Namespace], Awaitable[int]]
else:
    Action = object

_DESCRIPTION = """\
Keep collections of documents that are searched by meaning; `stepwell rag` answers from them.
Documents and their vectors are in the data directory, or in PostgreSQL with --postgres.

  sync SOURCE       bring a collection in step with a directory, or with a file of JSON lines. Only
                    chunks that are new are embedded; what is not there any more is taken out
  list              show all collections
  search QUESTION   show the passages nearest to a question
  rename OLD NEW    call a collection otherwise; runs that fill it go on
  drop NAME         remove a collection; without --yes it only shows what would go
"""

_SYNC = """\
Bring a collection in step with SOURCE, and make it if need be.

SOURCE is a directory, of which all files *.md, *.markdown, *.rst and *.txt are read, hidden ones
left out; or a file *.jsonl with an object a line: {"id": ..., "text": ...}, and if you like
"metadata", an object, and "updated_at", seconds since 1970 or a time such as 2026-01-31T12:00:00Z.

A document is made anew when its text is another; times do not count. What cannot be read or
embedded stays as it was, is told on standard error, and makes the exit status 1. Ctrl-C stops the
run: what it has done stays, and the next run does the rest.
"""

_EXAMPLES = """\
examples:
  stepwell docs sync docs/ --collection manual
  stepwell docs sync articles.jsonl --collection help --postgres postgresql://localhost/vectors
  stepwell docs sync docs/ --collection manual --dry-run --json
  stepwell docs search "How do I get a refund?" --collection manual
"""

_TOP = 5


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "docs",
        help="keep collections of documents, and search them",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    sync = _action(actions, "sync", _sync, "bring a collection in step with a source", _SYNC)
    sync.add_argument("source", type=Path, metavar="SOURCE", help="directory, or *.jsonl")
    sync.add_argument("--collection", metavar="NAME", required=True, help="which, or a new one")
    sync.add_argument(
        "--allow-empty", action="store_true", help="take out everything if SOURCE has nothing"
    )
    sync.add_argument("--dry-run", action="store_true", help="only say what would be done")
    _action(actions, "list", _list, "show all collections")
    search = _action(actions, "search", _search, "show the passages nearest to a question")
    search.add_argument("question", metavar="QUESTION")
    search.add_argument("--collection", metavar="NAME", required=True, help="where to search")
    search.add_argument(
        "--top", type=int, default=_TOP, metavar="N", help=f"passages; default: {_TOP}"
    )
    rename = _action(actions, "rename", _rename, "call a collection otherwise")
    rename.add_argument("name", metavar="OLD")
    rename.add_argument("new", metavar="NEW")
    drop = _action(actions, "drop", _drop, "remove a collection")
    drop.add_argument("name", metavar="NAME")
    drop.add_argument("--yes", action="store_true", help="do it; else only show what would go")


def _action(
    actions: Subparsers, name: str, run: Action, summary: str, description: str = ""
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name,
        help=summary,
        description=description or f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_place_options(parser)
    parser.set_defaults(run=partial(_run, run))
    return parser


def _run(action: Action, options: argparse.Namespace) -> int:
    async def run() -> int:
        async with _opened(options) as documents:
            return await action(documents, options)

    return asyncio.run(run())


@asynccontextmanager
async def _opened(options: argparse.Namespace) -> AsyncIterator["Documents"]:
    with needs("embedding"):
        from stepwell.client.documents import Documents  # noqa: PLC0415
    settings = read_settings(options)
    directory = data_directory(settings)
    makes = getattr(options, "source", None) is not None
    if settings.stores.postgres.url is None and not makes and not directory.is_dir():
        raise ConfigError(
            f"data_dir: there is no {directory}; has `stepwell docs sync` run with it? Or name"
            " --postgres."
        )
    async with Documents(settings, data_dir=directory, events=OnStandardError()) as documents:
        yield documents


async def _sync(documents: "Documents", options: argparse.Namespace) -> int:
    if options.dry_run:
        summary = await documents.foresee(options.collection, options.source)
    else:
        summary = await _really_sync(documents, options)
    if options.json:
        print_json(summary_as_row(options.collection, summary))
    else:
        sys.stdout.write(summary_as_text(options.collection, summary, dry=options.dry_run))
    for failed in summary.failed:
        print(f"stepwell: {failed_as_line(failed, options.source)}", file=sys.stderr)
    if summary.unforgotten:
        print(
            f"stepwell: the vectors of {summary.unforgotten} texts that are gone could not be"
            " deleted from the embedding cache",
            file=sys.stderr,
        )
    return 1 if summary.failed or summary.unforgotten else 0


async def _really_sync(documents: "Documents", options: argparse.Namespace) -> "Summary":
    from stepwell.study.progress import Progress  # noqa: PLC0415

    progress = Progress("documents", sys.stderr)
    try:
        return await documents.sync(
            options.collection,
            options.source,
            allow_empty=options.allow_empty,
            on_progress=lambda summary: progress.update(summary.documents, None),
        )
    except asyncio.CancelledError:
        print(
            "stepwell: stopped; what was done stays, and the next run does the rest.",
            file=sys.stderr,
        )
        raise
    finally:
        progress.end()


async def _list(documents: "Documents", options: argparse.Namespace) -> int:
    rows = [(state, await documents.figures(state)) for state in await documents.collections()]
    if options.json:
        print_json([as_row(*row) for row in rows])
    else:
        sys.stdout.write(collections_as_text(rows))
    return 0


async def _search(documents: "Documents", options: argparse.Namespace) -> int:
    passages = await documents.search(options.collection, options.question, top=options.top)
    if options.json:
        print_json([*map(passage_as_row, passages)])
    else:
        sys.stdout.write(passages_as_text(passages))
    return 0


async def _rename(documents: "Documents", options: argparse.Namespace) -> int:
    await documents.rename(options.name, options.new)
    if options.json:
        print_json({"name": options.new, "was": options.name})
    else:
        print(f"{options.name} is called {options.new} now")
    return 0


async def _drop(documents: "Documents", options: argparse.Namespace) -> int:
    state = await documents.collection(options.name)
    figures = await documents.figures(state)
    kept = await documents.drop(options.name) if options.yes else 0
    if options.json:
        print_json({**as_row(state, figures), "dropped": options.yes})
    else:
        what = f"{options.name}: {figures.documents:,} documents"
        print(f"{what} are gone" if options.yes else f"{what} would go; --yes does it")
    if kept:
        print(f"stepwell: the embedding cache keeps vectors of {kept} texts", file=sys.stderr)
    return 1 if kept else 0
