"""``stepwell explain``."""

import argparse
import asyncio
import sys
from pathlib import Path
from textwrap import indent
from typing import Any, assert_never

from stepwell.assembly.authentication import make_authenticator
from stepwell.assembly.environment import secret_from
from stepwell.assembly.house import House
from stepwell.assembly.settings import Settings
from stepwell.cli.json_text import print_json
from stepwell.cli.options import (
    Subparsers,
    add_redis_option,
    add_settings_options,
    add_upstream_option,
    needs,
    read_settings,
)
from stepwell.core.entry import Entry
from stepwell.core.errors import ConfigError
from stepwell.core.names import Endpoint, LayerName
from stepwell.core.outcome import Hit, Miss, Outcome, Stale
from stepwell.keys.canonical import canonical_body
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.plan import Forward, Refuse, Serve, Step
from stepwell.pipeline.question import Question
from stepwell.pipeline.trail import trail_of
from stepwell.policy.prompt_shape.risks import risks_of
from stepwell.policy.routing import system_hash
from stepwell.policy.text import system_text
from stepwell.study.doctor.figures import risks_as_json
from stepwell.study.doctor.text import risks_as_text
from stepwell.study.terminal import plain
from stepwell.wire.body import parse_body
from stepwell.wire.controls import take_controls
from stepwell.wire.endpoint import endpoint_of

_DESCRIPTION = """\
Say what would happen to a request, and why: its class and who chose it, the upstream, its key,
what is stored under it, and whether a new answer would be stored; of an answer to other words, the
key and the question it was stored for; which rewrites its prompt would go through, and what in its
head is likely to change, so that engines compute the rest anew. Asks no model server.

FILE holds the JSON body of the request; - reads it from standard input. With the same settings,
data directory and API key as the gateway, the answer is the gateway's.
"""

_EXAMPLES = """\
examples:
  stepwell explain request.json --api-key-env OPENAI_API_KEY
  stepwell explain request.json --tenant team-a            with auth.mode = "keys"
  stepwell explain - --header 'Cache-Control: max-age=60' --json < request.json
"""


_PREFIX = "prefix"
_QUESTION = "matched_question"
_MAX_QUESTION = 1_000
"""Characters of it that are printed; JSON has all."""


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain",
        help="say what would happen to a request, and why",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", metavar="FILE", help="the request's JSON body; - for standard input"
    )
    parser.add_argument(
        "--endpoint",
        choices=[str(endpoint) for endpoint in Endpoint],
        help="the operation; told by the body's fields by default",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header field of the request; may be repeated",
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--api-key-env", metavar="NAME", help="variable with the caller's API key (passthrough)"
    )
    who.add_argument("--tenant", metavar="NAME", help="the caller's tenant (auth.mode keys)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_upstream_option(parser)
    add_redis_option(parser)
    add_settings_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain."""
    told = asyncio.run(_explain(read_settings(options), options))
    if options.json:
        print_json(told)
    else:
        for name, value in told.items():
            if name == _PREFIX:
                print(f"prefix\n{indent(risks_as_text(value), '  ')}")
            elif value not in (None, [], {}):
                # A question of somebody else's: it must not write on the terminal.
                shown = plain(value, _MAX_QUESTION) if name == _QUESTION else value
                print(f"{name.replace('_', ' '):<18}{shown}")
    return 0


async def _explain(settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    raw = sys.stdin.buffer.read() if options.file == "-" else _read(Path(options.file))
    body, headers = parse_body(raw), _headers(options.header)
    with needs("gateway"):
        from stepwell.assembly.offline import offline_house  # noqa: PLC0415  (an extra)
    async with offline_house(settings, by_meaning=True) as house:
        endpoint = Endpoint(options.endpoint) if options.endpoint else endpoint_of(body)
        tenant = _tenant(settings, options, house.secret)
        question = house.intake.take(endpoint, body, headers, tenant).question
        step = await house.runner.foresee(question)
        return {
            **_about_question(question),
            **_about_step(step, house.clock.now()),
            "canonical_body": _canonical(house, question, take_controls(headers, body)[0]),
            "system_sha256": system_hash(endpoint, body) if system_text(endpoint, body) else None,
            "rewritten": list(question.reshaped),
            _PREFIX: risks_as_json(risks_of(endpoint, body)),
        }


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def _headers(given: list[str]) -> dict[str, str]:
    fields = {}
    for line in given:
        name, colon, value = line.partition(":")
        if not colon:
            raise ConfigError(f"--header {line!r}: allowed is 'NAME: VALUE'.")
        fields[name.strip().lower()] = value.strip()
    return fields


def _tenant(settings: Settings, options: argparse.Namespace, secret: bytes) -> Tenant | None:
    """Return whose request it is, as the gateway would find it."""
    auth = settings.auth
    if options.tenant is not None:
        known = sorted({key.tenant for key in auth.keys})
        if options.tenant not in known:
            allowed = f"allowed: {', '.join(known)}" if known else 'it goes with auth.mode = "keys"'
            raise ConfigError(f"--tenant is {options.tenant!r}; {allowed}.")
        return Tenant(f"name:{options.tenant}", secret)
    headers = {}
    if options.api_key_env is not None:
        token = secret_from(options.api_key_env, setting="--api-key-env")
        headers["authorization"] = f"Bearer {token}"
    return make_authenticator(auth, secret).tenant(headers)


def _about_question(question: Question) -> dict[str, Any]:
    request_class = question.request_class
    return {
        "endpoint": question.endpoint,
        "model": question.model,
        "upstream": question.upstream,
        "class": request_class.name,
        "class_by": question.class_by,
        "ttl_seconds": request_class.ttl_seconds,
        "namespace": question.namespace.hex() if question.namespace else None,
        "key": question.key.hex() if question.key else None,
        "bypass": question.bypass,
        "sources": {source.name: source.value for source in question.sources},
        "tags": list(question.tags),
    }


def _about_step(step: Step, now: float) -> dict[str, Any]:
    match step:
        case Serve():
            return {
                "would": "answer from the cache",
                "trail": " · ".join(trail_of(step.outcome)),
                **_about_match(step.outcome),
                **_about_entry(step.outcome.entry, now),
                "refresh": step.refresh,
            }
        case Forward():
            return {
                "would": "ask the model server",
                "trail": " · ".join(trail_of(step.outcome)),
                **_about_match(step.outcome),
                "store_the_answer": step.fill,
                "share_the_call": step.share,
                "stale_if_error": step.fallback is not None,
            }
        case Refuse():
            return {"would": "refuse", "trail": str(step.error), "status": step.error.status}
        case _:
            assert_never(step)


def _about_match(outcome: Outcome) -> dict[str, Any]:
    """Return which stored question was taken for the same; empty if none in other words was."""
    found = outcome.withheld if isinstance(outcome, Miss) else outcome
    if not isinstance(found, Hit | Stale) or found.layer is not LayerName.SEMANTIC:
        return {}
    phrasing = found.entry.phrasing
    return {
        "matched_key": found.entry.key.hex(),
        _QUESTION: None if phrasing is None else phrasing.text,
    }


def _about_entry(entry: Entry, now: float) -> dict[str, Any]:
    return {
        "age_seconds": round(max(0.0, now - entry.created_at), 1),
        "remaining_seconds": round(entry.expires_at - now, 1),
        "entry_bytes": entry.size_bytes,
        "entry_sources": {source.name: source.value for source in entry.sources},
        "entry_tags": list(entry.tags),
    }


def _canonical(house: House, question: Question, body: dict[str, Any]) -> str:
    rules = house.targets.for_model(question.model).scheme.rules
    return canonical_body(question.endpoint, body, rules).decode()
