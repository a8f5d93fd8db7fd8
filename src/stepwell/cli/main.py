"""Entry point of the ``stepwell`` command."""

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from types import FrameType

from stepwell.assembly.environment import compute_on_one_thread
from stepwell.cli import (
    analyze,
    config,
    docs,
    doctor,
    embeddings,
    explain,
    invalidate,
    pairs,
    rag,
    replay,
    replicas,
    serve,
    stats,
    tune,
    warm,
)
from stepwell.core.errors import StepwellError
from stepwell.study.terminal import visible

_DESCRIPTION = """\
A multi-level cache for LLM inference, in front of your model servers.

  stepwell serve                       answer with the embedded model, on http://127.0.0.1:8080/v1
  stepwell serve --upstream URL        answer with an OpenAI-compatible server
  stepwell stats                       what the cache saved
  stepwell explain request.json        what would happen to a request, and why
  stepwell analyze requests.jsonl      what caching would save on a log
  stepwell doctor requests.jsonl       what keeps prompts from sharing a prefix
  stepwell rag ask QUESTION            answer from documents (stepwell docs sync)
"""

_COMMANDS = (
    serve,
    stats,
    invalidate,
    explain,
    analyze,
    doctor,
    pairs,
    tune,
    replay,
    replicas,
    warm,
    docs,
    rag,
    embeddings,
    config,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status: 0 well, 1 not done, 2 wrong call or settings, 130
    after Ctrl-C.

    Raises:
        SystemExit: The call is wrong, or SIGTERM came.
    """
    parser = argparse.ArgumentParser(
        prog="stepwell",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stepwell {version('stepwell')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    # Also because sums by several threads come out differently, and with them converted weights.
    compute_on_one_thread()
    try:
        with _leaving_on_sigterm():
            return int(options.run(options))
    except StepwellError as error:
        print(f"stepwell: {visible(str(error))}", file=sys.stderr)  # It may quote a server.
        return 2
    except KeyboardInterrupt:
        return 130


@contextmanager
def _leaving_on_sigterm() -> Iterator[None]:
    """Leave through all ``finally`` blocks, as on Ctrl-C: half-written files go, children end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python hears of signals on its main thread only.
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(_BY_SIGNAL + number)


_BY_SIGNAL = 128
"""Added to the number of the signal that ended a command, as shells do."""


if __name__ == "__main__":
    sys.exit(main())
