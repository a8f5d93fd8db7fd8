"""Keeps the ledger's file small."""

import sqlite3
from collections import defaultdict

from stepwell.telemetry.catalogue import CALLER_LABELS, MAX_LABEL_VALUES, OTHER
from stepwell.telemetry.ledger_file import PAST, read_series, rows
from stepwell.telemetry.series import Series, Values

BOOTS_KEPT_APART = 4
"""So that a server that still drains while its successors start keeps its own counts."""


def fold(connection: sqlite3.Connection) -> None:
    """Add the counters of all but the newest boots to those of the past."""
    first_kept = connection.execute(
        "SELECT id FROM boots ORDER BY id DESC LIMIT 1 OFFSET ?", (BOOTS_KEPT_APART - 1,)
    ).fetchone()
    if first_kept is None:
        return
    old = connection.execute("SELECT 1 FROM boots WHERE id < ? LIMIT 1", first_kept).fetchone()
    if old is None:
        return
    past = read_series(
        connection,
        "SELECT name, labels, sum(value) FROM counters WHERE boot < ? GROUP BY name, labels",
        *first_kept,
    )
    connection.execute("DELETE FROM counters WHERE boot < ?", first_kept)
    connection.execute("DELETE FROM boots WHERE id < ?", first_kept)
    connection.executemany(
        "INSERT INTO counters VALUES (?, ?, ?, ?)", rows(PAST, bound_callers_names(past))
    )


def bound_callers_names(values: Values, most: int = MAX_LABEL_VALUES) -> dict[Series, float]:
    """Return ``values`` with only the ``most`` heaviest names of each metric that callers chose.

    The rest is added up under `OTHER`.
    """
    weights: dict[tuple[str, str], defaultdict[str, float]] = {}
    for series, value in values.items():
        for label, name in series.labels:
            if label in CALLER_LABELS and name != OTHER:
                weights.setdefault((series.name, label), defaultdict(float))[name] += value
    kept = {
        place: set(sorted(by_name, key=by_name.__getitem__, reverse=True)[:most])
        for place, by_name in weights.items()
    }
    bounded: defaultdict[Series, float] = defaultdict(int)
    for series, value in values.items():
        labels = tuple(
            (label, name if name in kept.get((series.name, label), {name}) else OTHER)
            for label, name in series.labels
        )
        bounded[Series(series.name, labels)] += value
    return dict(bounded)
