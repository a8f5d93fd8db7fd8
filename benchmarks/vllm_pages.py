"""What moving KV blocks between files and vLLM's pages costs: our connector's way, and vLLM's.

Run it from the project root: ``python benchmarks/vllm_pages.py [--smoke] [--json out.json]``. Needs
torch, not vLLM.

Pages lie in memory as vLLM's do on a CPU: layers in one piece, a page of 32 tokens in each.
``peer`` does with the same pages what vLLM's own ExampleConnector does: a safetensors file for each
layer, mapped, not checked, and put in its place by index. ``copy`` is one copy from memory to the
pages, which is what any way costs at least. CPU is that of the process, the least of the rounds,
which take turns; ``x copy`` compares it. Files are in the page cache; none is written.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from report import parse_arguments, print_table, write
from safetensors.torch import load_file, save_file

from stepwell.core.kv import KvScope, Tokens
from stepwell.stores.kv.files import BlockFiles
from stepwell.stores.kv.format import BlockHeader, StoredBlock
from stepwell.vllm.pages import Pages

TOKENS = 32
SCOPE = KvScope(model="m", tokenizer="t", dtype="d", rope="r").digest()
MODELS = {
    "135M fp32": (30, 3, 128, torch.float32),
    "135M bf16": (30, 3, 128, torch.bfloat16),
    "8B bf16": (36, 8, 256, torch.bfloat16),
}
"""Layers, KV heads, and elements of a token's keys and values in one head."""


class Ours:
    """A prefix in files of Stepwell's, and pages to put it in."""

    def __init__(self, folder: Path, memory: torch.Tensor, blocks: int) -> None:
        layers = {f"layers.{number}": layer for number, layer in enumerate(memory)}
        self._pages = Pages(layers, pages=memory.shape[1])
        self._files = BlockFiles(folder, max_bytes=2**40)
        self._copies = [self._pages.copy_of(page) for page in range(blocks)]
        self._names = []
        before: bytes = SCOPE
        for number, payload in enumerate(self._copies):
            tokens = Tokens(number.to_bytes(4, "little") * TOKENS)
            header = BlockHeader(SCOPE, before, tokens, number * TOKENS, self._pages.form)
            self._files.write(StoredBlock(header, payload))
            self._names.append(header.id)
            before = header.id

    def load(self) -> None:
        """Read each block, check it, and put it into a page."""
        for page, name in enumerate(self._names):
            stored = self._files.read(SCOPE, name)
            assert stored is not None
            self._pages.fill(page, stored.payload)

    def read(self) -> None:
        """Only read and check."""
        for name in self._names:
            self._files.read(SCOPE, name)

    def fill(self) -> None:
        """Only put into pages."""
        for page, payload in enumerate(self._copies):
            self._pages.fill(page, payload)

    def take(self) -> None:
        """Copy pages that are to be saved."""
        for page in range(len(self._names)):
            self._pages.copy_of(page)


class Peer:
    """The same prefix as vLLM's ExampleConnector keeps it."""

    def __init__(self, folder: Path, memory: torch.Tensor, blocks: int) -> None:
        folder.mkdir()
        slots = torch.arange(blocks * TOKENS)
        self._pages, self._within = slots // TOKENS, slots % TOKENS
        self._layers = [(folder / str(number), layer) for number, layer in enumerate(memory)]
        for path, taken in zip((path for path, _ in self._layers), self.take(), strict=True):
            save_file({"kv_cache": taken}, path)

    def load(self) -> None:
        """Map each layer's file, and put its tokens into pages."""
        for path, layer in self._layers:
            layer[self._pages, :, self._within] = load_file(path)["kv_cache"]

    def take(self) -> list[torch.Tensor]:
        """Copy what is to be saved."""
        return [layer[self._pages, :, self._within] for _, layer in self._layers]


def measure(folder: Path, model: str, tokens: int, rounds: int) -> list[dict[str, object]]:
    """Return the rows of one model."""
    layers, heads, width, dtype = MODELS[model]
    blocks = tokens // TOKENS
    memory = torch.randn(layers, blocks + 1, heads, TOKENS, width).to(dtype)
    ours, peer = Ours(folder / "kv", memory, blocks), Peer(folder / "peer", memory, blocks)
    inside, outside = memory[:, :blocks], memory[:, :blocks].clone()
    ways: dict[str, Callable[[], object]] = {
        "copy": lambda: inside.copy_(outside),
        "load": ours.load,
        "load, peer": peer.load,
        "of it: read, check": ours.read,
        "of it: into pages": ours.fill,
        "out of pages": ours.take,
        "out of pages, peer": peer.take,
    }
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            way()
            least[name] = min(least[name], time.process_time() - start)
    size_bytes = outside.numel() * outside.element_size()
    return [
        {
            "model": model,
            "MB": size_bytes / 1e6,
            "what": name,
            "CPU ms": seconds * 1e3,
            "GB/s": size_bytes / seconds / 1e9,
            "x copy": seconds / least["copy"],
        }
        for name, seconds in least.items()
    ]


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments(__doc__ or "")
    # As in vLLM's workers of one core; more threads cost more CPU, in all rows.
    torch.set_num_threads(1)
    results: list[dict[str, object]] = []
    for model in list(MODELS)[: 1 if arguments.smoke else None]:
        with tempfile.TemporaryDirectory(prefix="stepwell-pages-") as made:
            rounds, tokens = (2, 320) if arguments.smoke else (15, 2_016)
            results += measure(Path(made), model, tokens, rounds)
    print_table(results, ["model", "MB", "what", "CPU ms", "GB/s", "x copy"])
    write("vllm_pages", results, arguments.json)


if __name__ == "__main__":
    main()
