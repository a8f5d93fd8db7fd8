"""A GGUF file's conversion that is broken off, and what it leaves behind."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from stepwell.core.errors import ConfigError
from stepwell.engines.torch import conversion
from stepwell.engines.torch.conversion import converted
from stepwell.engines.torch.process import TorchSettings

_CONVERTING = """
import time
from stepwell.engines.torch import conversion

def convert(gguf, folder):
    (folder / "model.safetensors").write_bytes(b"half of it")
    time.sleep(600)

conversion._convert = convert
from stepwell.assembly.torch_process import main
main()
"""


def converting(cache: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start the engine's process; return it when it converts."""
    gguf = folder / "model.gguf"
    gguf.write_bytes(b"GGUF")
    settings = TorchSettings(str(gguf), "m", str(cache), str(folder / "kv"), disk_bytes=0)
    process = subprocess.Popen(
        [sys.executable, "-c", _CONVERTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(settings) + b"\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not left_in(cache):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def left_in(cache: Path) -> list[Path]:
    """Return what conversions have written that is not done."""
    return list(cache.glob(".converting-*/model.safetensors"))


def tell_to_end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)


def die_as_its_parent(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe, as the kernel does for a parent that is killed."""
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize("end", [tell_to_end, die_as_its_parent])
def test_one_that_is_broken_off_leaves_nothing(
    tmp_path: Path, end: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    cache = tmp_path / "cache"
    with converting(cache, tmp_path) as process:
        try:
            end(process)
            assert process.wait(30) == 0
            assert process.stdout is not None
            assert process.stdout.read() == b""
            assert list(cache.glob(".converting-*")) == []
        finally:
            process.kill()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Convert in a moment; return the files that were converted."""
    files: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        (folder / "config.json").write_bytes(gguf.read_bytes())
        files.append(gguf)

    monkeypatch.setattr(conversion, "_convert", convert)
    return files


def test_what_a_dead_one_left_is_removed_by_the_next(tmp_path: Path, made: list[Path]) -> None:
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF")
    left = tmp_path / "cache" / ".converting-abc"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half of it")
    folder = converted(gguf, "0" * 64, tmp_path / "cache")
    assert (folder / "config.json").read_bytes() == b"GGUF"
    assert not left.exists()
    assert converted(gguf, "0" * 64, tmp_path / "cache") == folder
    assert made == [gguf]


def test_one_that_another_process_makes_is_waited_for(tmp_path: Path, made: list[Path]) -> None:
    """It is used when it is there, and what is under way is not touched."""
    cache, found = tmp_path / "cache", list[Path]()
    under_way = cache / ".converting-abc"
    under_way.mkdir(parents=True)
    lock = os.open(cache / "conversion.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waiting = Thread(target=lambda: found.append(converted(tmp_path / "m.gguf", "0" * 64, cache)))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    assert under_way.exists()
    under_way.rename(cache / f"m-{'0' * 16}-1")
    os.close(lock)
    waiting.join(10)
    assert (found, made) == ([cache / f"m-{'0' * 16}-1"], [])


def test_one_that_fails_leaves_nothing(tmp_path: Path) -> None:
    gguf = tmp_path / "noise.gguf"
    gguf.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ConfigError, match="noise"):
        converted(gguf, "0" * 64, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["conversion.lock"]
