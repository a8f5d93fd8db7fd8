"""``stepwell serve``."""

import argparse
import sys

from stepwell.cli.options import (
    Subparsers,
    add_redis_option,
    add_settings_options,
    add_upstream_option,
    needs,
    read_settings,
)

_DESCRIPTION = """\
Run the gateway until it is stopped (Ctrl-C, SIGTERM). It is ready when /readyz answers 200.

Without --upstream it answers with the embedded model; with it, that server answers. Point any
OpenAI client at it: base_url = http://HOST:PORT/v1. Each client's API key is a tenant of its own.
Every option overrides the settings file; `stepwell config show` prints what is in force.
"""

_EXAMPLES = """\
examples:
  stepwell serve
  stepwell serve --upstream http://127.0.0.1:8000/v1 --port 9000 --workers 2
  stepwell serve --redis redis://10.0.0.5:6379
  stepwell serve --config stepwell.toml
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "serve",
        help="run the gateway",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_upstream_option(parser)
    parser.add_argument("--host", metavar="H", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", metavar="P", type=int, help="port to listen on (default: 8080; 0: any)"
    )
    parser.add_argument("--workers", metavar="N", type=int, help="worker processes (default: 1)")
    add_redis_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve."""
    with needs("gateway"):
        from stepwell.assembly.serve import serve  # noqa: PLC0415  (an extra)
    serve(read_settings(options), lambda line: print(line, file=sys.stderr, flush=True))
    return 0
