"""What judged hits teach a cache, by acceptance policy: `threshold` beside `verified`.

Streams of labelled questions, drawn by popularity, are played to a cache of each policy at the
level ``general``; a share of the hits on other words is judged by the labels, at the price of a
call each, and the cache learns from it. Counted: hits, wrong ones, and what could have been reused
and was.

    python benchmarks/acceptance_policies.py [--smoke] [--json OUT] [--data DIR] [--cache DIR]

DIR is by default ``$STEPWELL_BENCH_DATA``, or ``../shared/data`` beside the project; its streams
are read in place (none of their text is in this repository). ``--cache`` keeps vectors between
runs.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from report import parse_arguments, print_table, write

from stepwell.assembly.settings import Settings, parse_settings
from stepwell.cli.studying import opened, rules_of
from stepwell.study.replaying import Replayer, as_json
from stepwell.study.trace import drawn_by_zipf, questions

DATA = Path(__file__).parents[2] / "shared" / "data"
OWN = Path(__file__).parents[1] / "tests" / "data" / "question_pairs.jsonl"
"""By the hands that wrote the rules: to see that it runs."""

STREAMS = ("en_banking77", "en_clinc150", "en_hwu64", "en_covidq")
POLICIES = ("threshold", "verified")
SHARES = (0.0, 0.1, 1.0)
"""Of the hits on other words, how many are judged."""
REQUESTS = 10_000
SMOKE_REQUESTS = 100
ZIPF = 0.9


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the questions of a stream, each with the name of its answer."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("key_ok", True):
            rows.append({"text": row["text"], "answer_key": row.get("answer_key") or row["intent"]})
    return rows


def own_rows() -> list[dict[str, Any]]:
    """Return the stored questions of our own pairs, and those that share their answers."""
    rows = []
    for number, line in enumerate(OWN.read_text(encoding="utf-8").splitlines()):
        pair = json.loads(line)
        rows.append({"text": pair["a"], "answer_key": str(number)})
        rows.append(
            {"text": pair["b"], "answer_key": str(number) if pair["label"] else f"-{number}"}
        )
    return rows


async def play(
    rows: Sequence[dict[str, Any]],
    settings: Settings,
    *,
    share: float,
    requests: int,
    cache: Path | None,
) -> dict[str, Any]:
    """Return what became of the requests at the level ``general``."""

    def placed() -> Iterator[tuple[str, dict[str, Any]]]:
        return ((f"row {number}", row) for number, row in enumerate(rows, 1))

    async with opened(settings, cache) as found:
        replayer = Replayer(found.semantics, ["general"], sample_share=share)
        stream = questions(placed(), rules_of(settings), float("inf"))
        await replayer.play(drawn_by_zipf(stream, ZIPF, requests, seed=1), lambda _: None)
        told: dict[str, Any] = as_json(await replayer.result(None))["caches"]["general"]
        return told


def main() -> None:
    """Measure and report."""
    options = parse_arguments(
        __doc__, data="folder with the labelled sets", cache="folder in which vectors are kept"
    )
    folder = Path(options.data or os.environ.get("STEPWELL_BENCH_DATA") or DATA) / "stream"
    streams = {name: rows_of(folder / f"{name}.jsonl") for name in STREAMS if folder.is_dir()}
    if not streams:
        print(f"no streams in {folder}: our own pairs only, which measure nothing")
    if options.smoke or not streams:
        streams = {OWN.stem: own_rows()}
    requests = SMOKE_REQUESTS if options.smoke else REQUESTS
    cache = None if options.cache is None else Path(options.cache)
    results = [
        {"stream": name, "policy": policy, "judged_share": share}
        | asyncio.run(
            play(
                rows,
                parse_settings({"semantic": {"policy": policy}}),
                share=share,
                requests=requests,
                cache=cache,
            )
        )
        for name, rows in streams.items()
        for share in SHARES
        for policy in POLICIES
    ]
    shown = (
        "stream",
        "judged_share",
        "policy",
        "semantic_hits",
        "wrong_semantic_hits",
        "judged_hits",
        "recall_of_reusable",
    )
    print_table(results, shown)
    write("acceptance_policies", results, options.json)


if __name__ == "__main__":
    main()
