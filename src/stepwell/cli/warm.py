"""``stepwell warm``."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stepwell.assembly.settings import Settings
from stepwell.assembly.settings_prefix import WarmPrompt
from stepwell.cli.options import (
    Subparsers,
    add_redis_option,
    add_settings_options,
    needs,
    read_settings,
)
from stepwell.core.errors import ConfigError, RequestError, UpstreamError
from stepwell.core.steering import ReplicaReport, SupportsReplicas
from stepwell.pipeline.short_reply import Refused
from stepwell.pipeline.warm_up import StandingPrompt, read_once
from stepwell.telemetry.tables import table

_DESCRIPTION = """\
Have every replica read a system prompt, so that requests find it in its prefix cache. Each replica
is asked twice for one token, one after the other: the first reply says how much of the prompt was
cached before, the second how much is now.

Without --system it reads those of [[prefix.warm]] in the settings, which a running gateway keeps
warm by itself. It asks the model servers and not the gateway, with the gateway's settings, secret
and salts; replicas that drain are left out. A running gateway learns of it by what the replicas
report.

  cached before, cached now   tokens of the prompt, as the server says; - where it does not say.
                              The words of the user, some ten tokens, are never cached
"""

_EXAMPLES = """\
examples:
  stepwell warm --config stepwell.toml
  stepwell warm --system prompts/support.txt --model Qwen/Qwen3-8B --config stepwell.toml
  stepwell warm --system prompts/support.txt --tools tools.json --model m --tenant team-a
"""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "warm",
        help="have model servers read system prompts ahead",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--system", type=Path, metavar="FILE", help="the system prompt, as requests have it"
    )
    parser.add_argument("--tools", type=Path, metavar="FILE", help="their list of tools, in JSON")
    parser.add_argument("--model", metavar="NAME", help="the model's name, as requests give it")
    parser.add_argument(
        "--upstream",
        dest="upstream_name",
        metavar="NAME",
        help="whose replicas; default: the upstream that serves the model",
    )
    parser.add_argument("--tenant", metavar="NAME", help="whose requests (auth.mode keys)")
    add_redis_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Warm; 1 if a replica could not."""
    return asyncio.run(_warm_all(_settings(read_settings(options), options)))


def _settings(settings: Settings, options: argparse.Namespace) -> Settings:
    """Return the settings with the prompt of the command line in place of theirs, if it has one."""
    others = (options.tools, options.model, options.upstream_name, options.tenant)
    if options.system is None:
        if any(other is not None for other in others):
            raise ConfigError("--system is missing; --tools, --model, ... speak of its prompt.")
        if not settings.prefix.warm:
            raise ConfigError("Nothing to warm: neither --system nor [[prefix.warm]] is there.")
        return settings
    if options.model is None:
        raise ConfigError("--model is missing: the model's name, as requests give it.")
    only = WarmPrompt(
        model=options.model,
        system_file=str(options.system.absolute()),
        tools_file=None if options.tools is None else str(options.tools.absolute()),
        upstream=options.upstream_name,
        tenant=options.tenant,
    )
    prefix = msgspec.structs.replace(settings.prefix, warm=(only,))
    return msgspec.structs.replace(settings, prefix=prefix)


async def _warm_all(settings: Settings) -> int:
    with needs("gateway"):
        from stepwell.assembly.offline import offline_house  # noqa: PLC0415  (an extra)
        from stepwell.assembly.standing import standing_prompts  # noqa: PLC0415
        from stepwell.assembly.warm_up import followed  # noqa: PLC0415
    failures: list[str] = []
    rows = [["prompt", "upstream", "replica", "tokens", "cached before", "cached now"]]
    async with offline_house(settings) as house:
        upstreams = followed(house.targets)
        for prompt in standing_prompts(settings, house.secret):
            _check_reachable(prompt, settings)
            for report in upstreams[prompt.upstream].reports():
                rows.append([prompt.name, prompt.upstream, report.replica])
                rows[-1] += await _warm(upstreams, prompt, report, failures)
    sys.stdout.write(table(rows) + "\n")
    for failure in failures:
        print(f"stepwell: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _check_reachable(prompt: StandingPrompt, settings: Settings) -> None:
    """Refuse a model that runs inside the gateway, where no other process has its key."""
    kind = settings.upstreams[prompt.upstream].kind
    if kind != "openai":
        raise ConfigError(
            f"upstreams.{prompt.upstream} is of kind {kind!r}: it runs in the gateway only, which"
            " warms it by itself. Put the prompt into [[prefix.warm]]."
        )


async def _warm(
    upstreams: Mapping[str, SupportsReplicas],
    prompt: StandingPrompt,
    report: ReplicaReport,
    failures: list[str],
) -> list[str]:
    """Return what a replica says of the prompt, and note what failed."""
    if report.condition != "ready":
        return ["", report.condition, ""]
    upstream = upstreams[prompt.upstream]
    try:
        before = await read_once(upstream, report.replica, prompt)
        after = await read_once(upstream, report.replica, prompt)
    except (UpstreamError, RequestError, Refused) as error:
        failures.append(f"{report.replica}: {error}")
        return ["", "failed", ""]
    cached = [
        "-" if usage.cached_tokens is None else f"{usage.cached_tokens:,}"
        for usage in (before, after)
    ]
    return [f"{after.prompt_tokens:,}", *cached]
