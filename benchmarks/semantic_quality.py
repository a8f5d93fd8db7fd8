"""How often the semantic layer serves what it should, and what it must not.

Labelled pairs of questions, public sets (read in place: none of their text is in this repository)
and our own. The answer to one is stored, the other is asked. Of the pairs with one answer, how many
are served (should-hits); of those with two, how many (wrong hits): by set, language, kind of trap
and level, beside a bare cosine with the same embedder, and beside GPTCache and RedisVL, if
interpreters that have them are named.

    python benchmarks/semantic_quality.py [--smoke] [--json OUT] [--data DIR] [--cache DIR]
        [--gptcache PYTHON] [--redisvl PYTHON] [--most PAIRS]

DIR is by default ``$STEPWELL_BENCH_DATA``, or ``../shared/data`` beside the project. ``--most``
takes so many pairs of each set, its first; the shared sets are in random order.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from report import parse_arguments, print_table, write

from stepwell.assembly.deciding import calibration_of
from stepwell.assembly.environment import cache_dir
from stepwell.assembly.settings_semantic import Semantic
from stepwell.core.names import Level
from stepwell.embedding.comparison import comparer_of
from stepwell.embedding.encoder import Scorer
from stepwell.embedding.in_process import InProcessEmbedder
from stepwell.embedding.opening import open_encoder
from stepwell.embedding.recipes import E5, MINILM, Recipe, facts
from stepwell.keys.text import DEFAULT_STEPS, normalise
from stepwell.policy.intervals import wilson
from stepwell.semantic.acceptance.calibration import Calibration
from stepwell.semantic.valve.reading import Reading
from stepwell.semantic.valve.reading import read as read_text
from stepwell.semantic.valve.reordered import is_reordered
from stepwell.semantic.valve.valve import difference

DATA = Path(__file__).parents[2] / "shared" / "data"
OWN = Path(__file__).parents[1] / "tests" / "data" / "question_pairs.jsonl"
"""By the hands that wrote the rules: to see that it runs."""

LOOK_ALIKES = tuple(sorted((Path(__file__).parent / "data").glob("*.jsonl")))
"""By hands that had not seen the rules; ``data/README.md`` says which have been tuned on."""

LEVELS = get_args(Level)
SMOKE_PAIRS = 60
SCORED_FROM = 0.7
"""What is less similar is not served at any level."""
CURVE = tuple(round(0.78 + 0.01 * step, 2) for step in range(21))

TRAPS = ("en_fow_pairs", "own_hard_pairs_en_zh")
"""Sets made to tell a cache apart: every pair of two answers looks alike."""

EXTENDED = {"en_condaqa", "en_contrast_quoref"}
"""Questions behind a passage: about reading, not about asking."""

read: Callable[[str], Reading] = cache(read_text)


@dataclass(frozen=True)
class Labelled:
    """Two questions, and whether the answer to one answers the other."""

    stored: str
    asked: str
    same: bool
    kind: str
    language: str


def load(path: Path) -> Iterator[Labelled]:
    """Yield the labelled pairs of a file."""
    language = path.name[:2]
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            label = row.get("label", row.get("same"))
            if label is None:
                continue
            kind = str(row.get("category") or row.get("kind") or "")
            yield Labelled(row["a"], row["b"], bool(label), kind, row.get("lang", language))


Vectors = Mapping[str, npt.NDArray[np.float32] | None]


def embed(recipe: Recipe, texts: Sequence[str], kept: Path | None) -> Vectors:
    """Return the vectors of ``texts``, ``None`` for what has none; kept in ``kept``, if given."""
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    version = facts(recipe).model_id[-8:]
    path = None if kept is None else kept / f"{recipe.name}-{version}-{digest}.npz"
    if path is not None and path.exists():
        with np.load(path) as loaded:
            vectors, fit = loaded["vectors"], loaded["fit"]
    else:
        vectors, fit = asyncio.run(_embed(recipe, texts))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, vectors=vectors, fit=fit)
    return {
        text: vector if is_fit else None
        for text, vector, is_fit in zip(texts, vectors, fit, strict=True)
    }


async def _embed(
    recipe: Recipe, texts: Sequence[str]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    encoder = open_encoder(recipe, cache_dir() / "models")
    embedder = InProcessEmbedder(encoder, facts(recipe), threads=os.cpu_count() or 1)
    vectors, fit = [], []
    for start in range(0, len(texts), 1_000):
        found = await embedder.embed(texts[start : start + 1_000])
        vectors.append(found.vectors)
        fit += [unfit is None for unfit in found.unfit]
        print(f"  embedded {start + len(found.unfit)} of {len(texts)}", file=sys.stderr, end="\r")
    await embedder.aclose()
    print(file=sys.stderr)
    return np.concatenate(vectors), np.array(fit)


@dataclass(frozen=True)
class Judged:
    """A pair, and what is needed to say whether a cache serves it."""

    pair: Labelled
    similarity: float | None
    """``None``: no vector."""
    refused_by: str | None
    """What the safety valve says, whatever the similarity."""
    score: float | None = None
    """Of the comparison, where the valve is content; ``None``: it cannot tell."""

    @property
    def is_exact(self) -> bool:
        """Whether the exact layer answers."""
        return _normal(self.pair.stored) == _normal(self.pair.asked)


@cache
def _normal(text: str) -> str:
    return normalise(text, DEFAULT_STEPS)


def judge(pairs: Sequence[Labelled], vectors: Vectors, scorer: Scorer | None) -> list[Judged]:
    """Judge all pairs, at no particular level."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda pair: _judge(pair, vectors, scorer), pairs))


def _judge(pair: Labelled, vectors: Vectors, scorer: Scorer | None) -> Judged:
    one, other = vectors[pair.stored], vectors[pair.asked]
    if one is None or other is None:
        return Judged(pair, None, None)
    similarity = float(np.clip(one @ other, 0.0, 1.0))
    found = difference(read(pair.asked), read(pair.stored))
    refused = None if found is None else str(found.kind)
    score = None
    if scorer is not None and refused is None and similarity >= SCORED_FROM:
        is_compared = not is_reordered(read(pair.asked), read(pair.stored))
        score = scorer.score(pair.stored, pair.asked) if is_compared else 1.0
    return Judged(pair, similarity, refused, score)


Serves = Callable[[Judged], bool]


def at(similarity: float, *, valve: bool) -> Serves:
    """Return what serves from a similarity on, with the safety valve or without."""

    def serves(judged: Judged) -> bool:
        if judged.is_exact:
            return True
        near = judged.similarity is not None and judged.similarity >= similarity
        return near and not (valve and judged.refused_by)

    return serves


def as_shipped(level: Level, calibration: Calibration) -> Serves:
    """Return what serves as a gateway does: similarity, valve, and comparison if there is one."""
    accepts, compared = at(calibration.min_similarity[level], valve=True), calibration.compared
    if compared is None:
        return accepts

    def serves(judged: Judged) -> bool:
        if judged.is_exact or not accepts(judged):
            return judged.is_exact
        if judged.score is None:
            return (judged.similarity or 0.0) >= compared.min_similarity[level]
        return judged.score >= compared.min_score[level]

    return serves


def rates(judged: Iterable[Judged], serves: Serves) -> dict[str, Any]:
    """Return the share of should-hits served, and of traps, with intervals."""
    counts = {True: [0, 0], False: [0, 0]}
    for one in judged:
        counts[one.pair.same][0] += serves(one)
        counts[one.pair.same][1] += 1
    (hits, same), (wrong, different) = counts[True], counts[False]
    return {
        "should_hit": hits / same if same else None,
        "should_hit_interval": _interval(hits, same),
        "same": same,
        "wrong_hit": wrong / different if different else None,
        "wrong_hit_interval": _interval(wrong, different),
        "different": different,
    }


def _interval(count: int, total: int) -> tuple[float, float]:
    found = wilson(count, total)
    return found.low, found.high


def by_kind(judged: Sequence[Judged], serves: Serves) -> dict[str, Any]:
    """Return the rates of each kind of pair."""
    kinds: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        kinds[one.pair.kind].append(one)
    return {kind: rates(some, serves) for kind, some in sorted(kinds.items())}


def measure(
    judged: Sequence[Judged], calibration: Calibration, alone: Calibration
) -> dict[str, Any]:
    """Return all figures of one set: with the levels as shipped, and without the comparison."""
    levels = alone.min_similarity
    result: dict[str, Any] = {
        level: rates(judged, as_shipped(level, calibration)) for level in LEVELS
    }
    result |= {f"{level}_alone": rates(judged, as_shipped(level, alone)) for level in LEVELS}
    result["kinds_at_general"] = by_kind(judged, as_shipped("general", calibration))
    for similarity in (0.9, 0.95):
        result[f"bare_cosine_{similarity}"] = rates(judged, at(similarity, valve=False))
    bare = at(levels["general"], valve=False)
    result["bare_cosine_at_general"] = rates(judged, bare)
    result["curve"] = {
        str(similarity): [
            rates(judged, at(similarity, valve=valve))[name]
            for valve in (True, False)
            for name in ("should_hit", "wrong_hit")
        ]
        for similarity in CURVE
    }
    refusals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in judged:
        if one.refused_by and one.similarity is not None and one.similarity >= levels["faq"]:
            refusals[one.refused_by][one.pair.same] += 1
    result["refusals_from_faq_on"] = {
        kind: {"different": counts[0], "same": counts[1]}
        for kind, counts in sorted(refusals.items())
    }
    return result


_FOREIGN = Path(__file__).parent / "foreign"
_PEERS = ("gptcache", "redisvl")


def ask_peer(peer: str, python: str, pairs: Sequence[Labelled], vectors: Vectors) -> dict[str, Any]:
    """Let a peer decide, as it is shipped, but for the embedder, which it would download.

    Threshold and evaluation are its own.
    """
    usable, stored, asked = [], [], []
    for pair in pairs:
        one, other = vectors[pair.stored], vectors[pair.asked]
        if one is not None and other is not None:
            usable.append(pair)
            stored.append(one)
            asked.append(other)
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "pairs.npz"
        np.savez(given, stored=np.stack(stored), asked=np.stack(asked))
        done = subprocess.run(
            [python, _FOREIGN / f"{peer}_pairs.py", given],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
        )
    told = json.loads(done.stdout.splitlines()[-1])
    hits = iter(told.pop("hits"))
    served = {id(pair): next(hits) for pair in usable}
    judged = [Judged(pair, None, None) for pair in pairs]
    return {**told, **rates(judged, lambda one: bool(served.get(id(one.pair), False)))}


def main() -> None:
    """Measure and report."""
    options = parse_arguments(
        __doc__,
        data="folder with the labelled sets",
        cache="folder in which vectors are kept",
        gptcache="interpreter that has GPTCache installed",
        redisvl="interpreter that has RedisVL installed, and a Redis with search or packages of it",
        most="pairs of a set at most; all by default",
    )
    kept = None if options.cache is None else Path(options.cache)
    sets = _sets(Path(options.data or os.environ.get("STEPWELL_BENCH_DATA") or DATA))
    if options.most is not None:
        sets = {name: pairs[: int(options.most)] for name, pairs in sets.items()}
    if options.smoke:
        sets = {name: sets[name][:SMOKE_PAIRS] for name in sets if name in (*TRAPS, OWN.stem)}
    model_id = facts(E5).model_id
    calibration = calibration_of(Semantic(), model_id, compares=True)
    alone = calibration_of(Semantic(), model_id)
    vectors = embed(E5, _texts(sets), kept)
    scorer = comparer_of(open_encoder(E5, cache_dir() / "models"))
    judged = {name: judge(pairs, vectors, scorer) for name, pairs in sets.items()}
    results = {label: measure(some, calibration, alone) for label, some in _with_languages(judged)}
    peers = {}
    interpreters = {peer: getattr(options, peer) for peer in _PEERS if getattr(options, peer)}
    if interpreters:
        traps = {name: sets[name] for name in TRAPS if name in sets}
        used = {"e5": vectors, "minilm": embed(MINILM, _texts(traps), kept)}
        peers = {
            f"{peer} {embedder} {name}": ask_peer(peer, python, pairs, used[embedder])
            for peer, python in interpreters.items()
            for name, pairs in traps.items()
            for embedder in used
        }
    _show(results, peers)
    levels = {
        "min_similarity": calibration.min_similarity,
        "compared": None if calibration.compared is None else asdict(calibration.compared),
    }
    told = {"levels": levels, "sets": results, "peers": peers}
    write("semantic_quality", told, options.json)


def _sets(data: Path) -> dict[str, list[Labelled]]:
    paths = sorted((data / "pairs").glob("*.jsonl"))
    if not paths:
        print(f"no pairs in {data}: our own only, which measure nothing; --data names a folder")
        paths = [OWN]
    paths = [*LOOK_ALIKES, *paths]
    loaded = {path.stem: list(load(path)) for path in paths if path.stem not in EXTENDED}
    return {name: pairs for name, pairs in loaded.items() if pairs}


def _texts(sets: Mapping[str, Sequence[Labelled]]) -> list[str]:
    return sorted({text for pairs in sets.values() for p in pairs for text in (p.stored, p.asked)})


def _with_languages(
    sets: Mapping[str, Sequence[Judged]],
) -> Iterator[tuple[str, Sequence[Judged]]]:
    """Yield every set, and each language of a set that has several."""
    for name, judged in sets.items():
        yield name, judged
        languages = sorted({one.pair.language for one in judged})
        for language in languages if len(languages) > 1 else ():
            yield f"{name} [{language}]", [one for one in judged if one.pair.language == language]


def _show(results: Mapping[str, Any], peers: Mapping[str, Any]) -> None:
    print("percent of should-hits served / of traps served")
    columns = (*LEVELS, "general_alone", "bare_cosine_0.9", "bare_cosine_0.95")
    rows = [
        _row(name, measured["general"], measured, columns) for name, measured in results.items()
    ]
    rows += [_row(name, told, {"general": told}, ("general",)) for name, told in peers.items()]
    print_table(rows, ("set", "pairs", *columns))


def _row(
    name: str, counts: Mapping[str, Any], measured: Mapping[str, Any], columns: Sequence[str]
) -> dict[str, str]:
    shares = {column: _shares(measured[column]) for column in columns}
    return {"set": name, "pairs": f"{counts['same']}+{counts['different']}", **shares}


def _shares(measured: Mapping[str, Any]) -> str:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f}"

    return f"{share(measured['should_hit'])} / {share(measured['wrong_hit'])}"


if __name__ == "__main__":
    main()
