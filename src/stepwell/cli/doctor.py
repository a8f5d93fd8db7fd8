"""``stepwell doctor``."""

import argparse
import sys
from pathlib import Path

import orjson

from stepwell.cli.options import Subparsers
from stepwell.cli.studying import check_outputs, progress_of
from stepwell.policy.prompt_shape.reshaping import Rewrite
from stepwell.study.doctor.doctor import Doctor
from stepwell.study.doctor.figures import figures
from stepwell.study.doctor.reading import single_request
from stepwell.study.doctor.text import as_text
from stepwell.study.lines import LineFile
from stepwell.study.output import written_aside

_DESCRIPTION = """\
Say where the prompts of a log part although they go on alike: time stamps, ids, counters, the order
of tools, of JSON keys and of documents, white space, thoughts. How many tokens each costs, because
engines reuse only what is the same from the first token on; and which rewrite mends it. Asks no
model server, and sends nothing anywhere.

LOG holds a line for each request, in order of time, as for stepwell analyze. Of a single request,
also one that is written over several lines, it says what in its head is likely to change.

"tokens lost" puts each token down to one cause, the last before it: what is lost to the second
break of a prompt comes back only if the first is mended, too. "alone" is what a cause would save if
nothing else were mended.
"""

_EXAMPLES = """\
examples:
  stepwell doctor requests.jsonl.gz
  stepwell doctor request.json
  stepwell doctor requests.jsonl --rewrite timestamps --rewrite tools --json findings.json
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="say what keeps prompts from sharing a prefix",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="LOG", help="in order of time; - for stdin")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures")
    parser.add_argument(
        "--rewrite",
        action="append",
        choices=[str(rewrite) for rewrite in Rewrite],
        help="a rewrite to try; may be repeated; default: all",
    )
    parser.add_argument(
        "--tenant-field",
        default="tenant",
        metavar="NAME",
        help="field of the log that says whose a request is; prompts are compared within; "
        "default: tenant",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look for what parts prompts."""
    check_outputs(options.files, options.json)
    rewrites = [Rewrite(name) for name in options.rewrite or Rewrite]
    doctor = Doctor(rewrites, tenant_field=options.tenant_field)
    only = single_request(options.files[0], options.tenant_field)
    if only is not None and len(options.files) == 1:
        doctor.take(only)
    else:
        _read(doctor, options.files)
    found = figures(doctor.findings)
    if options.json is not None:
        with written_aside(options.json) as out:
            out.write(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    sys.stdout.write(as_text(found))
    return 0


def _read(doctor: Doctor, files: list[str]) -> None:
    progress = progress_of("lines")
    try:
        for number, name in enumerate(files):
            with LineFile(name) as file:

                def show(done: int, file: LineFile = file, before: int = number) -> None:
                    share = file.share
                    progress.update(done, None if share is None else (before + share) / len(files))

                doctor.read(file, show)
    finally:
        progress.end()
