"""What all tests with a real vLLM share: the server."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.vllm_server import Installed, VllmServer, connector_config, events_config


@pytest.fixture(scope="session")
def vllm_installed() -> Installed:
    """Return where vLLM is, or skip."""
    python, model = os.environ.get("STEPWELL_VLLM_PYTHON"), os.environ.get("STEPWELL_VLLM_MODEL")
    if not python or not model:
        pytest.skip("needs vLLM: run scripts/vllm-suite")
    return Installed(Path(python), Path(model))


@pytest.fixture(scope="session")
def vllm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the server's sockets, its log and its KV blocks."""
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="session")
def kv_folder(vllm_folder: Path) -> Path:
    """Return where the server's connector keeps KV blocks."""
    return vllm_folder / "kv"


@pytest.fixture(scope="session")
def model_folder(vllm_installed: Installed, vllm_folder: Path) -> Path:
    """Return a copy of the model, which a test may change."""
    copy = vllm_folder / "model"
    shutil.copytree(vllm_installed.model, copy)
    return copy


@pytest.fixture(scope="session")
def vllm_server(
    vllm_installed: Installed, vllm_folder: Path, kv_folder: Path, model_folder: Path
) -> Iterator[VllmServer]:
    """Run a server with Stepwell's connector and KV events, in fp32: texts can be compared.

    All tests share it, because a start takes a minute. A test that stops it starts it again.
    """
    options = [
        *("--kv-transfer-config", json.dumps(connector_config(kv_folder))),
        *("--kv-events-config", json.dumps(events_config(vllm_folder))),
    ]
    installed = Installed(vllm_installed.python, model_folder)
    server = VllmServer(installed, vllm_folder / "log", options)
    server.start()
    yield server
    server.stop()
