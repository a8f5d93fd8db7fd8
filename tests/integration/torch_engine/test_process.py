"""The engine's process for real: behind a gateway, over restarts, and when it cannot start."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from support.command import Command, running_command

from stepwell.assembly.engines import TORCH_PROCESS, torch_settings
from stepwell.assembly.settings_upstreams import Torch, Upstream
from stepwell.core.errors import ConfigError
from stepwell.engines.torch.loading import load
from stepwell.engines.torch.process import TorchEngine

SYSTEM = "You answer in few words, and never in verse. " * 12


def settings(folder: Path) -> dict[str, Any]:
    torch = {"weights": str(folder), "model": "tiny", "kv_max_bytes": 64 << 20}
    return {
        "auth": {"mode": "passthrough", "namespace_secret_env": "NAMESPACE_SECRET"},
        "upstreams": {"own": {"kind": "torch", "torch": torch}},
        "semantic": {"embedder": "off"},
        "log": {"target": "off"},
    }


async def cached_tokens(gateway: Command, text: str, key: str = "one") -> int:
    """Ask something new; return how many tokens of the prompt the engine had."""
    body = {
        "model": "tiny",
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}],
        "max_tokens": 3,
        "temperature": 0,
    }
    reply = await gateway.post(body, key=key)
    assert reply.status == 200, reply.body
    usage = json.loads(reply.body)["usage"]
    return int(usage["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.slow
async def test_gateway_serves_it_and_a_restart_goes_on_warm(
    tiny_folder: Path, tmp_path: Path
) -> None:
    """Prefixes are found by who asked them, after a restart too; an engine that dies comes back.

    What an operator has it read for all is everybody's.
    """
    async with running_command(tmp_path, settings(tiny_folder)) as gateway:
        assert await cached_tokens(gateway, "first") == 0
        warm = await cached_tokens(gateway, "second")
        assert warm >= 300
        assert await cached_tokens(gateway, "third", key="other") == 0
        public = {"model": "tiny", "system": SYSTEM, "public": True, "pin_seconds": 600}
        said = await gateway.post(public, path="/admin/warm", key=None)
        (read,) = json.loads(said.body)["replicas"]
        assert (read["outcome"], read["cached"]) == ("read", 0)
        assert await cached_tokens(gateway, "third", key="one more") == warm
        page = (await gateway.get("/metrics")).body.decode()
        assert re.search(r'^stepwell_kv_hit_tokens_total\{[^}]*upstream="own"', page, re.MULTILINE)
    async with running_command(tmp_path, settings(tiny_folder)) as gateway:
        assert await cached_tokens(gateway, "fourth") == warm
        kill_engine(gateway.process.pid)
        async with asyncio.timeout(120):
            while (again := await _or_none(gateway)) is None:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.1)
        assert again == warm


def kill_engine(gateway: int) -> None:
    children = Path(f"/proc/{gateway}/task/{gateway}/children").read_text()
    for pid in map(int, children.split()):
        if TORCH_PROCESS in Path(f"/proc/{pid}/cmdline").read_text():
            os.kill(pid, signal.SIGKILL)


async def _or_none(gateway: Command) -> int | None:
    try:
        return await cached_tokens(gateway, "fifth")
    except AssertionError:
        return None


def copied(source: Path, folder: Path, *, without: str) -> Path:
    folder.mkdir()
    for path in source.iterdir():
        if without not in path.name:
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_what_is_no_model_is_told_before_a_process_starts(
    tiny_folder: Path, tmp_path: Path
) -> None:
    """With the path, and what it lacks."""
    for folder in (
        tmp_path / "nowhere",
        copied(tiny_folder, tmp_path / "model", without=".safetensors"),
    ):
        table = torch_settings(
            "own", Upstream(kind="torch", torch=Torch(weights=str(folder))), tmp_path
        )
        engine = TorchEngine("torch", TORCH_PROCESS, table, report=print)
        with pytest.raises(ConfigError, match=r"is not a model's folder.*safetensors"):
            engine.start()
        engine.stop()


def test_what_cannot_be_loaded_is_told(tiny_folder: Path, tmp_path: Path) -> None:
    """No tokenizer; weights cut short; a file that is no GGUF; layers that see a window only."""
    mute = copied(tiny_folder, tmp_path / "mute", without="tokenizer")
    torn = copied(tiny_folder, tmp_path / "torn", without="nothing")
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    noise = tmp_path / "noise.gguf"
    noise.write_bytes(b"GGUF" + bytes(100))
    for path in (mute, torn, noise):
        with pytest.raises(ConfigError, match=path.stem):
            load(path, name="m", dtype="float32", cache=tmp_path / "cache")
    windows = copied(tiny_folder, tmp_path / "windows", without="nothing")
    config = json.loads((windows / "config.json").read_text())
    layers = ["sliding_attention", "full_attention"]
    config |= {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
    config |= {"sliding_window": 64, "use_sliding_window": True, "layer_types": layers}
    (windows / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="sliding windows"):
        load(windows, name="m", dtype="float32", cache=tmp_path / "cache")
