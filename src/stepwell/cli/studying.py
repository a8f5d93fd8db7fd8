"""What the commands of the study share: where the embedder and the acceptance come from."""

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.assembly.house import key_rules
from stepwell.assembly.settings import Settings
from stepwell.core.errors import ConfigError
from stepwell.keys.cache_key import KeyScheme
from stepwell.keys.canonical import Dialect

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.core.vectors import Embedder
    from stepwell.semantic.acceptance.calibration import Calibration
    from stepwell.semantic.acceptance.verdict import Acceptance
    from stepwell.study.progress import Progress
    from stepwell.study.remembering import RememberingEmbedder

Parts = tuple["Embedder", "Acceptance", "Calibration"]
"""What turns texts into vectors, what decides about pairs, and what its levels mean."""


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[Parts]:  # noqa: ARG001
    """Open the embedder and the acceptance that ``settings`` name.

    Raises:
        ConfigError: There is none, or it cannot be opened.
    """
    raise ConfigError("this installation has no embedder, which comparing questions needs")
    yield


def add_cache_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--cache``."""
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="keep vectors here, so that another run embeds only what is new",
    )


def remembering(embedder: "Embedder", cache: Path | None) -> "RememberingEmbedder":
    """Return ``embedder`` with a memory, and a file in ``cache`` if that is given.

    Raises:
        ConfigError: ``cache`` cannot be used.
    """
    from stepwell.study.remembering import RememberingEmbedder, VectorFile  # noqa: PLC0415

    file = None
    if cache is not None:
        file = VectorFile(cache, embedder.model_id, embedder.dimensions)
    return RememberingEmbedder(embedder, file)


def scheme_of(settings: Settings) -> KeyScheme:
    """Return how the study makes keys: as a gateway with ``settings`` does."""
    return KeyScheme("study", key_rules(settings, Dialect.OPENAI))


def progress_of(what: str) -> "Progress":
    """Return a progress display on standard error."""
    from stepwell.study.progress import Progress  # noqa: PLC0415

    return Progress(what, sys.stderr)
