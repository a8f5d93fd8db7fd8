"""``stepwell embeddings``."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from stepwell.assembly.checks import data_directory
from stepwell.assembly.environment import secret_from
from stepwell.cli.embedding_text import (
    Coverage,
    audit_as_json,
    audit_as_text,
    stats_as_json,
    stats_as_text,
)
from stepwell.cli.failures import OnStandardError
from stepwell.cli.json_text import print_json
from stepwell.cli.options import (
    Subparsers,
    add_place_options,
    needs,
    read_settings,
)
from stepwell.core.clock import SystemClock
from stepwell.core.embedding import FullStore, VersionFigures
from stepwell.core.errors import ConfigError

if TYPE_CHECKING:  # An extra brings what it needs.
    from stepwell.assembly.embedding import OpenedPlaces

    Action = Callable[[OpenedPlaces, argparse.Namespace], Awaitable[int]]
else:
    Action = object

_DESCRIPTION = """\
Look after the vectors that are kept: in Redis, and in PostgreSQL or in the data directory. With the
same settings, or the same --redis and --postgres, as the gateway; while it runs or not.

  audit             prove that the tiers agree: each vector in Redis is in the full store with equal
                    bytes, has an end, and is not one that was deleted; that vectors can be read;
                    that Redis can make room when it is full. Changes nothing. Status 1 if not so
  stats             versions, vectors, bytes; with --coverage OLD NEW, how much of one is in another
  retire VERSION    let a version go: drops its partition, and lets its keys expire in two minutes.
                    With --dry-run it only shows what would go
  fill OLD NEW      embed the texts of a version with the model of another, those used last first.
                    Requests go on meanwhile. Broken off, it goes on where it was
"""

_EXAMPLES = """\
examples:
  stepwell embeddings stats --redis redis://localhost --postgres postgresql://localhost/vectors
  stepwell embeddings audit --config stepwell.toml --sample 100000
  stepwell embeddings fill old-model-0123456789ab new-model-ba9876543210 --per-minute 3000 \\
      --base-url https://api.openai.com/v1 --api-key-env OPENAI_API_KEY
  stepwell embeddings retire old-model-0123456789ab
"""

_SAMPLE = 10_000
_PATIENCE_SECONDS = 10.0


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "embeddings",
        help="audit, count, fill and retire the vectors that are kept",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    audit = _action(actions, "audit", _audit, "prove that the tiers agree")
    audit.add_argument(
        "--sample",
        type=int,
        default=_SAMPLE,
        metavar="N",
        help=f"keys of Redis, and vectors of each version, to look at; default: {_SAMPLE}",
    )
    audit.add_argument(
        "--repair", action="store_true", help="remove from Redis what differs; it comes back right"
    )
    stats = _action(actions, "stats", _stats, "show versions, vectors and bytes")
    stats.add_argument(
        "--coverage",
        nargs=2,
        metavar=("OLD", "NEW"),
        help="also show how many texts of OLD have a vector in NEW",
    )
    retire = _action(actions, "retire", _retire, "let a version go")
    retire.add_argument("version", metavar="VERSION")
    retire.add_argument("--dry-run", action="store_true", help="only show what would go")
    fill = _action(actions, "fill", _fill, "embed the texts of a version with another model")
    fill.add_argument("old", metavar="OLD")
    fill.add_argument("new", metavar="NEW", help="a version that a request was made for already")
    fill.add_argument(
        "--base-url", metavar="URL", help="who computes NEW; default: its provider, if that is one"
    )
    fill.add_argument("--api-key-env", metavar="NAME", help="variable with the server's API key")
    fill.add_argument("--per-minute", type=float, metavar="N", help="texts a minute at most")


def _action(actions: Subparsers, name: str, run: Action, summary: str) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    add_place_options(parser)
    parser.set_defaults(run=partial(_run, run))
    return parser


def _run(action: Action, options: argparse.Namespace) -> int:
    async def run() -> int:
        async with opened_places(options) as places:
            return await action(places, options)

    return asyncio.run(run())


async def _audit(places: "OpenedPlaces", options: argparse.Namespace) -> int:
    from stepwell.assembly.embedding_audit import Audit  # noqa: PLC0415  (an extra)

    if options.sample < 1:
        raise ConfigError(f"--sample is {options.sample}; allowed: 1 or more.")
    audit = Audit(full_of(places), places.redis)
    audited = await audit.run(options.sample)
    repaired = await audit.repair(audited) if options.repair else 0
    if options.json:
        print_json({**audit_as_json(audited), "repaired": repaired})
    else:
        sys.stdout.write(audit_as_text(audited, repaired))
    return 1 if audited.differences else 0


async def _stats(places: "OpenedPlaces", options: argparse.Namespace) -> int:
    full = full_of(places)
    versions = await full.versions()
    keys = None if places.redis is None else (await places.redis.survey.sample(0)).keys
    coverage = None
    if options.coverage is not None:
        old, new = options.coverage
        _check_known(versions, old, new)
        texts = next(it.with_text for it in versions if it.kind.version == old)
        coverage = Coverage(old, new, texts, await full.covered(old, new))
    if options.json:
        print_json(stats_as_json(full.tier, versions, keys, coverage))
    else:
        sys.stdout.write(stats_as_text(full.tier, versions, keys, coverage))
    return 0


async def _retire(places: "OpenedPlaces", options: argparse.Namespace) -> int:
    full, version = full_of(places), options.version
    versions = [it for it in await full.versions() if it.kind.version == version]
    keys = 0
    if places.redis is not None:
        keys = (await places.redis.survey.sample(0)).keys.get(version, 0)
    # What another retired, and a late process put back into Redis, can still be let go.
    if not versions and not keys:
        raise ConfigError(f"there is no version {version!r}; `stepwell embeddings stats` lists all")
    if not options.dry_run:
        await full.retire(version)
        if places.redis is not None:
            await places.redis.store.retire(version)
    gone = sum(it.vectors for it in versions)
    if options.json:
        retired = not options.dry_run
        print_json({"version": version, "vectors": gone, "redis_keys": keys, "retired": retired})
    elif options.dry_run:
        print(f"{version}: {gone:,} vectors and {keys:,} keys of Redis would go")
    else:
        print(f"{version}: {gone:,} vectors gone; {keys:,} keys of Redis go within two minutes")
    return 0


async def _fill(places: "OpenedPlaces", options: argparse.Namespace) -> int:
    from stepwell.cli.embedding_fill import Asked, fill  # noqa: PLC0415  (an extra)

    asked = Asked(
        old=options.old,
        new=options.new,
        base_url=options.base_url,
        api_key=None
        if options.api_key_env is None
        else secret_from(options.api_key_env, setting="--api-key-env"),
        per_minute=options.per_minute,
    )
    full = full_of(places)
    _check_known(await full.versions(), asked.old, asked.new)
    filled = await fill(places, full, asked)
    if options.json:
        print_json(asdict(filled))
    else:
        print(f"{filled.texts:,} texts have a vector in {asked.new} now; {filled.failed:,} failed")
    return 1 if filled.failed else 0


def full_of(places: "OpenedPlaces") -> FullStore:
    """Return the full store: there is one, since there is a data directory."""
    assert places.full is not None  # noqa: S101
    return places.full


@asynccontextmanager
async def opened_places(options: argparse.Namespace) -> AsyncIterator["OpenedPlaces"]:
    """Open the places that settings and options mean; what fails is told on standard error."""
    with needs("embedding"):
        from stepwell.assembly.embedding import open_places, patient, places_of  # noqa: PLC0415
    settings = read_settings(options)
    directory = data_directory(settings)
    if settings.stores.postgres.url is None and not directory.is_dir():
        raise ConfigError(
            f"data_dir: there is no {directory}; has a gateway run with it? Or name --postgres."
        )
    places = await open_places(
        patient(places_of(settings, directory), _PATIENCE_SECONDS),
        clock=SystemClock(),
        events=OnStandardError(),
    )
    try:
        yield places
    finally:
        await places.aclose()


def _check_known(versions: Sequence[VersionFigures], *named: str) -> None:
    known = {it.kind.version for it in versions}
    for name in named:
        if name not in known:
            raise ConfigError(
                f"there is no version {name!r}; there are: {', '.join(sorted(known)) or 'none'}."
                " A new one is there after its first request."
            )
