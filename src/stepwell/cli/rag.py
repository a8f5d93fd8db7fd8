"""``stepwell rag``."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.assembly.checks import data_directory
from stepwell.assembly.settings import Settings
from stepwell.cli.failures import OnStandardError
from stepwell.cli.json_text import print_json
from stepwell.cli.options import (
    Subparsers,
    add_place_options,
    add_upstream_option,
    needs,
    read_settings,
)
from stepwell.cli.rag_text import reply_as_row, reply_as_text
from stepwell.core.errors import ConfigError
from stepwell.engines.embedded import MODEL

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.rag.reply import Reply
    from stepwell.rag.template import Template

_DESCRIPTION = """\
Answer questions from a collection of documents, which `stepwell docs sync` fills.
"""

_ASK = """\
Answer a question by the passages of a collection that are nearest to it, and show where the answer
comes from, when those documents last changed, and what each stage took:

  memo        what the same question came to, while no document has changed
  embedding   the question's vector
  search      the passages nearest to it
  result      the answer to this question by these passages
  model       the model's answer

A stage is a hit, in the tier that is named; or a miss; or skipped, since an earlier one knew. An
answer is kept under its question, its passages, the prompt and the model: when a document changes,
answers by its passages are made anew, and no others.

Without --upstream the embedded model answers; it is small, and shows the way rather than the goal.
"""

_EXAMPLES = """\
examples:
  stepwell docs sync docs/ --collection manual
  stepwell rag ask "How do I get a refund?" --collection manual
  stepwell rag ask "如何退款？" --collection manual --json
  stepwell rag ask "How do I get a refund?" --collection manual \\
      --upstream http://127.0.0.1:8000/v1 --model Qwen/Qwen3-8B
"""

_TOP = 5
_MOST = 100

_SMALL_BYTES = 4_000
"""Of passages for the embedded model: it reads a hundred tokens a second or so."""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "rag",
        help="answer questions from documents",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    ask = actions.add_parser(
        "ask",
        help="answer a question",
        description=_ASK,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ask.add_argument("question", metavar="QUESTION")
    ask.add_argument("--collection", metavar="NAME", required=True, help="where to search")
    ask.add_argument(
        "--top", type=int, default=_TOP, metavar="N", help=f"passages; default: {_TOP}"
    )
    add_upstream_option(ask)
    ask.add_argument("--model", metavar="NAME", help="as the model server calls it")
    add_place_options(ask)
    ask.set_defaults(run=run_ask)


def run_ask(options: argparse.Namespace) -> int:
    """Answer a question."""
    if not 1 <= options.top <= _MOST:
        raise ConfigError(f"--top is {options.top}; allowed: 1 to {_MOST}.")
    settings = read_settings(options)
    directory = data_directory(settings)
    if settings.stores.postgres.url is None and not directory.is_dir():
        raise ConfigError(
            f"data_dir: there is no {directory}; has `stepwell docs sync` run with it? Or name"
            " --postgres."
        )
    reply = asyncio.run(_ask(options, settings, directory))
    if options.json:
        print_json(reply_as_row(options.question, reply))
    else:
        sys.stdout.write(reply_as_text(reply))
    return 0


async def _ask(options: argparse.Namespace, settings: Settings, directory: Path) -> "Reply":
    with needs("embedding"):
        from stepwell.rag.opening import open_rag  # noqa: PLC0415
    opening = open_rag(
        settings,
        directory,
        options.collection,
        _template(options, settings),
        top=options.top,
        events=OnStandardError(),
    )
    async with opening as rag:
        return await rag.ask(options.question)


def _template(options: argparse.Namespace, settings: Settings) -> "Template":
    from stepwell.rag.template import SMALL_MODEL, Template  # noqa: PLC0415  (an extra)

    if any(table.kind != "embedded" for table in settings.upstreams.values()):
        if options.model is None:
            raise ConfigError("--model is not given; name the model as its server does.")
        return Template(options.model)
    if options.model not in {None, MODEL}:
        raise ConfigError(
            f"--model is {options.model!r}, and there is no server that may have it: name one by"
            f" --upstream; the embedded model is {MODEL!r}."
        )
    return Template(MODEL, parameters=SMALL_MODEL, max_bytes=_SMALL_BYTES)
