"""The radix tree: lookup, insert and eviction, against SGLang's and against hashes of blocks.

Run it from the project root: ``python -m benchmarks.prefix_tree --json out.json``. With
``--sglang DIR``, an unpacked wheel of SGLang, its Python ``RadixCache`` is measured, too
(``pip download --no-deps sglang==0.5.23``, then unzip it). What it imports beside its own modules
of the cache is replaced by stand-ins at run time; so is torch, where it is not installed, by arrays
that are cheaper to slice than tensors.

The prompts are a chat: system prompts x users x turns, of random tokens. A *deep* lookup is for the
last turn of a user, a *system* one for a new user, a *miss* for another prompt. Times are CPU time,
the least of several rounds in which all take turns; those per 1k tokens count the prompt's tokens.
Tokens are given as each likes them best: bytes, or ``array('q')`` for SGLang.
"""

import hashlib
import itertools
import random
import time
import tracemalloc
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from foreign.sglang_radix import SGLang
from report import parse_arguments, print_table, write

from stepwell.core.kv import KvScope, Tokens
from stepwell.prefix.admission import FirstSight
from stepwell.prefix.cache import Limits, PrefixCache
from stepwell.prefix.policies import Lfu, Lru, Policy
from stepwell.prefix.shelves import AsComputed, MemoryShelf, Shelves
from stepwell.prefix.tree import RadixTree
from stepwell.testing.clock import HandClock

T = TypeVar("T")

BLOCK_TOKENS = 16
MOST_FOR_SGLANG = 20_000
"""Leaves; each eviction there looks at all."""
SCOPE = KvScope("bench", "none", "none", "none")


@dataclass(frozen=True)
class Chat:
    """Prompts as token ids, and some to look up."""

    prompts: list[list[int]]
    deep: list[list[int]]
    system: list[list[int]]
    miss: list[list[int]]
    unique_tokens: int


def make_chat(systems: int, users: int, turns: int) -> Chat:
    """Return a chat, the same each time."""
    choice = random.Random(11)

    def text(tokens: int) -> list[int]:
        return [choice.randrange(100_000) for _ in range(tokens)]

    prompts, deep, unique = [], [], 0
    heads = [text(1_000) for _ in range(systems)]
    for head in heads:
        unique += len(head)
        for _ in range(users):
            prompt = head
            for _ in range(turns):
                turn = text(choice.randint(120, 310))
                unique += len(turn)
                prompt = prompt + turn
                prompts.append(prompt)
            deep.append(prompt)
    system = [head + text(1_500) for head in heads]
    miss = [text(2_500) for _ in heads]
    return Chat(prompts, deep, system, miss, unique)


@dataclass(frozen=True)
class Prompt:
    """A prompt in the forms that the indexes take."""

    tokens: Tokens
    array: "array[int]"

    @classmethod
    def of(cls, tokens: list[int]) -> "Prompt":
        """Make both forms."""
        return cls(as_bytes(tokens), array("q", tokens))


class Index(Protocol):
    """What is compared."""

    def insert(self, prompt: Prompt) -> None:
        """Add a prompt."""
        ...

    def find(self, prompt: Prompt) -> int:
        """Return how many leading tokens are known."""
        ...


class Ours:
    """`RadixTree`."""

    def __init__(self, block_tokens: int = BLOCK_TOKENS) -> None:
        self._tree: RadixTree[None] = RadixTree(block_tokens)
        self._block_tokens = block_tokens

    def insert(self, prompt: Prompt) -> None:
        """Add a prompt."""
        match = self._tree.find(prompt.tokens)
        new = len(prompt.array) // self._block_tokens - match.blocks
        self._tree.extend(match, prompt.tokens, [None] * new)

    def find(self, prompt: Prompt) -> int:
        """Look a prompt up."""
        return self._tree.find(prompt.tokens).blocks * self._block_tokens


class Sha256:
    """Hashes of blocks, each of the one before and its own tokens, in a set."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def insert(self, prompt: Prompt) -> None:
        """Add a prompt."""
        self._known.update(self._hashes(prompt.tokens))

    def find(self, prompt: Prompt) -> int:
        """Look a prompt up, hashing no further than needed."""
        known = itertools.takewhile(self._known.__contains__, self._hashes(prompt.tokens))
        return BLOCK_TOKENS * sum(1 for _ in known)

    def _hashes(self, tokens: bytes) -> Iterator[bytes]:
        chain, step = b"", 4 * BLOCK_TOKENS
        for start in range(0, len(tokens) - step + 1, step):
            chain = hashlib.sha256(chain + tokens[start : start + step]).digest()
            yield chain


class Theirs:
    """SGLang's."""

    def __init__(self, folder: str) -> None:
        self.sglang = SGLang(Path(folder), BLOCK_TOKENS)

    def insert(self, prompt: Prompt) -> None:
        """Add a prompt."""
        self.sglang.insert(prompt.array)

    def find(self, prompt: Prompt) -> int:
        """Look a prompt up."""
        return self.sglang.find(prompt.array)


def each(work: Callable[[T], object], items: Iterable[T]) -> float:
    """Return the CPU time of some work on each item, in seconds."""
    start = time.process_time()
    for item in items:
        work(item)
    return time.process_time() - start


def lookups(chat: Chat, indexes: dict[str, Index], rounds: int) -> list[dict[str, object]]:
    """Return what each kind of lookup costs, and the bytes an index takes, for each index."""
    prompts = list(map(Prompt.of, chat.prompts))
    rows: dict[str, dict[str, object]] = {}
    for name, index in indexes.items():
        tracemalloc.start()
        for prompt in prompts:
            index.insert(prompt)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        rows[name] = {"index": name, "bytes_per_token": size / chat.unique_tokens}
    for kind, texts in (("deep", chat.deep), ("system", chat.system), ("miss", chat.miss)):
        asked = list(map(Prompt.of, texts))
        found = {tuple(map(index.find, asked)) for index in indexes.values()}
        assert len(found) == 1, "they disagree"
        best = dict.fromkeys(indexes, float("inf"))
        for _, (name, index) in itertools.product(range(rounds), indexes.items()):
            best[name] = min(best[name], each(index.find, asked))
        for name, took in best.items():
            rows[name][f"{kind}_us_per_1k"] = 1e9 * took / sum(map(len, texts))
            rows[name][f"{kind}_ratio"] = took / best["stepwell"]
    return list(rows.values())


def inserts(
    chat: Chat, makers: dict[str, Callable[[], Index]], rounds: int
) -> list[dict[str, object]]:
    """Return what adding all prompts costs, for each thousand new tokens."""
    prompts = list(map(Prompt.of, chat.prompts))
    best = dict.fromkeys(makers, float("inf"))
    for _, (name, make) in itertools.product(range(rounds), makers.items()):
        best[name] = min(best[name], each(make().insert, prompts))
    return [
        {"index": name, "us_per_1k_new": 1e9 * took / chat.unique_tokens}
        for name, took in best.items()
    ]


def make_cache(blocks: int, policy: Policy) -> PrefixCache[bool]:
    """Return a cache with room for so many blocks."""
    shelves = Shelves(MemoryShelf(AsComputed[bool](lambda _: 1), blocks))
    return PrefixCache(
        BLOCK_TOKENS,
        shelves,
        policy=policy,
        admission=FirstSight(),
        limits=Limits(min_tokens=0),
        clock=HandClock(),
    )


def evictions(
    leaves: int, policy: Callable[[], Policy], sglang: SGLang | None
) -> dict[str, object]:
    """Return what it costs to evict a block where so many prompts of two blocks end.

    Stepwell's: what keeping new prompts costs more in a full cache than in one with room.
    """
    rounds, prompts, blocks = 25, 10, 64
    choice = random.Random(leaves)

    def text(tokens: int) -> list[int]:
        return [choice.randrange(100_000) for _ in range(tokens)]

    held = [text(2 * BLOCK_TOKENS) for _ in range(leaves)]
    caches = {
        "full": make_cache(2 * leaves, policy()),
        "roomy": make_cache(2 * leaves + rounds * prompts * blocks, policy()),
    }
    for cache in caches.values():
        for one in held:
            keep(cache, one)
    best = dict.fromkeys(caches, float("inf"))
    for _ in range(rounds):
        new = [text(blocks * BLOCK_TOKENS) for _ in range(prompts)]
        for name, cache in caches.items():
            best[name] = min(best[name], each(partial(keep, cache), new))
    us_per_block = {name: 1e6 * took / prompts / blocks for name, took in best.items()}
    row: dict[str, object] = {"leaves": leaves, "policy": type(policy()).__name__}
    row["keep_us_per_block"] = us_per_block["roomy"]
    row["evict_us_per_block"] = us_per_block["full"] - us_per_block["roomy"]
    if sglang is not None and leaves <= MOST_FOR_SGLANG:
        sglang.cache.reset()
        for one in held:
            sglang.insert(array("q", one))
        row["sglang_us_per_leaf"] = 1e6 * min(each(evict_leaf, [sglang]) for _ in range(20))
    return row


def keep(cache: PrefixCache[bool], tokens: list[int]) -> None:
    """Keep all of a prompt."""
    cache.keep(
        SCOPE,
        as_bytes(tokens),
        lambda start, end: [True] * (end - start),
        prompt_tokens=len(tokens),
        seconds_per_token=0.001,
    )


def as_bytes(tokens: list[int]) -> Tokens:
    """Return token ids as 32-bit integers."""
    return Tokens(array("i", tokens).tobytes())


def cache_costs(chat: Chat, rounds: int) -> list[dict[str, object]]:
    """Return what a lease and its release cost on a deep hit."""
    rows: list[dict[str, object]] = []
    for policy in (Lru, Lfu):
        cache = make_cache(chat.unique_tokens, policy())
        for one in chat.deep:
            keep(cache, one)
        asked = list(map(as_bytes, chat.deep))
        best = min(each(partial(borrow, cache), asked) for _ in range(rounds))
        row: dict[str, object] = {"policy": policy.__name__}
        row["lease_and_release_us_per_1k"] = 1e9 * best / sum(map(len, chat.deep))
        rows.append(row)
    return rows


def borrow(cache: PrefixCache[bool], tokens: Tokens) -> None:
    """Lease and release."""
    cache.lease(SCOPE, tokens).release()


def evict_leaf(sglang: SGLang) -> None:
    """Evict a leaf."""
    sglang.evict_leaf()


def main() -> None:
    """Measure, print the tables, write the JSON."""
    arguments = parse_arguments(__doc__ or "", sglang="folder of an unpacked wheel of SGLang")
    chat = make_chat(4, 5, 4) if arguments.smoke else make_chat(20, 25, 8)
    rounds = 3 if arguments.smoke else 10
    makers: dict[str, Callable[[], Index]] = {
        "stepwell": Ours,
        "stepwell, 32": lambda: Ours(32),
        "sha256 of blocks": Sha256,
    }
    sglang = None
    if arguments.sglang:
        sglang = SGLang(Path(arguments.sglang), BLOCK_TOKENS)
        makers["sglang, page 16"] = lambda: Theirs(arguments.sglang)
    alike = {name: make() for name, make in makers.items() if name != "stepwell, 32"}
    leaves = (200, 2_000) if arguments.smoke else (200, 2_000, 20_000, 100_000)
    tables = {
        "lookups": lookups(chat, alike, rounds),
        "inserts": inserts(chat, makers, 2),
        "cache": cache_costs(chat, rounds),
        "evictions": [evictions(many, one, sglang) for one in (Lru, Lfu) for many in leaves],
    }
    for name, table in tables.items():
        print(f"{name}:")
        print_table(table, list(dict.fromkeys(key for row in table for key in row)))
        print()
    write("prefix_tree", {"smoke": arguments.smoke, **tables}, arguments.json)


if __name__ == "__main__":
    main()
