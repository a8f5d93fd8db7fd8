"""Whether a replica may be given work, as its calls tell."""

from dataclasses import dataclass

from stepwell.prefix.placement.replicas import Condition

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


@dataclass(slots=True)
class Health:
    """What is known of one replica.

    One that cannot be reached is left out for a while, twice as long each time. Then one call is
    let through: if it fails as well, another replica takes it, and nobody but the clock has lost
    anything. Not thread-safe.
    """

    pause_seconds: float = 0.0
    """How long it is left out after its last failure; 0 while it works."""
    out_until: float = 0.0

    def condition(self, now: float, *, draining: bool) -> Condition:
        """Return whether it may be given work."""
        if now < self.out_until:
            return Condition.DOWN
        return Condition.DRAINING if draining else Condition.READY

    @property
    def is_on_trial(self) -> bool:
        """Whether its last call failed."""
        return self.pause_seconds > 0

    def tried(self, now: float) -> None:
        """Note that a call goes there: of one on trial, it is the only one for a while."""
        if self.is_on_trial:
            self.out_until = now + self.pause_seconds

    def failed(self, now: float) -> None:
        """Note that it could not be reached, or said that it is not ready."""
        doubled = 2 * self.pause_seconds or FIRST_PAUSE_SECONDS
        self.pause_seconds = min(doubled, LONGEST_PAUSE_SECONDS)
        self.out_until = now + self.pause_seconds

    def worked(self) -> None:
        """Note that it answered."""
        self.pause_seconds = self.out_until = 0.0
