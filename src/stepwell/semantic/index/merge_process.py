"""Starting the process that merges, and learning how it went."""

import subprocess
import sys
from dataclasses import dataclass

import msgspec

from stepwell.semantic.index import merging
from stepwell.semantic.index.merging import Job

_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Merged:
    """It published, or somebody else is at work: look at the manifest."""


@dataclass(frozen=True, slots=True)
class FoundDamage:
    """A segment is not what was written."""

    segment: str
    reason: str


@dataclass(frozen=True, slots=True)
class MergeFailed:
    """Nothing was done."""

    reason: str


class MergeProcess:
    """A process that merges. Kill it at any moment: the directory stays whole."""

    def __init__(self, job: Job) -> None:
        """Start it. Costs a fork; raises `OSError`."""
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", merging.__name__, msgspec.json.encode(job).decode()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def outcome(self) -> Merged | FoundDamage | MergeFailed | None:
        """Return how it went; ``None`` while it goes on. Does not wait."""
        code = self._process.poll()
        if code is None:
            return None
        stdout, stderr = self._process.communicate()
        reason = stderr.decode(errors="replace").strip()
        match code:
            case 0 | merging.EXIT_BUSY:
                return Merged()
            case merging.EXIT_DAMAGED:
                return FoundDamage(stdout.decode(), reason)
        last = reason.rpartition("\n")[2]
        return MergeFailed(f"exit code {code}: {last}")

    def stop(self) -> None:
        """End it, and wait until it has ended. Blocks for milliseconds."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
