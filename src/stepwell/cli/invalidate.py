"""``stepwell invalidate``."""

import argparse
import asyncio

from stepwell.assembly.settings import Settings
from stepwell.cli.options import (
    Subparsers,
    add_redis_option,
    add_settings_options,
    needs,
    read_settings,
)
from stepwell.core.entry import Selector
from stepwell.gateway.selection import Invalidation, selector_of

_DESCRIPTION = """\
Make answers go: those that match everything given. Without --yes it only says how many that are.

Works on the data directory, or on the Redis that gateways share; running gateways obey at once, and
an answer that is on its way while you invalidate is not stored either.
"""

_EXAMPLES = """\
examples:
  stepwell invalidate --tag faq                 how many answers carry the tag
  stepwell invalidate --tag faq --yes           remove them
  stepwell invalidate --model gpt-4o --class faq --yes
  stepwell invalidate --tag faq --redis redis://10.0.0.5:6379 --yes     in all gateways there
  stepwell invalidate --key 0ded69...f483d --yes      as in the X-Stepwell-Key header
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "invalidate",
        help="make answers go",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--key", metavar="HEX", help="one entry, as in X-Stepwell-Key")
    parser.add_argument(
        "--namespace", metavar="HEX", help="one tenant's entries, as `tenant` in the log"
    )
    parser.add_argument("--model", metavar="NAME", help="answers of one model")
    parser.add_argument("--class", dest="request_class", metavar="NAME", help="of one class")
    parser.add_argument("--tag", metavar="NAME", help="answers that carry a tag")
    parser.add_argument("--everything", action="store_true", help="all entries; alone")
    parser.add_argument("--yes", action="store_true", help="do it, rather than count")
    add_redis_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Count, or remove."""
    selector = selector_of(
        Invalidation(
            key=options.key,
            namespace=options.namespace,
            model=options.model,
            request_class=options.request_class,
            tag=options.tag,
            everything=options.everything,
        )
    )
    matched = asyncio.run(_invalidate(read_settings(options), selector, really=options.yes))
    entries = "1 entry" if matched == 1 else f"{matched} entries"
    if options.yes:
        print(f"Removed {entries}.")
    else:
        print(f"Would remove {entries}. Nothing was removed; add --yes to do it.")
    return 0


async def _invalidate(settings: Settings, selector: Selector, *, really: bool) -> int:
    with needs("gateway"):
        from stepwell.assembly.offline import offline_house  # noqa: PLC0415  (an extra)
    async with offline_house(settings) as house:
        if really:
            return await house.exact.invalidate(selector)
        return await house.exact.count(selector)
