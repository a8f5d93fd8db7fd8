"""``stepwell warm``."""

import argparse
import asyncio
import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from stepwell.assembly.settings import Settings
from stepwell.assembly.settings_prefix import WarmPrompt
from stepwell.assembly.standing import standing_prompts, system_prompts, warmed_upstreams
from stepwell.cli.admin_client import AdminClient, add_gateway_options, client_for
from stepwell.cli.options import (
    Subparsers,
    add_redis_option,
    add_settings_options,
    needs,
    read_settings,
)
from stepwell.core.errors import ConfigError
from stepwell.gateway.warm import SystemPrompt
from stepwell.pipeline.warm_now import Failed, LeftOut, Read, Reading, WarmedNow, warm_now
from stepwell.study.terminal import plain
from stepwell.telemetry.tables import table

_DESCRIPTION = """\
Have every replica read a system prompt, so that requests find it in its prefix cache. Each replica
is asked twice for one token, one after the other: the first reply says how much of the prompt was
cached before, the second how much is now.

Without --system it reads those of [[prefix.warm]] in the settings, which a running gateway keeps
warm by itself. Replicas that drain or are down are left out.

With --gateway, a running gateway has them read it (POST /admin/warm). Without, only what runs in it
is read through it: models of kind embedded and torch. It is then the gateway of server.host and
server.port, asked with the token of server.admin_token_env if the settings name one. Other model
servers are asked from here, with the gateway's settings, secret and salts.

  seconds                     the first reading took
  cached before, cached now   tokens of the prompt, as the server says; - where it does not say.
                              The words of the user, some ten tokens, are never cached
"""

_EXAMPLES = """\
examples:
  stepwell warm --config stepwell.toml
  stepwell warm --system prompts/support.txt --model Qwen/Qwen3-8B --config stepwell.toml
  stepwell warm --system prompts/support.txt --tools tools.json --model m --tenant team-a
  stepwell warm --system prompts/support.txt --model m --gateway http://127.0.0.1:8080
"""


_ROUTE = "/admin/warm"
_HEAD = ["prompt", "upstream", "replica", "seconds", "tokens", "cached before", "cached now"]
_PATIENCE_SECONDS = 3_600.0
"""The gateway has bounds of its own for what a model server may take; several replicas read."""

_MAX_NAME, _MAX_WHY = 100, 1_000


@dataclass(frozen=True, slots=True)
class _Warmed:
    """What became of a prompt that was read twice."""

    prompt: str
    before: WarmedNow
    now: WarmedNow

    def rows(self) -> Iterator[list[str]]:
        for before, now in zip(self.before.replicas, self.now.replicas, strict=False):
            yield [self.prompt, plain(self.now.upstream, _MAX_NAME), *_row(before, now)]

    def failures(self) -> Iterator[str]:
        for before, now in zip(self.before.replicas, self.now.replicas, strict=False):
            for reading in (now, before):
                if isinstance(reading, Failed):
                    yield f"{plain(now.replica, _MAX_NAME)}: {plain(reading.why, _MAX_WHY)}"
                    break


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
    add_gateway_options(parser)
    add_redis_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Warm; 1 if a replica could not."""
    settings = _settings(read_settings(options), options)
    through = _through_gateway(settings, options)
    warmed = asyncio.run(_warm_from_here(settings, through))
    if through:
        client = client_for(options, settings.server, reply_seconds=_PATIENCE_SECONDS)
        warmed += [_warm_through(client, name, prompt) for name, prompt in through.items()]
    rows = [_HEAD, *itertools.chain.from_iterable(one.rows() for one in warmed)]
    sys.stdout.write(table(rows) + "\n")
    failures = [line for one in warmed for line in one.failures()]
    for failure in failures:
        print(f"stepwell: {failure}", file=sys.stderr)
    return 1 if failures else 0


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


def _through_gateway(settings: Settings, options: argparse.Namespace) -> Mapping[str, SystemPrompt]:
    """Return the prompts that only a running gateway can have read: all, if the call names one.

    A model that runs inside the gateway has a key that no other process knows.
    """
    if options.gateway is not None:
        return system_prompts(settings)
    inside = {
        where
        for where, upstream in warmed_upstreams(settings).items()
        if settings.upstreams[upstream].kind != "openai"
    }
    if not inside:
        return {}
    return {where: one for where, one in system_prompts(settings).items() if where in inside}


async def _warm_from_here(settings: Settings, skipped: Mapping[str, SystemPrompt]) -> list[_Warmed]:
    if len(skipped) == len(settings.prefix.warm):
        return []
    with needs("gateway"):
        from stepwell.assembly.offline import offline_house  # noqa: PLC0415  (an extra)
    warmed = []
    async with offline_house(settings) as house:
        upstreams = {target.upstream.name: target.upstream for target in house.targets}
        for prompt in standing_prompts(settings, house.secret):
            if prompt.name in skipped:
                continue
            read = partial(
                warm_now,
                upstreams[prompt.upstream],
                prompt,
                clock=house.clock,
                events=house.events,
            )
            warmed.append(_Warmed(prompt.name, await read(), await read()))
    return warmed


def _warm_through(client: AdminClient, name: str, prompt: SystemPrompt) -> _Warmed:
    body = msgspec.to_builtins(prompt)
    before, now = (client.post(_ROUTE, body) for _ in range(2))
    try:
        return _Warmed(name, msgspec.convert(before, WarmedNow), msgspec.convert(now, WarmedNow))
    except msgspec.ValidationError as error:
        raise ConfigError(
            "--gateway: it does not speak of replicas as this version does; is it another's?"
        ) from error


def _row(before: Reading, now: Reading) -> list[str]:
    replica = plain(now.replica, _MAX_NAME)
    match before, now:
        case (Read(), Read()):
            cached = [_cached(before), _cached(now)]
            return [replica, f"{before.seconds:.2f}", f"{now.tokens:,}", *cached]
        case (_, LeftOut(condition=condition)):
            return [replica, "", "", plain(condition, _MAX_NAME), ""]
    return [replica, "", "", "failed", ""]


def _cached(read: Read) -> str:
    return "-" if read.cached is None else f"{read.cached:,}"
