"""Engines on tiny models. Without torch, `test_installed` alone is left, and says so."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
collect_ignore_glob = [] if HAS_TORCH else ["test_[!i]*.py"]

if TYPE_CHECKING:
    from stepwell.assembly.torch_parts import TorchParts
    from stepwell.engines.torch.loading import Loaded

MakeParts = Callable[..., "TorchParts"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "torch_engine" in str(item.path):
            item.add_marker(pytest.mark.torch)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from support.torch_models import write_tiny_model  # noqa: PLC0415

    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def loaded(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> "Loaded":
    from stepwell.engines.torch.loading import load  # noqa: PLC0415
    from stepwell.engines.torch.model import use_threads  # noqa: PLC0415

    use_threads(1)
    cache = tmp_path_factory.mktemp("digests")
    return load(tiny_folder, name="tiny", dtype="float32", cache=cache)


@pytest.fixture
def make_parts(loaded: "Loaded", tmp_path: Path) -> Iterator[MakeParts]:
    """Put engines together over one folder for KV blocks; settings may be given."""
    from stepwell.assembly.torch_parts import put_together  # noqa: PLC0415
    from stepwell.engines.torch.process import TorchSettings  # noqa: PLC0415

    made: list[TorchParts] = []

    def make(model: "Loaded | None" = None, **settings: Any) -> "TorchParts":
        given = {
            "kv_folder": str(tmp_path / "kv"),
            "disk_bytes": 0,
            "slots": 4,
            "api_key": "key",
            **settings,
        }
        complete = TorchSettings(weights="", model="tiny", cache="", **given)
        made.append(put_together(complete, model or loaded))
        return made[-1]

    yield make
    for parts in made:
        parts.cache.close()
