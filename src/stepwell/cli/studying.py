"""What the commands of the study share: where the embedder and the acceptance come from."""

import argparse
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.assembly.rules import key_rules, request_classes, routes
from stepwell.assembly.settings import Settings
from stepwell.assembly.study import StudyParts, open_study
from stepwell.core.errors import ConfigError
from stepwell.keys.cache_key import KeyScheme
from stepwell.keys.canonical import Dialect

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.study.arm import Semantics
    from stepwell.study.progress import Progress
    from stepwell.study.remembering import RememberingEmbedder
    from stepwell.study.rules import Rules


def open_parts(settings: Settings) -> AbstractAsyncContextManager[StudyParts]:
    """Open the embedder and the acceptance that ``settings`` mean.

    Raises:
        ConfigError: There is none, or it cannot be opened.
    """
    return open_study(settings)


def add_cache_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--cache``."""
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="keep vectors here, so that another run embeds only what is new",
    )


def check_outputs(inputs: Sequence[str], *paths: Path | None) -> None:
    """Find out before all the work whether its results can be written; changes nothing.

    Args:
        inputs: Files that are read, which must not be overwritten; ``-`` is none.
        paths: Files to write, where given.

    Raises:
        ConfigError: A path cannot be written, or is read as well.
    """
    from stepwell.study.output import check_writable  # noqa: PLC0415  (an extra)

    read = {Path(name).resolve() for name in inputs if name != "-"}
    for path in paths:
        if path is None:
            continue
        if path.is_file() and path.resolve() in read:
            raise ConfigError(f"{path} is read, and would be overwritten; write another file.")
        check_writable(path)


@dataclass(frozen=True, slots=True)
class Opened:
    """What a run compares questions with."""

    parts: StudyParts
    known: "RememberingEmbedder"
    semantics: "Semantics"


@asynccontextmanager
async def opened(settings: Settings, cache: Path | None) -> AsyncIterator[Opened]:
    """Open what ``settings`` mean, with a file of vectors in ``cache`` if that is given.

    If the embedder fails at some texts, standard error is told of it in the end.

    Raises:
        ConfigError: There is no embedder, it cannot be opened, or ``cache`` cannot be used.
    """
    from stepwell.study.arm import Semantics  # noqa: PLC0415  (an extra)
    from stepwell.study.remembering import RememberingEmbedder, VectorFile  # noqa: PLC0415
    from stepwell.study.texts import Texts  # noqa: PLC0415

    async with open_parts(settings) as parts:
        embedder = parts.embedder
        file = None if cache is None else VectorFile(cache, embedder.model_id, embedder.dimensions)
        known = RememberingEmbedder(embedder, file)
        semantics = Semantics(
            parts.decide_by,
            parts.calibration,
            Texts(known),
            parts.comparison,
            parts.temperature_tolerance,
        )
        try:
            yield Opened(parts, known, semantics)
        finally:
            known.close()
        if known.failure is not None:
            print(
                f"stepwell: the embedder failed at {known.failed:,} of {known.embedded:,} texts;"
                f" at the first: {known.failure}",
                file=sys.stderr,
            )


def scheme_of(settings: Settings) -> KeyScheme:
    """Return how the study makes keys: as a gateway with ``settings`` does."""
    return KeyScheme("study", key_rules(settings, Dialect.OPENAI))


def rules_of(settings: Settings) -> "Rules":
    """Return how the study judges requests: as a gateway with ``settings`` does.

    Raises:
        ConfigError: A class or a route cannot be used.
    """
    from stepwell.study.rules import Rules  # noqa: PLC0415  (an extra)

    classes = request_classes(settings)
    return Rules(scheme_of(settings), classes, routes(settings, classes))


def progress_of(what: str) -> "Progress":
    """Return a progress display on standard error."""
    from stepwell.study.progress import Progress  # noqa: PLC0415

    return Progress(what, sys.stderr)
