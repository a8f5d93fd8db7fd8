"""Which weights a model or an adapter has, told from its files."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b, sha256
from pathlib import Path

from stepwell.core.errors import ConfigError
from stepwell.engines.weights import digest_of

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_ADAPTER = (*_WEIGHTS, "adapter_config.json")

_THREADS = 4


class WeightsFiles:
    """Digests of files, remembered in a folder, so that each is read once. Blocking.

    The first time takes as long as reading all weights: 0.2 s for 270 MB, over a minute for
    100 GB. Whoever overwrites the files of a model that is being served has the blame: what runs
    is not told from what the files held when they were loaded.
    """

    def __init__(self, remembered: Path) -> None:
        """Remember digests in the folder ``remembered``; one that cannot be written costs time."""
        self._remembered = remembered

    def model_version(self, folder: Path) -> str:
        """Return what names the weights in a model's folder.

        Raises:
            ConfigError: There are none, or they cannot be read.
        """
        try:
            version = self._version(folder, _WEIGHTS)
        except OSError as error:
            raise ConfigError(f"cannot read the weights in {folder}: {error}") from error
        if version is None:
            raise ConfigError(
                f"no weights ({', '.join(_WEIGHTS)}) in {folder}, so that nothing tells whether a"
                " KV block belongs to this model: set weights_version in kv_connector_extra_config"
                " to a text that changes with them"
            )
        return version

    def adapter_version(self, folder: Path) -> str | None:
        """Return what names the weights in an adapter's folder; ``None`` if nothing does."""
        try:
            return self._version(folder, _ADAPTER)
        except OSError:
            return None

    def _version(self, folder: Path, endings: tuple[str, ...]) -> str | None:
        if not folder.is_dir():
            return None
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(endings))
        return self._combined(paths) if paths else None

    def _combined(self, paths: Iterable[Path]) -> str:
        named = sha256()
        with ThreadPoolExecutor(_THREADS) as threads:
            for path, digest in zip(paths, threads.map(self._digest, paths), strict=True):
                named.update(f"{path.name}:{digest};".encode())
        return named.hexdigest()

    def _digest(self, path: Path) -> str:
        name = blake2b(str(path.resolve()).encode(), digest_size=16).hexdigest()
        return digest_of(path, self._remembered / f"{name}.json")
