"""Keeps the ledger's file small."""

import sqlite3
from collections import defaultdict
from collections.abc import Set as AbstractSet

from stepwell.telemetry.catalogue import CALLER_LABELS, MAX_LABEL_VALUES, OTHER
from stepwell.telemetry.ledger_file import PAST, read_series, rows
from stepwell.telemetry.series import Series, Values


def fold(connection: sqlite3.Connection, running: AbstractSet[str]) -> None:
    """Add the counters of all boots but those that are ``running`` to those of the past."""
    boots = connection.execute("SELECT id, boot FROM boots").fetchall()
    ended = [(number,) for number, boot in boots if boot not in running]
    if not ended:
        return
    connection.executemany("DELETE FROM boots WHERE id = ?", ended)
    past = read_series(
        connection,
        "SELECT name, labels, sum(value) FROM counters"
        " WHERE boot NOT IN (SELECT id FROM boots) GROUP BY name, labels",
    )
    connection.execute("DELETE FROM counters WHERE boot NOT IN (SELECT id FROM boots)")
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
