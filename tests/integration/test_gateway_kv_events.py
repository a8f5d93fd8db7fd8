"""What a replica tells in KV events chooses it, though this gateway never sent anything there."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from support.gateway import SECRET, running_gateway
from support.kv_publisher import KvPublisher
from zmq.asyncio import Context

from stepwell.keys.namespace import Tenant
from stepwell.prefix.placement.salt import cache_salt
from stepwell.testing.fake_prefixes import FakePrefixCache, ids_of, words_of
from stepwell.testing.fake_upstream import FakeUpstream

WORDS = " ".join(f"word{number}" for number in range(200))
SALT = cache_salt(SECRET, "llm", Tenant("token:sk-test", SECRET).namespace())
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": WORDS}]}


def stored(tokens: list[int], salt: str | None) -> dict[str, Any]:
    """Return the event of a prompt's whole blocks of 16."""
    count = len(tokens) // 16
    return {
        "type": "BlockStored",
        "block_hashes": [f"h{number}".encode() for number in range(count)],
        "parent_block_hash": None,
        "token_ids": tokens[: count * 16],
        "block_size": 16,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": None if salt is None else [[salt], *[None] * (count - 1)],
    }


@pytest.mark.parametrize("salted", [False, True])
async def test_a_replica_that_was_filled_by_others(tmp_path: Path, *, salted: bool) -> None:
    """By another gateway with the same secret, say. Another tenant's blocks do not count."""
    context = Context()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(context.destroy, linger=0)
        replicas = [
            await stack.enter_async_context(FakeUpstream(prefixes=FakePrefixCache()))
            for _ in range(3)
        ]
        folders = [tmp_path / str(number) for number in range(3)]
        for folder in folders:
            folder.mkdir()
        publishers = [
            await stack.enter_async_context(KvPublisher(context, str(folder))) for folder in folders
        ]
        upstream = {
            "replicas": [replica.base_url for replica in replicas],
            "engine": "vllm",
            "prefix": {
                "salt": "tenant" if salted else "off",
                "kv_events": [publisher.endpoint for publisher in publishers],
                "kv_replays": [publisher.replay_endpoint for publisher in publishers],
            },
        }
        gateway = await stack.enter_async_context(
            running_gateway(tmp_path / "data", "", {"upstreams": {"llm": upstream}})
        )
        for publisher in publishers:
            await publisher.subscribed()
        tokens = ids_of(words_of(ASKED))
        own, others = (SALT, "another tenant's") if salted else (None, None)
        await publishers[0].publish(stored(tokens[:64], own))
        await publishers[1].publish(stored(tokens[:128], own))
        await publishers[2].publish(stored(tokens[:192] if salted else tokens[:32], others))
        await asyncio.sleep(0.3)
        assert (await gateway.post(ASKED)).status == 200
        asked = [
            any(call.path.endswith("completions") for call in replica.calls) for replica in replicas
        ]
        assert asked == [False, True, False]
