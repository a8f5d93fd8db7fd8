"""Keeps the number of the last change beside the file that the changes stand in."""

import sqlite3

from stepwell.core.names import Position
from stepwell.stores.disk import log
from stepwell.stores.disk.generation import Generation
from stepwell.stores.disk.opening import transaction


class Announced:
    """As `stepwell.stores.disk.database.Companion`, for a file with a feed."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def follow(self) -> None:
        """Map the generation's file that has the name now."""
        self._generation.follow()

    def align(self, connection: sqlite3.Connection) -> None:
        """Make table and generation agree.

        Table ahead: a process died between commit and raise. Generation ahead: this file is
        the successor of a lost one, or lost its last commits in a power cut. What was said in
        them is unknown, so everybody must be told `Lost`: go on above all that was ever read.
        """
        # In this order: what was announced before the table is read must be found in it.
        announced = self._generation.current()
        last = log.last_position(connection)
        if announced > last:
            with transaction(connection, write=True):
                last = Position(announced + 1)
                log.restart(connection, last)
        self._generation.raise_to(last)

    def lost(self) -> None:
        """Raise the generation, even if no change was ever announced: some may have been made."""
        self._generation.raise_to(self._generation.current() + 1)
