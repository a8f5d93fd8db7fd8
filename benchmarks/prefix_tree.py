"""The radix tree: lookup, insert and eviction, against SGLang's and against hashes of blocks.

Run it from the project root: ``python -m benchmarks.prefix_tree --json out.json``. With
``--sglang DIR``, an unpacked wheel of SGLang, its Python ``RadixCache`` is measured, too
(``pip download --no-deps sglang==0.5.23``, then unzip it). What that imports beside its own modules
of the cache is replaced by stand-ins at run time; so is torch, where it is not installed, by arrays
that are cheaper to slice than tensors.

The prompts are a chat: system prompts x users x turns, of random tokens. A *deep* lookup is for the
last turn of a user, a *system* one for a new user, a *miss* for another prompt. Times are CPU time,
the least of several rounds in which all take turns; those per 1k tokens count the prompt's tokens.
Tokens are given as each likes them best: bytes, ``array('q')``, or bytes to be hashed.
"""

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import random
import sys
import time
import tracemalloc
import types
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from report import parse_arguments, print_table, write

from stepwell.core.kv import KvScope, Tokens
from stepwell.prefix.admission import FirstSight
from stepwell.prefix.cache import Limits, PrefixCache
from stepwell.prefix.policies import Lfu, Lru, Policy
from stepwell.prefix.shelves import AsComputed, MemoryShelf, Shelves
from stepwell.prefix.tree import RadixTree
from stepwell.testing.clock import HandClock

BLOCK_TOKENS = 16
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


class Index(Protocol):
    """What is compared."""

    def prepare(self, tokens: list[int]) -> Any:
        """Return tokens in the form it takes; not timed."""
        ...

    def insert(self, prepared: Any) -> None:
        """Add a prompt."""
        ...

    def find(self, prepared: Any) -> int:
        """Return how many leading tokens are known."""
        ...


@dataclass
class Ours:
    """`RadixTree`."""

    block_tokens: int = BLOCK_TOKENS
    tree: RadixTree[None] = field(init=False)

    def __post_init__(self) -> None:
        self.tree = RadixTree(self.block_tokens)

    def prepare(self, tokens: list[int]) -> bytes:
        """Return them as 32-bit integers."""
        return array("i", tokens).tobytes()

    def insert(self, prepared: bytes) -> None:
        """Add a prompt."""
        match = self.tree.find(prepared)
        new = len(prepared) // (4 * self.block_tokens) - match.blocks
        self.tree.extend(match, prepared, [None] * new)

    def find(self, prepared: bytes) -> int:
        """Look a prompt up."""
        return self.tree.find(prepared).blocks * self.block_tokens


@dataclass
class Sha256:
    """Hashes of blocks, each of the one before and its own tokens, in a set."""

    known: set[bytes] = field(default_factory=set)

    def prepare(self, tokens: list[int]) -> bytes:
        """Return them as 32-bit integers."""
        return array("i", tokens).tobytes()

    def insert(self, prepared: bytes) -> None:
        """Add a prompt."""
        self.known.update(self._hashes(prepared))

    def find(self, prepared: bytes) -> int:
        """Look a prompt up, hashing no further than needed."""
        found, chain = 0, b""
        for start in range(0, len(prepared) - 63, 64):
            chain = hashlib.sha256(chain + prepared[start : start + 64]).digest()
            if chain not in self.known:
                break
            found += BLOCK_TOKENS
        return found

    def _hashes(self, prepared: bytes) -> list[bytes]:
        hashes, chain = [], b""
        for start in range(0, len(prepared) - 63, 64):
            chain = hashlib.sha256(chain + prepared[start : start + 64]).digest()
            hashes.append(chain)
        return hashes


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads SGLang's modules of the cache from a folder, and an empty stand-in for any other."""

    REAL = (
        "radix_cache",
        "base_prefix_cache",
        "cache_init_params",
        "evict_policy",
        "events",
        "utils",
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:  # noqa: ARG002
        """Find a module of SGLang's, or torch where it is not installed."""
        top, _, last = name.partition(".")[0], "", name.rpartition(".")[2]
        if name in {f"sglang.srt.mem_cache.{one}" for one in self.REAL}:
            file = self._folder / "sglang" / "srt" / "mem_cache" / f"{last}.py"
            return importlib.util.spec_from_file_location(name, file)
        if top in {"sglang", "torch"}:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        """Return a module that has whatever is asked of it."""
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: _stand_in(name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing."""


class _Slots(array):  # type: ignore[type-arg]
    """In place of a tensor of slots."""

    def __new__(cls, ids: Sequence[int], **_: object) -> "_Slots":
        """Copy the ids."""
        return super().__new__(cls, "q", ids)

    def clone(self) -> "_Slots":
        """Copy."""
        return _Slots(self)

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Slots(found) if isinstance(at, slice) else found


def _stand_in(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    made: dict[str, object] = {"tensor": _Slots, "empty": lambda *_, **__: _Slots([])}
    return made.get(name) or type(name, (), {"__init__": lambda self, *_, **__: None})


class SGLang:
    """SGLang's Python radix cache, pages of 16 tokens."""

    def __init__(self, folder: Path) -> None:
        sys.meta_path.append(_StandIns(folder))
        module = importlib.import_module("sglang.srt.mem_cache.radix_cache")
        base = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        freeing = types.SimpleNamespace(device="cpu", free_segment=lambda *_, **__: None)
        self.cache = module.RadixCache.create_simulated(
            page_size=BLOCK_TOKENS, mock_allocator=freeing
        )
        self.cache.update_eviction_metrics = lambda *_: None
        self._key, self._find, self._insert = (
            module.RadixKey,
            base.MatchPrefixParams,
            base.InsertParams,
        )
        self._evict = base.EvictParams

    def prepare(self, tokens: list[int]) -> Any:
        """Return its key."""
        return array("q", tokens)

    def insert(self, prepared: Any) -> None:
        """Add a prompt."""
        self.cache.insert(self._insert(key=self._key(prepared)))

    def find(self, prepared: Any) -> int:
        """Look a prompt up."""
        found = self.cache.match_prefix(self._find(key=self._key(prepared)))
        return int(found.device_prefix_len)

    def evict(self) -> None:
        """Evict a leaf."""
        self.cache.evict(self._evict(num_tokens=1))


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def lookups(chat: Chat, indexes: dict[str, Index], rounds: int) -> list[dict[str, object]]:
    """Return the cost of each kind of lookup, and of inserting, for each index."""
    rows: list[dict[str, object]] = []
    for name, index in indexes.items():
        prepared = [index.prepare(tokens) for tokens in chat.prompts]
        tracemalloc.start()
        for one in prepared:
            index.insert(one)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        rows.append({"index": name, "bytes_per_token": size / chat.unique_tokens})
    for kind in ("deep", "system", "miss"):
        prompts: list[list[int]] = getattr(chat, kind)
        prepared_by = {name: list(map(index.prepare, prompts)) for name, index in indexes.items()}
        found = {name: list(map(indexes[name].find, own)) for name, own in prepared_by.items()}
        assert len({tuple(one) for one in found.values()}) == 1, "they disagree"
        best = dict.fromkeys(indexes, float("inf"))
        for _ in range(rounds):
            for name, own in prepared_by.items():
                find = indexes[name].find
                best[name] = min(
                    best[name], seconds(lambda own=own, find=find: list(map(find, own)))
                )
        thousands = sum(map(len, prompts)) / 1_000
        for row in rows:
            row[f"{kind}_us_per_1k"] = 1e6 * best[str(row["index"])] / thousands
    ours = next(row for row in rows if row["index"] == "stepwell")
    for row in rows:
        row["deep_ratio"] = float(str(row["deep_us_per_1k"])) / float(str(ours["deep_us_per_1k"]))
    return rows


def inserts(
    chat: Chat, makers: dict[str, Callable[[], Index]], rounds: int
) -> list[dict[str, object]]:
    """Return what adding all prompts costs, for each new token."""
    best = dict.fromkeys(makers, float("inf"))
    for _ in range(rounds):
        for name, make in makers.items():
            index = make()
            prepared = [index.prepare(tokens) for tokens in chat.prompts]
            best[name] = min(best[name], seconds(lambda: list(map(index.insert, prepared))))  # noqa: B023
    return [
        {"index": name, "insert_us_per_1k_new": 1e9 * took / chat.unique_tokens}
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
        limits=Limits(),
        clock=HandClock(),
    )


def evictions(
    leaves: int, policy: Callable[[], Policy], sglang: SGLang | None
) -> dict[str, object]:
    """Return what it costs to evict a block where there are so many prompts that end alone.

    Stepwell's: what keeping costs more in a full cache than in one with room, for each block.
    """
    blocks_each, evicted = 5, 500
    choice = random.Random(leaves)
    text = [[choice.randrange(100_000) for _ in range(16 * blocks_each)] for _ in range(leaves)]
    more = [[choice.randrange(100_000) for _ in range(16 * blocks_each)] for _ in range(evicted)]
    tokens = [Tokens(array("i", one).tobytes()) for one in text]
    new = [Tokens(array("i", one).tobytes()) for one in more]

    def keep(cache: PrefixCache[bool], one: Tokens) -> None:
        cache.keep(
            SCOPE,
            one,
            lambda start, end: [True] * (end - start),
            prompt_tokens=len(one) // 4,
            seconds_per_token=0.001,
        )

    took = {}
    for name, room in (("full", leaves * blocks_each), ("roomy", 2 * (leaves + evicted) * 5)):
        cache = make_cache(room, policy())
        for one in tokens:
            keep(cache, one)
        choice.shuffle(tokens)
        for one in tokens[: leaves // 2]:
            cache.lease(SCOPE, one).release()
        took[name] = seconds(lambda: [keep(cache, one) for one in new])  # noqa: B023
    row: dict[str, object] = {"leaves": leaves, "policy": policy.__name__}  # type: ignore[attr-defined]
    row["evict_us"] = 1e6 * (took["full"] - took["roomy"]) / evicted / blocks_each
    row["keep_us_per_block"] = 1e6 * took["roomy"] / evicted / blocks_each
    if sglang is not None and leaves <= 10_000:
        sglang.cache.reset()
        for one in text:
            sglang.insert(sglang.prepare(one))
        row["sglang_evict_leaf_us"] = (
            1e6 * seconds(lambda: [sglang.evict() for _ in range(50)]) / 50
        )
    return row


def cache_costs(chat: Chat, rounds: int) -> list[dict[str, object]]:
    """Return what a lease with its release costs on a deep hit, and what is held under the lock."""
    rows: list[dict[str, object]] = []
    for policy in (Lru, Lfu):
        cache = make_cache(chat.unique_tokens, policy())
        prepared = [Tokens(array("i", one).tobytes()) for one in chat.deep]
        for one in prepared:
            cache.keep(
                SCOPE,
                one,
                lambda start, end: [True] * (end - start),
                prompt_tokens=len(one) // 4,
                seconds_per_token=0.001,
            )
        best = min(
            seconds(lambda: [cache.lease(SCOPE, one).release() for one in prepared])  # noqa: B023
            for _ in range(rounds)
        )
        thousands = sum(map(len, chat.deep)) / 1_000
        rows.append({"policy": policy.__name__, "lease_release_us_per_1k": 1e6 * best / thousands})
    return rows


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
        sglang = SGLang(Path(arguments.sglang))
        makers["sglang, page 16"] = lambda: SGLang(Path(arguments.sglang))
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
