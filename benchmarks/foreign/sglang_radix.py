"""SGLang's Python radix cache, loaded from an unpacked wheel without what it does not need here."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from array import array
from collections.abc import Sequence
from pathlib import Path

REAL = ("radix_cache", "base_prefix_cache", "cache_init_params", "evict_policy", "events", "utils")
"""Its modules that are loaded as they are, of ``sglang.srt.mem_cache``."""


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty stand-in for any other module of SGLang, and for torch if it is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module of SGLang's, or torch where it is not installed."""
        del path, target
        last = name.rpartition(".")[2]
        if name in {f"sglang.srt.mem_cache.{one}" for one in REAL}:
            file = self._folder / "sglang" / "srt" / "mem_cache" / f"{last}.py"
            return importlib.util.spec_from_file_location(name, file)
        if name.partition(".")[0] in {"sglang", "torch"}:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return a module that has whatever is asked of it."""
        module = types.ModuleType(spec.name)
        module.__getattr__ = _stand_in  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing."""


class _Slots:
    """In place of a tensor of slots; slicing it costs less than slicing a tensor."""

    __slots__ = ("_ids",)

    def __init__(self, ids: Sequence[int] = (), **_: object) -> None:
        self._ids = array("q", ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, at: slice) -> "_Slots":
        return _Slots(self._ids[at])

    def clone(self) -> "_Slots":
        """Copy."""
        return _Slots(self._ids)


def _no_slots(*_: object, **__: object) -> _Slots:
    return _Slots()


def _ignore(*_: object, **__: object) -> None:
    """Take anything."""


def _stand_in(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    made: dict[str, object] = {"tensor": _Slots, "empty": _no_slots}
    return made.get(name) or type(name, (), {"__init__": _ignore})


class SGLang:
    """SGLang's `RadixCache`."""

    def __init__(self, folder: Path, page_tokens: int) -> None:
        """Load it from the folder of an unpacked wheel."""
        if not any(isinstance(finder, _StandIns) for finder in sys.meta_path):
            sys.meta_path.append(_StandIns(folder))
        module = importlib.import_module("sglang.srt.mem_cache.radix_cache")
        base = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        freeing = types.SimpleNamespace(device="cpu", free_segment=_ignore)
        self.cache = module.RadixCache.create_simulated(
            page_size=page_tokens, mock_allocator=freeing
        )
        self.cache.update_eviction_metrics = _ignore
        self._key = module.RadixKey
        self._match, self._insert = base.MatchPrefixParams, base.InsertParams
        self._evict = base.EvictParams

    def insert(self, tokens: "array[int]") -> None:
        """Add a prompt."""
        self.cache.insert(self._insert(key=self._key(tokens)))

    def find(self, tokens: "array[int]") -> int:
        """Return how many leading tokens are known."""
        return int(self.cache.match_prefix(self._match(key=self._key(tokens))).device_prefix_len)

    def evict_leaf(self) -> None:
        """Evict a leaf."""
        self.cache.evict(self._evict(num_tokens=1))
