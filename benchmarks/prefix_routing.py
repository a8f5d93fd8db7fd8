"""How much of the prompts is cached, and how even the load is, for ways to place prompts.

Simulated replicas with bounded KV (routing_fleet.py) serve conversations. Cached tokens are given
as a share of all prompt tokens, and relative to one replica that has the memory and the speed of
all (``of_one``): what placing costs. Load is work: tokens computed and written, in seconds; max
over mean of the replicas. Nothing is measured in real time but ``choose_us``, CPU microseconds of
a choice.

Public traces are read from ``--data DIRECTORY``: Mooncake's and LMCache's, as JSON lines. With
``--servers N`` nothing is simulated: conversations are held with N real llama.cpp servers, with
one, in turn and through the gateway (routing_servers.py); there, load is tokens computed. Run it
from the project root: ``PYTHONPATH=src:tests python benchmarks/prefix_routing.py --smoke``.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from report import parse_arguments, print_table, write
from routing_fleet import Chat, Fleet, Kv, Outage, Policy, Replica
from routing_servers import play as play_servers
from routing_traffic import Mix, chats, read, strangers

from stepwell.core.kv import KvScope, Tokens
from stepwell.core.kv_events import KvEvent
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.rendezvous import digest, ranked
from stepwell.prefix.placement.replicas import Condition, ReplicaName, ReplicaState
from stepwell.prefix.placement.residency import Residency, Room
from stepwell.prefix.placement.router import Router, Rules, Session

SCOPE = KvScope("model", "tokenizer", "bfloat16", "rope")
REGION = Region()
HEAD_BYTES = 4 * 256


class Deaf:
    """What ways of placing have in common that learn nothing."""

    def computed(self, replica: ReplicaName, tokens: Tokens) -> None:
        """Not heard."""

    def reported(self, replica: ReplicaName, prompt: Tokens, foretold: int, cached: int) -> None:
        """Not heard."""

    def told(self, replica: ReplicaName, events: Sequence[KvEvent]) -> None:
        """Not heard."""

    def lost(self, replica: ReplicaName) -> None:
        """Not heard."""


class RoundRobin(Deaf):
    """One after the other."""

    def __init__(self) -> None:
        self._turn = itertools.count()

    def place(
        self, _prompt: Tokens, _chat: bytes | None, states: Sequence[ReplicaState]
    ) -> tuple[ReplicaName, int]:
        """Take the next."""
        ready = names(states)
        return ready[next(self._turn) % len(ready)], 0


class LeastLoad(Deaf):
    """Whoever has least to do."""

    def place(
        self, _prompt: Tokens, _chat: bytes | None, states: Sequence[ReplicaState]
    ) -> tuple[ReplicaName, int]:
        """Take the idlest."""
        ready = [one for one in states if one.condition is Condition.READY]
        return min(ready, key=lambda one: (one.load, one.name)).name, 0


class HeadHash(Deaf):
    """Consistent hashing of the first tokens: no index, no load."""

    def place(
        self, prompt: Tokens, _chat: bytes | None, states: Sequence[ReplicaState]
    ) -> tuple[ReplicaName, int]:
        """Take the first in the order that the first tokens give."""
        return ranked(digest(b"", prompt[:HEAD_BYTES]), names(states))[0], 0


class ChatHash(Deaf):
    """Consistent hashing of the conversation, where it is known, else of the first tokens."""

    def place(
        self, prompt: Tokens, chat: bytes | None, states: Sequence[ReplicaState]
    ) -> tuple[ReplicaName, int]:
        """Take the first in the order that the conversation gives."""
        return ranked(digest(b"", chat or prompt[:HEAD_BYTES]), names(states))[0], 0


class Informed:
    """What ways of placing have in common that know what was sent where."""

    def __init__(self, rooms: dict[ReplicaName, Room], *, hears_events: bool = False) -> None:
        self._residency = Residency(rooms, max_told_tokens=10_000_000)
        self._hears_events = hears_events

    def computed(self, replica: ReplicaName, tokens: Tokens) -> None:
        """Note it."""
        self._residency.sent(replica, REGION, tokens)

    def reported(self, replica: ReplicaName, prompt: Tokens, foretold: int, cached: int) -> None:
        """Learn from it."""
        self._residency.reported(
            replica, REGION, prompt, foretold_tokens=foretold, cached_tokens=cached
        )

    def told(self, replica: ReplicaName, events: Sequence[KvEvent]) -> None:
        """Take it, if events are on."""
        for event in events if self._hears_events else ():
            self._residency.told(replica, event)

    def lost(self, replica: ReplicaName) -> None:
        """Forget it."""
        self._residency.forget(replica)


class PrefixOnly(Informed):
    """Whoever holds most of the prompt, whatever else it has to do."""

    def place(
        self, prompt: Tokens, _chat: bytes | None, states: Sequence[ReplicaState]
    ) -> tuple[ReplicaName, int]:
        """Take the longest match; of equals the first in the order that the first tokens give."""
        homes = ranked(digest(b"", prompt[:HEAD_BYTES]), names(states))
        held = {name: self._residency.held_tokens(name, REGION, prompt) for name in homes}
        best = max(homes, key=held.__getitem__)
        return best, held[best]


class ScoreOnly(Informed):
    """Production-stack's score alone: share held, less the load above the mean."""

    def __init__(self, rooms: dict[ReplicaName, Room], beta: float = 1.0) -> None:
        super().__init__(rooms)
        self._beta = beta

    def place(
        self, prompt: Tokens, _chat: bytes | None, states: Sequence[ReplicaState]
    ) -> tuple[ReplicaName, int]:
        """Take the best score; of equals the first by name."""
        ready = [one for one in states if one.condition is Condition.READY]
        mean = statistics.fmean(one.load for one in ready)
        held = {one.name: self._residency.held_tokens(one.name, REGION, prompt) for one in ready}

        def score(one: ReplicaState) -> float:
            above = (one.load - mean) / max(1.0, mean)
            return held[one.name] / (len(prompt) / 4) - self._beta * above

        best = max(sorted(ready, key=lambda one: one.name), key=score)
        return best.name, held[best.name]


class Ours(Informed):
    """The router."""

    def __init__(
        self,
        rooms: dict[ReplicaName, Room],
        rules: Rules,
        *,
        told_chats: bool = True,
        hears_events: bool = False,
    ) -> None:
        super().__init__(rooms, hears_events=hears_events)
        self._told_chats = told_chats
        self._router = Router(self._residency, rules)
        self.seconds = 0.0
        self.choices = 0

    def place(
        self, prompt: Tokens, chat: bytes | None, states: Sequence[ReplicaState]
    ) -> tuple[ReplicaName, int]:
        """Ask the router."""
        session = Session(chat) if chat is not None and self._told_chats else None
        start = time.process_time()
        choice = self._router.choose(prompt, SCOPE, states, session)
        self.seconds += time.process_time() - start
        self.choices += 1
        if choice is None:
            raise RuntimeError("no replica is ready")
        return choice.replica, choice.predicted_tokens


def names(states: Sequence[ReplicaState]) -> list[ReplicaName]:
    """Return the replicas that may be given work."""
    return [one.name for one in states if one.condition is Condition.READY]


@dataclass(frozen=True, slots=True)
class Scene:
    """Traffic, and the fleet it meets."""

    name: str
    chats: Sequence[Chat]
    replicas: int = 4
    room_tokens: int = 100_000
    """Of each replica."""
    block_tokens: int = 16
    outages: Sequence[Outage] = ()
    slow: float | None = None
    """Speed of the last replica."""

    def names(self) -> list[ReplicaName]:
        """Return the replicas' names."""
        return [ReplicaName(f"replica-{number}") for number in range(self.replicas)]

    def rooms(self, factor: float = 1.0) -> dict[ReplicaName, Room]:
        """Return what a gateway believes of their memory."""
        is_known = factor == 1.0
        room = Room(int(self.room_tokens * factor), self.block_tokens, is_known=is_known)
        return dict.fromkeys(self.names(), room)

    def fleet(self, policies: Sequence[Policy]) -> Fleet:
        """Return the fleet, idle."""
        made = [Replica(n, Kv(self.room_tokens, self.block_tokens)) for n in self.names()]
        if self.slow is not None:
            made[-1].speed = self.slow
        return Fleet(made, policies)


Makers = dict[str, Callable[[Scene], Sequence[Policy]]]


def ways(rules: Rules) -> Makers:
    """Return the ways of placing, each as what makes its gateways."""
    return {
        "round robin": lambda _: [RoundRobin()],
        "least load": lambda _: [LeastLoad()],
        "hash of the head": lambda _: [HeadHash()],
        "hash of the chat": lambda _: [ChatHash()],
        "prefix only": lambda scene: [PrefixOnly(scene.rooms())],
        "score only": lambda scene: [ScoreOnly(scene.rooms())],
        "router": lambda scene: [Ours(scene.rooms(), rules)],
        "router, chats unknown": lambda scene: [Ours(scene.rooms(), rules, told_chats=False)],
        "router, 2 gateways": lambda scene: [Ours(scene.rooms(), rules) for _ in range(2)],
        "router, 2 gateways, events": lambda scene: [
            Ours(scene.rooms(), rules, hears_events=True) for _ in range(2)
        ],
        "router, events": lambda scene: [Ours(scene.rooms(), rules, hears_events=True)],
        "router, room x4": lambda scene: [Ours(scene.rooms(4.0), rules)],
        "router, room x1/4": lambda scene: [Ours(scene.rooms(0.25), rules)],
    }


def figures(fleet: Fleet, policies: Sequence[Policy]) -> dict[str, object]:
    """Return what came of a run."""
    sums = fleet.sums
    waits = sorted(sums.first_token_seconds)
    work = [one.work_seconds / one.speed for one in fleet.replicas.values()]
    row: dict[str, object] = {
        "requests": len(waits),
        "cached": sums.cached_tokens / sums.prompt_tokens,
        "load": max(work) / statistics.fmean(work),
        "first_token_p50": waits[len(waits) // 2],
        "first_token_p99": waits[len(waits) * 99 // 100],
    }
    if sums.foretold_tokens:
        row["foretold_met"] = sums.met_tokens / sums.foretold_tokens
    for policy in policies:
        if isinstance(policy, Ours):
            row["choose_us"] = 1e6 * policy.seconds / policy.choices
    return row


def play(scene: Scene, makers: Makers) -> Iterator[dict[str, object]]:
    """Yield a row for each way of placing."""
    all_in_one = replace(
        scene, replicas=1, room_tokens=scene.replicas * scene.room_tokens, outages=(), slow=None
    )
    alone = all_in_one.fleet([RoundRobin()])
    alone.replicas[all_in_one.names()[0]].speed = float(scene.replicas)
    alone.run(scene.chats)
    bound = alone.sums.cached_tokens / alone.sums.prompt_tokens
    yield {"scene": scene.name, "way": "one of all", **figures(alone, ()), "of_one": 1.0}
    for name, make in makers.items():
        policies = make(scene)
        fleet = scene.fleet(policies)
        fleet.run(scene.chats, scene.outages)
        row = figures(fleet, policies)
        of_one = float(str(row["cached"])) / bound if bound else 1.0
        yield {"scene": scene.name, "way": name, **row, "of_one": of_one}


def scenes(*, smoke: bool) -> Iterator[Scene]:
    """Yield the scenes that are made here."""
    mix = Mix(chats=40 if smoke else 600)
    chat = chats(mix)
    yield Scene("chat, 4 replicas", chat)
    yield Scene("no reuse", strangers(200 if smoke else 1_500, per_second=10.0))
    if smoke:
        return
    yield Scene("chat, 2 replicas", chats(replace(mix, chats_per_second=0.75)), replicas=2)
    yield Scene("chat, little memory", chat, room_tokens=30_000)
    yield Scene("chat, light load", chats(replace(mix, chats_per_second=0.3)))
    yield Scene("chat, heavy load", chats(replace(mix, chats_per_second=4.0)))
    yield Scene("hot prefix", chats(replace(mix, hot_share=0.8, system_tokens=2_000)))
    outage = Outage(ReplicaName("replica-1"), 100.0, 200.0)
    yield Scene("a replica dies", chat, outages=[outage])
    yield Scene("a slow replica", chat, slow=0.5)


def traces(directory: Path, *, smoke: bool) -> Iterator[Scene]:
    """Yield the scenes of the public traces that are there."""
    for name, found in read(directory, smoke=smoke):
        if name == "agents":
            yield Scene(name, found, replicas=2)
        else:
            yield Scene(name, found, room_tokens=1_000_000, block_tokens=512)


def simulate(data: str | None, wanted: str, *, smoke: bool) -> list[dict[str, object]]:
    """Play the scenes whose names have ``wanted``, print a table of each, return all rows."""
    found = list(scenes(smoke=smoke))
    if data:
        found += traces(Path(data), smoke=smoke)
    columns = ["way", "cached", "of_one", "load", "first_token_p50", "first_token_p99"]
    rows: list[dict[str, object]] = []
    for scene in found:
        if wanted in scene.name:
            played = list(play(scene, ways(Rules())))
            print(f"{scene.name}:")
            print_table(played, [*columns, "foretold_met", "choose_us"])
            print(flush=True)
            rows += played
    return rows


def main() -> None:
    """Simulate, or ask real servers; print tables, write the JSON."""
    arguments = parse_arguments(
        __doc__ or "",
        data="directory of public traces",
        scene="only scenes whose name has this",
        servers="how many real servers to ask in place of all scenes",
    )
    if arguments.servers:
        rows = play_servers(int(arguments.servers), smoke=arguments.smoke)
        columns = ["way", "prompt_tokens", "cached", "of_one", "load", "foretold_met", "decided"]
        print_table(rows, columns)
    else:
        rows = simulate(arguments.data, arguments.scene or "", smoke=arguments.smoke)
    write("prefix_routing", {"smoke": arguments.smoke, "rows": rows}, arguments.json)


if __name__ == "__main__":
    main()
