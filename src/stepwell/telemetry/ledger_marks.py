"""Which boots still run, as the kernel knows it.

Each worker holds a lock on a file that is named after its boot. The kernel lets go of the lock
when the process ends, however it ends, so that nobody has to guess from the age of something.
"""

import fcntl
import os
from pathlib import Path


class Mark:
    """One worker's sign that its boot runs: a shared lock on ``LEDGER.run-BOOT``.

    For one thread. It is held until it is taken down or the process ends.
    """

    def __init__(self, ledger: Path, boot: str) -> None:
        """Name the file; nothing is locked yet.

        Args:
            ledger: The ledger beside which the file lies.
            boot: Shared by all workers of one run of a server, and by nothing else; goes into the
                file's name.
        """
        self.boot = boot
        self._path = ledger.with_name(f"{_prefix(ledger)}{boot}")
        self._descriptor: int | None = None

    def set_up(self) -> None:
        """Hold the lock, on the file that lies there now; it is made if there is none.

        Must not run at the same time as `running_boots`, in whatever process: the ledger's
        transactions see to that.

        Raises:
            OSError: It cannot be made or locked. A lock that was held before still is.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self.take_down()
        self._descriptor = descriptor

    def take_down(self) -> None:
        """Let go of the lock. May be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def running_boots(ledger: Path) -> frozenset[str]:
    """Return the boots of which a worker holds a mark, and remove the files of all others.

    In doubt a boot runs: its counts are kept apart a while longer, which harms nobody.
    """
    prefix, boots = _prefix(ledger), set[str]()
    for path in ledger.parent.glob(f"{prefix}*"):
        try:
            _remove_unless_held(path)
        except OSError:
            boots.add(path.name.removeprefix(prefix))
    return frozenset(boots)


def _remove_unless_held(path: Path) -> None:
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def _prefix(ledger: Path) -> str:
    return f"{ledger.name}.run-"
