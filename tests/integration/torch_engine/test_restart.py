"""What a restart finds on disk: all of it, or what is whole; never another model's."""

from pathlib import Path

import httpx2 as httpx
import pytest
from integration.torch_engine.conftest import MakeParts
from integration.torch_engine.talk import answer_ids
from support.torch_models import random_ids, write_tiny_model

from stepwell.assembly import torch_cache
from stepwell.assembly.torch_cache import DiskBlocks
from stepwell.assembly.torch_parts import TorchParts
from stepwell.core.names import Namespace
from stepwell.engines.torch.loading import Loaded, load
from stepwell.prefix.shelves import BlockName, Level

DISK = {"disk_bytes": 256 << 20}
IDS = random_ids(600, seed=1)
WHOLE_BLOCKS_TOKENS = 592


async def kept_on_disk(parts: TorchParts, tenant: Namespace | None = None) -> list[int]:
    """Ask; return the answer once its blocks are on disk and the engine is gone."""
    answer, cached = await answer_ids(parts, IDS, 4, tenant)
    assert cached == 0
    await parts.answerer.engine.aclose()
    assert parts.cache.flush(timeout_seconds=20)
    parts.cache.close()
    return answer


async def trouble(parts: TorchParts) -> str:
    """Return what the engine says when the gateway asks what went wrong."""
    transport = httpx.ASGITransport(parts.app.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        assert (await client.post("/trouble")).status_code == 401
        reply = await client.post("/trouble", headers={"authorization": "Bearer key"})
    assert reply.status_code == 200
    return reply.text


def files_of(folder: Path) -> list[Path]:
    return sorted(
        (path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 4096),
        key=lambda path: path.stat().st_mtime_ns,
    )


@pytest.mark.parametrize("tenant", [None, Namespace(b"t" * 16)])
async def test_restart_goes_on_warm(make_parts: MakeParts, tenant: Namespace | None) -> None:
    """A new engine computes the last tokens only, says the same, and keeps it in memory again."""
    answer = await kept_on_disk(make_parts(**DISK), tenant)
    parts = make_parts(**DISK)
    assert await answer_ids(parts, IDS, 4, tenant) == (answer, WHOLE_BLOCKS_TOKENS)
    assert await answer_ids(parts, IDS, 4, tenant) == (answer, WHOLE_BLOCKS_TOKENS)
    hits = {shelf.level: shelf.hit_tokens for shelf in parts.cache.figures().shelves}
    assert hits[Level.DISK] == WHOLE_BLOCKS_TOKENS
    assert hits[Level.EXACT] == WHOLE_BLOCKS_TOKENS


@pytest.mark.parametrize("cut", [0, 100, -1])
async def test_torn_files_cost_time_only(make_parts: MakeParts, tmp_path: Path, cut: int) -> None:
    """A file that is empty, cut short or changed in its last byte ends the prefix before it."""
    answer = await kept_on_disk(make_parts(**DISK))
    for path in files_of(tmp_path / "kv")[::5]:
        content = path.read_bytes()
        torn = content[:cut] if cut >= 0 else content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes(torn)
    parts = make_parts(**DISK)
    again, cached = await answer_ids(parts, IDS, 4)
    assert again == answer
    assert cached < WHOLE_BLOCKS_TOKENS
    assert (await trouble(parts)).startswith("Damaged: ")
    assert await trouble(parts) == ""


async def test_blocks_that_cannot_be_written_are_told_of(
    make_parts: MakeParts, tmp_path: Path
) -> None:
    """The operator hears of it once; who asks hears nothing."""
    parts = make_parts(**DISK)
    assert await trouble(parts) == ""
    (tmp_path / "kv" / "v1" / "aside").rmdir()
    (tmp_path / "kv" / "v1" / "aside").write_bytes(b"")
    await kept_on_disk(parts)
    assert parts.cache.figures().refused_blocks["unwritten"] > 0
    assert await trouble(parts) == "NotADirectoryError: Not a directory"
    assert await trouble(parts) == ""
    assert parts.answerer.engine.counts.cache_faults == 0


async def test_another_model_of_the_same_name_finds_nothing(
    make_parts: MakeParts, tmp_path: Path
) -> None:
    """A changed model file is another scope, whatever it is called."""
    answer = await kept_on_disk(make_parts(**DISK))
    folder = write_tiny_model(tmp_path / "tiny", seed=1)
    other = load(folder, name="tiny", dtype="float32", cache=tmp_path / "digests")
    parts = make_parts(other, **DISK)
    different, cached = await answer_ids(parts, IDS, 4)
    assert cached == 0
    assert different != answer
    await parts.answerer.engine.aclose()
    assert await answer_ids(make_parts(**DISK), IDS, 4) == (answer, WHOLE_BLOCKS_TOKENS)


async def test_other_block_sizes_and_precisions_find_nothing_of_each_other(
    make_parts: MakeParts, tiny_folder: Path, tmp_path: Path
) -> None:
    """Blocks of 16 are not taken for blocks of 32, nor float32 for bfloat16."""
    answer = await kept_on_disk(make_parts(**DISK))
    assert (await answer_ids(make_parts(block_tokens=32, **DISK), IDS, 4)) == (answer, 0)
    short = load(tiny_folder, name="tiny", dtype="bfloat16", cache=tmp_path / "digests")
    assert (await answer_ids(make_parts(short, **DISK), IDS, 4))[1] == 0


async def test_full_disk_costs_no_answer(
    make_parts: MakeParts, small_disk: Path, loaded: Loaded
) -> None:
    """What the disk has no room for is kept in memory, and answers come as ever."""
    parts = make_parts(kv_folder=str(small_disk / "kv"), **DISK)
    tokens = (3 << 20) // loaded.model.facts.shape.token_bytes
    prompts = [random_ids(1000, seed) for seed in range(tokens // 1000 + 2)]
    answers = [(await answer_ids(parts, ids, 2))[0] for ids in prompts]
    parts.cache.flush(timeout_seconds=20)
    assert parts.cache.figures().refused_blocks["unwritten"] > 0
    again = [await answer_ids(parts, ids, 2) for ids in prompts]
    assert again == [(answer, 992) for answer in answers]


async def test_of_more_tenants_than_are_remembered_none_loses_its_blocks(
    make_parts: MakeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only their files are looked at again, and once while they are remembered."""
    monkeypatch.setattr(torch_cache, "MAX_KNOWN_SCOPES", 3)
    listed: list[bytes] = []
    names = DiskBlocks.names

    def noted(disk: DiskBlocks, scope: bytes) -> list[BlockName]:
        listed.append(scope)
        return names(disk, scope)

    monkeypatch.setattr(DiskBlocks, "names", noted)
    parts = make_parts(**DISK)
    tenants = [Namespace(bytes([number] * 16)) for number in range(3)]
    for expected in (0, WHOLE_BLOCKS_TOKENS, WHOLE_BLOCKS_TOKENS):
        for tenant in tenants:
            _, cached = await answer_ids(parts, IDS, 2, tenant)
            assert cached == expected
            await parts.answerer.engine.kept()
            assert parts.cache.flush(timeout_seconds=20)
    assert len(listed) == 3 * 3 + 1  # everybody's is asked for each time, and so is remembered
    for _ in range(3):
        await answer_ids(parts, IDS, 2, tenants[-1])
    assert len(listed) == 3 * 3 + 1
