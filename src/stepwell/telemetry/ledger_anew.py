"""Begins the count of judgements anew, in a ledger that may be in use."""

import contextlib
from pathlib import Path

from stepwell.telemetry.catalogue import JUDGED, NOT_JUDGED, WITHHELD
from stepwell.telemetry.ledger_file import (
    PAST,
    add_to_boot,
    check_format,
    connect,
    read_totals_of,
    store_errors,
    transaction,
)


@store_errors()
def judge_anew(path: Path, request_class: str) -> bool:
    """Take the judgements of ``request_class`` and what shadow mode withheld out of the totals.

    What runs keeps its own counts, so that no counter of its metrics page falls: the same is
    taken from the past instead, whose counts may so become negative.

    Returns:
        Whether there was anything to take.

    Raises:
        DamagedLedger: It is damaged, or of another format.
        StoreUnavailable: It does not exist, or cannot be written within a second.
    """
    with contextlib.closing(connect(path)) as connection:
        check_format(connection)
        with transaction(connection):
            taken = {
                series: -value
                for metric in (JUDGED, NOT_JUDGED, WITHHELD)
                for series, value in read_totals_of(connection, metric.name).items()
                if value and series.label("class") == request_class
            }
            add_to_boot(connection, PAST, taken)
    return bool(taken)
