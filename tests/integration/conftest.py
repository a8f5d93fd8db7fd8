"""Gateways and model servers for the tests of this directory."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from support.gateway import Gateway, StartGateway, running_gateway
from support.mount import mount, unmount

from stepwell.embedding.recipes import E5
from stepwell.embedding.supervisor import EmbedderAddress, EmbedderProcess
from stepwell.testing.fake_upstream import FakeUpstream


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    """A model server that misbehaves on demand."""
    async with FakeUpstream() as fake:
        yield fake


@pytest.fixture
def start_gateway(upstream: FakeUpstream, tmp_path: Path) -> StartGateway:
    """Start gateways with settings of one's own; they share a data directory."""

    def start(**settings: Any) -> AbstractAsyncContextManager[Gateway]:
        return running_gateway(tmp_path / "data", upstream.base_url, settings)

    return start


@pytest.fixture
async def gateway(start_gateway: StartGateway) -> AsyncIterator[Gateway]:
    """A gateway with default settings."""
    async with start_gateway() as running:
        yield running


@pytest.fixture(scope="session")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbedderAddress]:
    """The bundled multilingual embedder, running; one for all tests."""
    process = EmbedderProcess(
        E5, cache=tmp_path_factory.mktemp("models"), threads=2, report=lambda _: None
    )
    address = process.start()
    assert process.wait_until_serving(120)
    yield address
    process.stop()


@pytest.fixture
def start_semantic(
    upstream: FakeUpstream, tmp_path: Path, embedder: EmbedderAddress
) -> StartGateway:
    """Start gateways that answer other words too; they share a data directory."""

    def start(**settings: Any) -> AbstractAsyncContextManager[Gateway]:
        # Patience: other tests may have the processors.
        semantic = {"timeout_seconds": 10.0, **settings.pop("semantic", {})}
        tables = {"semantic": semantic, **settings}
        return running_gateway(tmp_path / "data", upstream.base_url, tables, embedder=embedder)

    return start


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return the root of a file system of 3 MB; skip where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a small file system: {error}")
    yield place
    unmount(str(place))
