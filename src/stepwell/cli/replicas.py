"""``stepwell replicas``."""

import argparse
import sys
from typing import Any

import msgspec

from stepwell.cli.admin_client import AdminClient, add_gateway_options, client_for
from stepwell.cli.options import Subparsers, add_settings_options, read_settings
from stepwell.core.errors import ConfigError
from stepwell.core.steering import ReplicaReport, Wanted
from stepwell.study.terminal import plain
from stepwell.telemetry.tables import share, table

_DESCRIPTION = """\
Show the replicas of a running gateway's upstreams; take one out of service, or back into it.

It asks the gateway at server.host and server.port of the settings, or at --gateway; where the
settings name server.admin_token_env, with the token in that variable. What is shown is what the
worker that answers has seen; a gateway of several workers sums up on /metrics.

  condition   ready; draining: an operator wants it to have no new work; down: it could not be
              reached, and is tried again after so many seconds
  in flight   requests at work there, those with much to prefill counted more
  holds       tokens of prompts that it is believed to have in its prefix cache
  cached      share of the prompts' tokens that it reported as cached
  as foretold share of the tokens foretold to be cached that were

--drain and --serve are obeyed by all workers, and by all gateways that share a Redis. What is under
way is finished. While no other replica is ready, one that drains gets work all the same.
"""

_EXAMPLES = """\
examples:
  stepwell replicas
  stepwell replicas --drain 10.0.0.1:8000          before its server is stopped
  stepwell replicas --serve 10.0.0.1:8000          when it is back
  stepwell replicas --gateway https://gateway.example --admin-token-env TOKEN --json
"""

_ROUTE = "/admin/replicas"
_MAX_NAME, _MAX_KNOWN = 100, 1_000


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "replicas",
        help="show the replicas of model servers, drain one",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--drain", metavar="REPLICA", help="give a replica no new work")
    change.add_argument("--serve", metavar="REPLICA", help="give it work again")
    parser.add_argument(
        "--upstream",
        dest="upstream_name",
        metavar="NAME",
        help="the upstream, where several have such a replica",
    )
    add_gateway_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show, or move."""
    client = client_for(options, read_settings(options).server)
    if options.drain is not None:
        _move(client, options.drain, options.upstream_name, Wanted.DRAINING)
    elif options.serve is not None:
        _move(client, options.serve, options.upstream_name, Wanted.SERVING)
    said = client.get(_ROUTE)
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(said)).decode() + "\n")
    else:
        sys.stdout.write(_as_text(_reports(said)))
    return 0


def _move(client: AdminClient, name: str, upstream: str | None, wanted: Wanted) -> None:
    """Say what is wanted of a replica.

    Raises:
        ConfigError: There is no such one, or more than one.
    """
    reports = _reports(client.get(_ROUTE))
    found = [
        report
        for report in reports
        if report.replica == name and upstream in {None, report.upstream}
    ]
    if not found:
        known = ", ".join(f"{report.replica} ({report.upstream})" for report in reports)
        raise ConfigError(f"No replica {name!r}; known: {plain(known, _MAX_KNOWN) or 'none'}.")
    if len(found) > 1:
        upstreams = ", ".join(report.upstream for report in found)
        raise ConfigError(
            f"Several upstreams have a replica {name!r}; add --upstream: {upstreams}."
        )
    (report,) = found
    body = {"upstream": report.upstream, "replica": report.replica, "state": wanted}
    moved = client.post(_ROUTE, body).get("moved")
    said = "is" if moved else "was already"
    print(f"{report.replica} of {report.upstream} {said} {wanted}.", file=sys.stderr)


def _reports(said: Any) -> list[ReplicaReport]:  # noqa: ANN401  (any JSON)
    try:
        return msgspec.convert(said["replicas"], list[ReplicaReport])
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise ConfigError(
            "--gateway: it does not speak of replicas as this version does; is it another's?"
        ) from error


def _as_text(reports: list[ReplicaReport]) -> str:
    if not reports:
        return "No upstream has replicas; upstreams.NAME.replicas or .engine makes them.\n"
    head = [
        *("upstream", "replica", "condition", "in flight"),
        *("holds", "cached", "as foretold", "reports"),
    ]
    return table([head, *map(_row, reports)]) + "\n"


def _row(report: ReplicaReport) -> list[str]:
    agreed = report.agreed
    condition = report.condition
    if report.down_seconds:
        condition = f"{condition}, {report.down_seconds:.0f} s"
        if report.wanted is Wanted.DRAINING:
            condition += ", draining"
    return [
        plain(report.upstream, _MAX_NAME),
        plain(report.replica, _MAX_NAME),
        condition,
        f"{report.load:.1f}",
        f"{report.held_tokens:,}",
        _share(agreed.cached_tokens, agreed.prompt_tokens),
        _share(agreed.met_tokens, agreed.foretold_tokens),
        f"{agreed.requests:,}",
    ]


def _share(part: int, whole: int) -> str:
    return share(part / whole if whole else None)
