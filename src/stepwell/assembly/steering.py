"""From ``[upstreams.NAME.prefix]`` to a model server whose prefix cache is looked after."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from stepwell.assembly.extras import extra_for
from stepwell.assembly.house import Surroundings
from stepwell.assembly.settings_upstreams import Upstream as UpstreamTable
from stepwell.core.events import Degraded
from stepwell.core.kv import KvScope
from stepwell.core.names import Namespace
from stepwell.core.steering import Wanted, replica_source
from stepwell.engines.beside import TasksBeside
from stepwell.engines.token_sources import Ask, EngineTokens, ask_llama, ask_vllm
from stepwell.engines.vllm_facts import VllmFacts, VllmWatch
from stepwell.prefix.placement.replicas import Condition, ReplicaName
from stepwell.prefix.placement.residency import Residency, Room
from stepwell.prefix.placement.router import Router
from stepwell.prefix.placement.salt import cache_salt
from stepwell.prefix.steering.placement import Knowledge
from stepwell.prefix.steering.placing import Placing
from stepwell.prefix.steering.prompts import NamedPrompts, Prompts, TextPrompts
from stepwell.prefix.steering.servers import Closes, Replica, Replicas, Roots
from stepwell.prefix.steering.shaping import (
    Salted,
    Shape,
    Shaping,
    with_breakpoints,
    with_prompt_cache_key,
)
from stepwell.prefix.steering.steered import SteeredUpstream
from stepwell.telemetry import catalogue

MakeSalt = Callable[[Namespace | None], str]
"""Returns a tenant's salt."""


def wants_steering(table: UpstreamTable) -> bool:
    """Return whether there is anything to do for the server's prefix cache."""
    prefix = table.prefix
    return bool(table.replicas or table.protocol or prefix.prompt_cache_key or prefix.cache_control)


def steered(
    name: str,
    identity: str,
    table: UpstreamTable,
    servers: Sequence[Replica],
    secret: bytes,
    around: Surroundings,
) -> SteeredUpstream:
    """Return an upstream over ``servers``.

    Args:
        name: Name in the settings.
        identity: What makes its answers its own.
        table: What is wanted.
        servers: At least one.
        secret: What salts are made with.
        around: The rest of the house.
    """
    salt = None
    if table.is_salted:
        salt = partial(cache_salt, secret, name)
    known = _knowledge(table, servers, salt)
    replicas = Replicas(
        name,
        servers,
        known.loads,
        clock=around.clock,
        is_draining=lambda one: (
            around.said_by_operator(replica_source(name, one)) == Wanted.DRAINING
        ),
        on_lost=known.forget,
        hear=around.hear,
    )

    def failures(part: str) -> Callable[[str], None]:
        return lambda why: around.events.emit(Degraded(f"{part}.{name}", why))

    for server in servers:
        ready = partial(_readiness, replicas, server.name)
        around.gauges.watch(catalogue.REPLICAS_READY, ready, name, server.name)
        load = partial(known.loads.of, server.name)
        around.gauges.watch(catalogue.REPLICA_LOAD, load, name, server.name)
    return SteeredUpstream(
        name,
        identity,
        replicas,
        Placing(name, known, hints=around.hints, events=around.events),
        prompts=_prompts(table, Roots(replicas), failures("tokens")),
        shaping=Shaping(tuple(_shapes(table, salt))),
        listeners=(
            *_listeners(table, servers, known.residency, failures("prefix")),
            *_watches(table, servers, known.residency, failures("prefix")),
        ),
    )


def _knowledge(
    table: UpstreamTable, servers: Sequence[Replica], salt: MakeSalt | None
) -> Knowledge:
    def salt_of(scope: KvScope) -> str | None:
        return None if salt is None else salt(scope.tenant)

    room = Room(table.prefix.replica_tokens, table.prefix.block_tokens)
    residency = Residency({server.name: room for server in servers}, salt_of=salt_of)
    return Knowledge(residency, Router(residency))


def _listeners(
    table: UpstreamTable,
    servers: Sequence[Replica],
    residency: Residency,
    say: Callable[[str], None],
) -> Sequence[Closes]:
    """Listen to the replicas' KV events, where the settings say where they are."""
    if not table.prefix.kv_events:
        return ()
    with extra_for("upstreams.NAME.prefix.kv_events is set", "vllm"):
        from stepwell.engines.kv_event_stream import EventSource  # noqa: PLC0415  (an extra)
        from stepwell.engines.kv_listener import KvListener  # noqa: PLC0415
    replays = table.prefix.kv_replays or (None,) * len(servers)
    return [
        KvListener(EventSource(events, replay), partial(residency.told, server.name), say)
        for server, events, replay in zip(servers, table.prefix.kv_events, replays, strict=True)
    ]


_BLOCK_TOKENS = range(1, 1_025)
"""What a server may say its blocks have; as in the settings."""

_MOST_ROOM = 16
"""Times what the settings assume: what is remembered of a replica is bounded by them."""


def _watches(
    table: UpstreamTable,
    servers: Sequence[Replica],
    residency: Residency,
    say: Callable[[str], None],
) -> Iterator[Closes]:
    """Look at the pages on which vLLM says what room it has, and since when it runs."""

    def take(replica: ReplicaName, facts: VllmFacts) -> None:
        room = None
        if facts.room_tokens and (facts.block_tokens or 0) in _BLOCK_TOKENS:
            most = _MOST_ROOM * table.prefix.replica_tokens
            room = Room(min(facts.room_tokens, most), facts.block_tokens or 0, is_known=True)
        if facts.started is not None:
            residency.running(replica, facts.started, room)
        if not facts.caches_prefixes:
            say(f"Replica {replica} runs without prefix caching (--enable-prefix-caching).")

    if table.engine == "vllm":
        for server in servers:
            yield VllmWatch(server.root, partial(take, server.name))


def _readiness(replicas: Replicas, name: ReplicaName) -> float:
    return float(replicas.condition(name) is Condition.READY)


def _shapes(table: UpstreamTable, salt: MakeSalt | None) -> Iterator[Shape]:
    if salt is not None:
        yield Salted(salt)
    if table.prefix.prompt_cache_key:
        yield with_prompt_cache_key
    if table.prefix.cache_control:
        yield with_breakpoints


_ASK: Mapping[str | None, Ask] = {"vllm": ask_vllm, "llamacpp": ask_llama}


def _prompts(table: UpstreamTable, root: Roots, say: Callable[[str], None]) -> Prompts:
    ask = _ASK.get(table.protocol)
    if ask is None:
        return TextPrompts()
    source = EngineTokens(root, ask, timeout_seconds=table.prefix.token_timeout_seconds)
    return NamedPrompts(source, say, TasksBeside())
