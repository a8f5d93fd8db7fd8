"""What the safety valve refuses, rightly and wrongly, and what it costs.

Evaluated on public labelled pairs where they are at hand (they are read in place; none of their
text is in this repository). A pair labelled 0 asks for different answers: refusing is right,
though a check need only find differences of its own kind. A pair labelled 1 has one answer:
every refusal is a miss that need not be.

    python benchmarks/valve.py [--smoke] [--json OUT] [--data DIR] [--vectors DIR] [--above C]
    python benchmarks/valve.py --show number --label 1 [--most 20] [--sets zh_,en_qqp]

DIR is by default ``$STEPWELL_BENCH_DATA``, or ``../shared/data`` beside the project. ``--vectors``
names a folder with ``texts.jsonl`` and ``vectors.npy`` (row by row): then only pairs are counted
whose cosine, the mean vector taken off, is at least C (0.85). Those are what the valve sees.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from report import parse_arguments, print_table, write

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.reading import Reading, read
from stepwell.semantic.valve.valve import CHECKS, differences

T = TypeVar("T")

PROJECT = Path(__file__).parents[1]
DATA = PROJECT.parent / "shared" / "data"
SMOKE_ROWS = 60
WINDOW = 1_000
"""Characters; longer texts are passages, not questions."""


@dataclass(frozen=True)
class Pair:
    """Two texts, and whether one answer does for both."""

    group: str
    lang: str
    asked: str
    stored: str
    same: bool


@dataclass
class Tally:
    """What was refused of one group of pairs with one label."""

    pairs: int = 0
    refused: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)

    def add(self, found: list[Difference]) -> None:
        self.pairs += 1
        self.refused += bool(found)
        self.kinds.update(difference.kind for difference in found)


def main() -> None:
    arguments = parse_arguments(
        __doc__,
        data="folder of the public sets",
        vectors="folder with texts.jsonl and vectors.npy",
        above="least cosine of the pairs that count, with --vectors",
        sets="beginnings of the sets that count, with commas",
        show="print pairs with a difference of this kind; 'none': without any",
        label="of the pairs shown: 1 same answer, 0 other answer",
        most="of the pairs shown: how many",
    )
    data = Path(arguments.data or os.environ.get("STEPWELL_BENCH_DATA") or DATA)
    wanted = tuple((arguments.sets or "").split(","))
    pairs = (pair for pair in _pairs(data) if pair.group.startswith(wanted))
    if arguments.vectors:
        near = _near(Path(arguments.vectors), float(arguments.above or 0.85))
        pairs = (pair for pair in pairs if near(pair.asked, pair.stored))
    if arguments.show:
        _show(pairs, arguments.show, int(arguments.most or 20), same=arguments.label == "1")
        return
    results = {"sets": _evaluate(pairs, smoke=arguments.smoke), "costs": _costs()}
    print_table(
        results["sets"],
        ("group", "lang", "same", "pairs", "refused", *(str(kind) for kind in Kind)),
    )
    print_table(results["costs"], ("texts", "read", "first", "again"))
    write("valve", results, arguments.json)


def _pairs(data: Path) -> Iterator[Pair]:
    for path in sorted((data / "pairs").glob("*.jsonl")):
        for row in _rows(path):
            label = row.get("label", row.get("same"))
            if label is not None and max(len(row["a"]), len(row["b"])) <= WINDOW:
                group = f"{path.stem} {row.get('category') or row.get('kind') or ''}".strip()
                lang = row.get("lang") or path.stem[:2]
                yield Pair(group, lang, row["a"], row["b"], bool(label))
    yield from _templates(data / "stream" / "en_gsm_symbolic_p2.jsonl", "template")
    yield from _look_alikes(data / "stream" / "en_svamp.jsonl")


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _templates(path: Path, field_name: str) -> Iterator[Pair]:
    """Yield pairs made from one template with other numbers and names."""
    groups: dict[object, list[str]] = {}
    for row in _rows(path):
        groups.setdefault(row[field_name], []).append(row["text"])
    for texts in groups.values():
        for one, other in list(combinations(texts, 2))[:10]:
            yield Pair(path.stem, "en", one, other, same=False)


def _look_alikes(path: Path) -> Iterator[Pair]:
    """Yield pairs of which two thirds of the words are the same."""
    texts = [(row["text"], frozenset(row["text"].lower().split())) for row in _rows(path)]
    for (one, words), (other, others) in combinations(texts, 2):
        if len(words & others) * 3 >= len(words | others) * 2:
            yield Pair(path.stem, "en", one, other, same=False)


def _near(folder: Path, least: float) -> Callable[[str, str], bool]:
    import numpy as np  # noqa: PLC0415 - not needed otherwise

    vectors = np.load(folder / "vectors.npy").astype(np.float32)
    vectors -= vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = {}
    for n, row in enumerate(_rows(folder / "texts.jsonl")[: len(vectors)]):
        rows[row if isinstance(row, str) else row["text"]] = n

    def near(one: str, other: str) -> bool:
        if one not in rows or other not in rows:
            return False
        return float(vectors[rows[one]] @ vectors[rows[other]]) >= least

    return near


@cache
def _read(text: str) -> Reading:
    return read(text)


def _found(pair: Pair) -> list[Difference]:
    return list(differences(_read(pair.asked), _read(pair.stored)))


def _show(pairs: Iterable[Pair], kind: str, most: int, *, same: bool) -> None:
    shown = 0
    for pair in pairs:
        if pair.same != same or shown >= most:
            continue
        found = _found(pair)
        fitting = [one for one in found if one.kind == kind]
        if fitting or (kind == "none" and not found):
            shown += 1
            print(f"{pair.group}: {'; '.join(map(str, fitting))}")
            print(f"    {pair.asked}\n    {pair.stored}")


def _evaluate(pairs: Iterable[Pair], *, smoke: bool) -> list[dict[str, object]]:
    tallies: dict[tuple[str, str, int], Tally] = {}
    for pair in pairs:
        tally = tallies.setdefault((pair.group, pair.lang, int(pair.same)), Tally())
        if smoke and tally.pairs >= SMOKE_ROWS:
            continue
        found = _found(pair)
        tally.add(found)
        for lang in (pair.lang, "all"):
            tallies.setdefault((" all", lang, int(pair.same)), Tally()).add(found)
    return [
        {
            "group": group,
            "lang": lang,
            "same": same,
            "pairs": tally.pairs,
            "refused": tally.refused / tally.pairs,
            **{str(kind): count / tally.pairs for kind, count in tally.kinds.items()},
        }
        for (group, lang, same), tally in sorted(tallies.items())
    ]


COSTS = {
    "English, 15 words": (
        "What is the best way to learn how to cook Italian food at home?",
        "How can I learn to cook Italian food at home in the best way?",
    ),
    "English with a date and a price": (
        "Is a laptop for $900 bought on May 1st, 2024 still under warranty in Germany?",
        "Bought on 2024-05-01 for 900 dollars, is my laptop still under German warranty?",
    ),
    "Chinese, 20 characters": (
        "在家学做意大利菜最好的方法是什么呢",
        "怎样才能在家里学会做意大利菜",
    ),
    "Chinese with a date": (
        "2024年5月1日从上海到北京的高铁票多少钱",
        "五月一号上海到北京高铁多少钱一张",
    ),
}


def _costs() -> list[dict[str, object]]:
    """Microseconds of reading a text; of comparing two with nothing known of either; of comparing
    them again, with all facts kept from before."""
    rows: list[dict[str, object]] = []
    for name, (asked, stored) in COSTS.items():
        _compare(read(asked), read(stored))  # Tables are read now, once.
        pairs = [(read(asked), read(stored)) for _ in range(500)]
        rows.append(
            {
                "texts": name,
                "read": _microseconds([asked] * 500, read),
                "first": _microseconds(pairs, lambda pair: _compare(*pair)),
                "again": _microseconds(pairs, lambda pair: _compare(*pair)),
            }
        )
    return rows


def _compare(asked: Reading, stored: Reading) -> None:
    for check in CHECKS:
        check(asked, stored)


def _microseconds(arguments: list[T], call: Callable[[T], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    for argument in arguments:
        call(argument)
    return round((time.process_time() - start) / len(arguments) * 1e6, 1)


if __name__ == "__main__":
    main()
