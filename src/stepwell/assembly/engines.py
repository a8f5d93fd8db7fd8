"""Model servers that this package runs itself, each in a process of its own."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from stepwell.assembly.settings_upstreams import Upstream
from stepwell.core.errors import ConfigError
from stepwell.engines.embedded import MODEL, EmbeddedEngine, EngineBounds, engine_identity
from stepwell.engines.served_process import EngineAddress
from stepwell.engines.torch.process import (
    TorchEngine,
    TorchSettings,
    packaged_weights,
    torch_identity,
)

_NOWHERE = "http://127.0.0.1:9/v1"
"""The discard port: nothing is sent there."""

TORCH_PROCESS = "stepwell.assembly.torch_process"

Upstreams = Mapping[str, Upstream]


@contextmanager
def running_engines(
    upstreams: Upstreams, data_dir: Path, say: Callable[[str], None]
) -> Iterator[Mapping[str, EngineAddress]]:
    """Run the engines among ``upstreams`` until the block ends; yield them by name.

    Raises:
        ConfigError: One is not installed, or cannot run here; the message says what to do.
    """
    with ExitStack() as stack:
        addresses = {}
        for name, table in upstreams.items():
            if (engine := _engine(name, table, data_dir, say)) is not None:
                stack.callback(engine.stop)
                addresses[name] = engine.start()
        yield addresses


def absent_engines(upstreams: Upstreams, data_dir: Path) -> Mapping[str, EngineAddress]:
    """Return who the engines among ``upstreams`` are, where nothing is sent to them.

    Raises:
        ConfigError: One is not installed.
    """
    addresses = {}
    for name, table in upstreams.items():
        if table.kind == "embedded":
            identity, model = engine_identity(data_dir), MODEL
        elif table.kind == "torch":
            settings = torch_settings(name, table, data_dir)
            identity, model = torch_identity(settings), settings.model
        else:
            continue
        addresses[name] = EngineAddress(_NOWHERE, "", model, identity)
    return addresses


def torch_settings(name: str, upstream: Upstream, data_dir: Path) -> TorchSettings:
    """Return what the torch engine's process must know, without port and key.

    Raises:
        ConfigError: The embedded model is meant, and not installed; or no request can reach it.
    """
    table = upstream.torch
    weights = packaged_weights() if table.weights is None else Path(table.weights)
    model = MODEL if table.weights is None else weights.stem if weights.is_file() else weights.name
    model = table.model or model
    if not any(fnmatchcase(model, pattern) for pattern in upstream.models):
        raise ConfigError(
            f"upstreams.{name}.models is {list(upstream.models)}; allowed: patterns of {model!r},"
            f" the name under which it is served (upstreams.{name}.torch.model)."
        )
    folder = data_dir.resolve() / "torch"
    return TorchSettings(
        weights=str(weights),
        model=model,
        cache=str(folder / "models"),
        kv_folder=str(folder / "kv" / name),  # its own, as the bound of bytes is
        dtype=table.dtype,
        threads=table.threads,
        slots=table.slots,
        block_tokens=table.block_tokens,
        memory_bytes=table.kv_max_bytes,
        int8_bytes=table.kv_int8_max_bytes,
        disk_bytes=table.kv_disk_max_bytes,
        tenant_share=table.kv_tenant_share,
    )


def _engine(
    name: str, table: Upstream, data_dir: Path, say: Callable[[str], None]
) -> EmbeddedEngine | TorchEngine | None:
    match table.kind:
        case "embedded":
            llama = table.llama
            bounds = EngineBounds(slots=llama.slots, prompt_cache_mib=llama.prompt_cache_mib)
            saved_in = data_dir.resolve() / "kv" / "llama" if llama.kv_on_disk else None
            return EmbeddedEngine(data_dir=data_dir, report=say, bounds=bounds, saved_in=saved_in)
        case "torch":
            settings = torch_settings(name, table, data_dir)
            return TorchEngine(f"torch engine {name}", TORCH_PROCESS, settings, report=say)
        case "openai":
            return None
