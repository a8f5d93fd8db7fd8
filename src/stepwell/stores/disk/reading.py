"""What the reading thread does: one read after the other, and the poll that closes gaps."""

import sqlite3
from collections.abc import Sequence

from stepwell.core.events import Event
from stepwell.stores.disk import log
from stepwell.stores.disk.database import Database
from stepwell.stores.disk.faults import as_store_error
from stepwell.stores.disk.generation import Generation
from stepwell.stores.disk.jobs import Job


class Reading:
    """Handler of the reading thread; its jobs take a connection and change nothing."""

    def __init__(self, database: Database, generation: Generation) -> None:
        self._database = database
        self._generation = generation

    def handle(self, jobs: Sequence[Job[sqlite3.Connection]]) -> None:
        """Do the reads whose caller still waits."""
        for job in jobs:
            if not job.future.done():
                try:
                    job.result = self._database.run(job.work)
                except Exception as error:  # noqa: BLE001  (the port promises StoreError alone)
                    job.error = as_store_error(error, self._database.files.directory)

    def idle(self) -> None:
        """Announce changes whose writer died before it could."""
        self._database.attend(self._announce)

    def take_events(self) -> Sequence[Event]:
        """Return what happened since the last call."""
        return self._database.take_events()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _announce(self, connection: sqlite3.Connection) -> None:
        position = log.last_position(connection)
        if position > self._generation.current():
            self._generation.raise_to(position)
