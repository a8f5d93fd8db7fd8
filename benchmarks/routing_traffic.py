"""Traffic for prefix_routing.py: made here, or read from public traces."""

import gzip
import itertools
import json
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from routing_fleet import Chat, Turn


@dataclass(frozen=True, slots=True)
class Mix:
    """What synthetic traffic is made of."""

    chats: int = 600
    chats_per_second: float = 1.5
    systems: int = 20
    system_tokens: int = 600
    zipf: float = 1.0
    """How fast the popularity of system prompts falls with rank."""
    hot_share: float = 0.0
    """Of the conversations, this share has one and the same system prompt."""
    turns: int = 6
    think_seconds: float = 15.0


def tokens(choice: random.Random, mean: int) -> bytes:
    """Return some random tokens, between half and one and a half of ``mean``."""
    return choice.randbytes(4 * choice.randint(mean // 2, mean + mean // 2))


def chats(mix: Mix, seed: int = 1) -> list[Chat]:
    """Return conversations that begin at random moments, with system prompts by Zipf's law."""
    choice = random.Random(seed)
    systems = [choice.randbytes(4 * mix.system_tokens) for _ in range(mix.systems)]
    weights = [1 / (rank + 1) ** mix.zipf for rank in range(mix.systems)]
    made = []
    now = 0.0
    for number in range(mix.chats):
        now += choice.expovariate(mix.chats_per_second)
        is_hot = choice.random() < mix.hot_share
        system = systems[0] if is_hot else choice.choices(systems, weights)[0]
        turns = [
            Turn(
                tokens(choice, 100), tokens(choice, 150), choice.expovariate(1 / mix.think_seconds)
            )
            for _ in range(choice.randint(1, 2 * mix.turns - 1))
        ]
        made.append(Chat(now, system, turns, number.to_bytes(8, "little")))
    return made


def strangers(requests: int, per_second: float, seed: int = 2) -> list[Chat]:
    """Return requests that share nothing with each other."""
    choice = random.Random(seed)
    starts = itertools.accumulate(choice.expovariate(per_second) for _ in range(requests))
    return [Chat(now, b"", [Turn(tokens(choice, 800), tokens(choice, 150))]) for now in starts]


def mooncake(path: Path, limit: int, stretch: float) -> list[Chat]:
    """Return the requests of a Mooncake trace, block ids written out as tokens.

    Args:
        path: One JSON object a line: ``t_ms``, ``in_tok``, ``out_tok``, ``hash_ids``.
        limit: How many of the requests.
        stretch: What times are multiplied by.
    """
    made = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in itertools.islice(file, limit):
            row = json.loads(line)
            blocks = (array("i", [one]).tobytes() * 512 for one in row["hash_ids"])
            prompt = b"".join(blocks)[: 4 * row["in_tok"]]
            turn = Turn(prompt, bytes(4 * row["out_tok"]))
            made.append(Chat(stretch * row["t_ms"] / 1000, b"", [turn]))
    return made


def agents(path: Path, stretch: float) -> list[Chat]:
    """Return the calls of agents that work at the same time; four bytes of text are a token.

    Each call carries its whole prompt, so each is a conversation of one turn, but the session is
    known.
    """
    rows = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    start = min(row["ts_us"] for row in rows)
    return [
        Chat(
            stretch * (row["ts_us"] - start) / 1e6,
            b"",
            [Turn(_as_tokens(row["input"]), _as_tokens(row["output"]))],
            bytes.fromhex(row["session"]),
        )
        for row in rows
    ]


def _as_tokens(text: str) -> bytes:
    written = text.encode()
    return written[: len(written) // 4 * 4]


def read(directory: Path, *, smoke: bool) -> Iterator[tuple[str, list[Chat]]]:
    """Yield the public traces that are in ``directory``, by name."""
    for name in ("conversation", "synthetic"):
        path = directory / f"trace_mooncake_{name}.jsonl.gz"
        if path.is_file():
            yield f"mooncake {name}", mooncake(path, 200 if smoke else 2_000, stretch=1.0)
    path = directory / "trace_lmcache_agents.jsonl.gz"
    if path.is_file():
        yield "agents", agents(path, stretch=1.0)
