"""A child process that does as its settings say.

python -m support.obedient_child
"""

import json
import signal
import sys
from dataclasses import asdict, dataclass

MODULE = "support.obedient_child"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a child is to do, in this order."""

    complaint: str = ""
    """Written to standard error."""
    is_deaf: bool = False
    """Ignore that it is asked to end."""
    line: str = ""
    """Written to standard output."""
    exit_code: int | None = None
    """End so, and do not wait for the end of the input."""

    def encode(self) -> bytes:
        """Return them as the child reads them."""
        return json.dumps(asdict(self)).encode()


def main() -> None:
    """Obey until standard input ends."""
    orders = Orders(**json.loads(sys.stdin.readline()))
    sys.stderr.write(orders.complaint)
    if orders.is_deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write(orders.line)
    sys.stdout.flush()
    if orders.exit_code is not None:
        sys.exit(orders.exit_code)
    sys.stdin.read()


if __name__ == "__main__":
    main()
