"""Token hit ratios of the prefix cache on public traces, for each policy and admission.

Run it from the project root: ``python -m benchmarks.prefix_hit_ratio --json out.json``. Traces are
read from ``--data``, else from the directory in STEPWELL_BENCH_DATA, else from ``../shared/data``:
``trace/*mooncake*.jsonl.gz`` (arrival times and ids of blocks of 512 tokens),
``trace/*agents*.jsonl.gz`` and ``conv/*taubench*.jsonl`` (prompts as text, cut into blocks of 64
characters), whatever is there. Without them, only a generated chat is replayed.

Requests come in order of arrival; a hit is a prompt's longest run of leading blocks that are kept.
Beside what `PrefixCache` itself makes of it stand *infinite* (nothing ever leaves, the bound of any
cache), *belady* (what is asked for last leaves first, which is always a last block, and what is
never asked for again is not kept: the bound of any cache of that size), and *block LRU* (blocks
leave by their own last use, in the order in which a prompt names them, as if they were not a tree).
Capacities are shares of a trace's distinct blocks.
"""

import gzip
import heapq
import json
import os
import random
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from report import parse_arguments, print_table, write

from stepwell.core.kv import KvScope, Tokens
from stepwell.prefix.admission import Adaptive, Admission, FirstSight, SecondSight
from stepwell.prefix.cache import Limits, PrefixCache
from stepwell.prefix.policies import CostAware, Lfu, Lru, Policy
from stepwell.prefix.shelves import AsComputed, MemoryShelf, Shelves
from stepwell.testing.clock import HandClock

PROJECT = Path(__file__).resolve().parent.parent
SHARES = (0.01, 0.1, 0.5)
SMOKE_REQUESTS = 300
TEXT_BLOCK = 64
POLICIES: dict[str, Callable[[], Policy]] = {"lru": Lru, "lfu": Lfu, "cost": CostAware}
SCOPE = KvScope("trace", "none", "none", "none")


@dataclass(frozen=True)
class Request:
    """The blocks of a prompt, and of what was answered, by number."""

    prompt: Sequence[int]
    last_share: float = 1.0
    """How much of the prompt's last block is filled."""
    output: Sequence[int] = ()


@dataclass(frozen=True)
class Trace:
    """Requests in order of arrival."""

    name: str
    requests: Sequence[Request]


class Numbers:
    """Numbers blocks of texts: the same number for the same text behind the same blocks."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], int] = {}

    def of(self, text: str) -> list[int]:
        """Return the numbers of a text's whole blocks."""
        numbers: list[int] = []
        before = -1
        for start in range(0, len(text) - TEXT_BLOCK + 1, TEXT_BLOCK):
            block = (before, text[start : start + TEXT_BLOCK])
            before = self._known.setdefault(block, len(self._known))
            numbers.append(before)
        return numbers

    def request(self, prompt: str, output: str) -> Request:
        """Return a request for a text that was answered by another."""
        asked = self.of(prompt)
        return Request(asked, output=self.of(prompt + output)[len(asked) :])


def read_mooncake(path: Path) -> Trace:
    """Read a trace of block ids."""
    requests = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            filled = (row["in_tok"] - 1) % 512 + 1
            requests.append(Request(row["hash_ids"], filled / 512))
    return Trace(path.name.split(".")[0].removeprefix("trace_"), requests)


def read_agents(path: Path) -> Trace:
    """Read prompts of agents, several sessions at once."""
    numbers = Numbers()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = sorted(map(json.loads, file), key=lambda row: row["ts_us"])
    requests = [numbers.request(row["input"], row["output"] or "") for row in rows]
    return Trace(path.name.split(".")[0].removeprefix("trace_"), requests)


def read_conversations(path: Path) -> Trace:
    """Read conversations of an agent that go on side by side: each of its turns is a request."""
    numbers = Numbers()
    with path.open(encoding="utf-8") as file:
        conversations = [json.loads(line)["messages"] for line in file]
    requests = []
    for at in range(max(map(len, conversations))):
        for messages in conversations:
            if at < len(messages) and messages[at]["role"] == "assistant":
                texts = [json.dumps(one, ensure_ascii=False) for one in messages[: at + 1]]
                requests.append(numbers.request("".join(texts[:-1]), texts[-1]))
    return Trace(path.name.split(".")[0], requests)


def chat(requests: int) -> Trace:
    """Return a made-up chat: system prompts and users by Zipf, one-off prompts between them."""
    choice = random.Random(7)
    fresh = iter(range(10_000_000))
    systems = [[next(fresh) for _ in range(40)] for _ in range(20)]
    weights = [1 / (rank + 1) for rank in range(20)]
    users: dict[tuple[int, int], list[int]] = {}
    made = []
    for _ in range(requests):
        if choice.random() < 0.25:
            made.append(Request([next(fresh) for _ in range(40)]))
            continue
        system = choice.choices(range(20), weights)[0]
        user = (system, min(int(choice.paretovariate(0.8)), 200))
        history = users.get(user, systems[system])
        prompt = [*history, *(next(fresh) for _ in range(choice.randint(1, 8)))]
        output = [next(fresh) for _ in range(choice.randint(1, 12))]
        made.append(Request(prompt, output=output))
        users[user] = [*prompt, *output] if len(prompt) < 200 else systems[system]
    return Trace("made_up_chat", made)


def read_traces(directory: Path) -> Iterator[Trace]:
    """Yield what traces there are below ``directory``."""
    yield from map(read_mooncake, sorted(directory.glob("trace/*mooncake*.jsonl.gz")))
    yield from map(read_agents, sorted(directory.glob("trace/*agents*.jsonl.gz")))
    yield from map(read_conversations, sorted(directory.glob("conv/*taubench*.jsonl")))


def weight(request: Request, blocks: int) -> float:
    """Return how many blocks' worth of tokens the first ``blocks`` of a prompt have."""
    missing = 1 - request.last_share if blocks == len(request.prompt) and blocks else 0.0
    return blocks - missing


def asked(trace: Trace) -> float:
    """Return how many blocks' worth of tokens were asked in all."""
    return sum(weight(request, len(request.prompt)) for request in trace.requests)


def run_of(prompt: Sequence[int], held: object) -> int:
    """Return how many leading blocks are held."""
    for at, block in enumerate(prompt):
        if block not in held:  # type: ignore[operator]
            return at
    return len(prompt)


def infinite(trace: Trace) -> float:
    """Return the hit ratio of a cache that nothing leaves."""
    held: set[int] = set()
    hits = 0.0
    for request in trace.requests:
        hits += weight(request, run_of(request.prompt, held))
        held.update(request.prompt, request.output)
    return hits / asked(trace)


def block_lru(trace: Trace, capacity: int) -> float:
    """Return the hit ratio of an LRU of blocks that knows nothing of prefixes."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0.0
    for request in trace.requests:
        hits += weight(request, run_of(request.prompt, held))
        for block in (*request.prompt, *request.output):
            held[block] = None
            held.move_to_end(block)
        while len(held) > capacity:
            held.popitem(last=False)
    return hits / asked(trace)


def belady(trace: Trace, capacity: int) -> float:
    """Return the hit ratio if it is known what will be asked."""
    never = len(trace.requests)
    following: list[dict[int, int]] = []
    later: dict[int, int] = {}
    for at in range(never - 1, -1, -1):
        request = trace.requests[at]
        following.append({one: later.get(one, never) for one in (*request.prompt, *request.output)})
        later.update(dict.fromkeys(request.prompt, at))
    following.reverse()
    held: dict[int, int] = {}
    farthest: list[tuple[int, int, int]] = []
    hits = 0.0
    for request, again in zip(trace.requests, following, strict=True):
        hits += weight(request, run_of(request.prompt, held))
        for depth, (block, use) in enumerate(again.items()):
            held[block] = use
            heapq.heappush(farthest, (-use, -depth, block))
        while len(held) > capacity or (farthest and -farthest[0][0] == never):
            use, _, block = heapq.heappop(farthest)
            if held.get(block) == -use:
                del held[block]
    return hits / asked(trace)


def replay(trace: Trace, capacity: int, policy: Policy, admission: Admission) -> float:
    """Return the hit ratio of the real thing, whose blocks are a byte and a token each."""
    shelves = Shelves(MemoryShelf(AsComputed[bool](lambda _: 1), capacity))
    cache = PrefixCache(
        1, shelves, policy=policy, admission=admission, limits=Limits(0), clock=HandClock()
    )
    hits = 0.0
    for request in trace.requests:
        # One token more: the last one is never matched.
        with cache.lease(SCOPE, as_tokens([*request.prompt, -1])) as lease:
            hits += weight(request, lease.matched_tokens)
            cache.keep(
                SCOPE,
                as_tokens([*request.prompt, *request.output]),
                nothing,
                prompt_tokens=len(request.prompt),
                seconds_per_token=1.0,
            )
    return hits / asked(trace)


def as_tokens(blocks: Sequence[int]) -> Tokens:
    """Return one token for each block."""
    return Tokens(array("i", blocks).tobytes())


def nothing(start: int, end: int) -> list[bool]:
    """Cut blocks that hold nothing."""
    return [True] * (end - start)


def ratios(trace: Trace) -> Iterator[dict[str, object]]:
    """Yield a row for each capacity."""
    distinct = {one for each in trace.requests for one in (*each.prompt, *each.output)}
    bound = infinite(trace)
    for share in SHARES:
        capacity = max(1, int(len(distinct) * share))
        row: dict[str, object] = {"trace": trace.name, "share": share, "blocks": capacity}
        row |= {"infinite": bound, "belady": belady(trace, capacity)}
        row["block_lru"] = block_lru(trace, capacity)
        for name, make in POLICIES.items():
            row[name] = replay(trace, capacity, make(), FirstSight())
        row["lfu_2nd"] = replay(trace, capacity, Lfu(), SecondSight(2 * len(distinct)))
        row["lfu_adaptive"] = replay(trace, capacity, Lfu(), Adaptive(2 * len(distinct)))
        yield row


def main() -> None:
    """Replay all traces, print the table, write the JSON."""
    arguments = parse_arguments(__doc__ or "", data="directory of traces")
    given = arguments.data or os.environ.get("STEPWELL_BENCH_DATA")
    directory = Path(given) if given else PROJECT.parent / "shared" / "data"
    traces = [*read_traces(directory), chat(8_000)]
    if len(traces) == 1:
        print(f"No traces in {directory}: only a made-up chat is replayed.\n")
    if arguments.smoke:
        traces = [Trace(trace.name, trace.requests[:SMOKE_REQUESTS]) for trace in traces]
    rows = [row for trace in traces for row in ratios(trace)]
    print_table(rows, list(rows[0]))
    write("prefix_hit_ratio", {"smoke": arguments.smoke, "hit_ratios": rows}, arguments.json)


if __name__ == "__main__":
    main()
