"""Replicas of one model server behind a gateway."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwell.testing.fake_prefixes import FakePrefixCache
from stepwell.testing.fake_upstream import FakeUpstream
from support.gateway import Answer, Gateway, running_gateway

SYSTEM = " ".join(f"rule{number}" for number in range(300))


@dataclass
class Fleet:
    """A gateway and its replicas."""

    gateway: Gateway
    replicas: list[FakeUpstream]

    async def say(self, *texts: str, key: str = "sk-a", **fields: Any) -> Answer:
        """Ask a conversation of the user's and the model's turns."""
        turns = [
            {"role": "assistant" if number % 2 else "user", "content": text}
            for number, text in enumerate(texts)
        ]
        body = {"model": "m", "messages": [{"role": "system", "content": SYSTEM}, *turns], **fields}
        return await self.gateway.post(body, key=key)

    async def reports(self) -> list[dict[str, Any]]:
        """Return what the gateway says of its replicas."""
        said = await self.gateway.get("/admin/replicas")
        assert said.status == 200
        replicas: list[dict[str, Any]] = json.loads(said.body)["replicas"]
        return replicas

    async def move(self, replica: str, state: str, upstream: str = "llm") -> Answer:
        """Say what is wanted of a replica."""
        body = {"upstream": upstream, "replica": replica, "state": state}
        return await self.gateway.post(body, path="/admin/replicas", key=None)

    @property
    def calls(self) -> list[int]:
        """How many answers each replica was asked for."""
        return [
            sum(call.path == "/v1/chat/completions" for call in replica.calls)
            for replica in self.replicas
        ]

    async def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's series that have these labels."""
        page = (await self.gateway.get("/metrics")).body.decode()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            float(line.rpartition(" ")[2])
            for line in page.splitlines()
            if line.startswith(name + "{") and all(part in line for part in wanted)
        )


@contextlib.asynccontextmanager
async def fleet(
    tmp_path: Path,
    count: int = 2,
    *,
    dead: Sequence[socket.socket] = (),
    settings: dict[str, Any] | None = None,
    **table: Any,
) -> AsyncIterator[Fleet]:
    """Run a gateway in front of ``count`` replicas; ``table`` is the upstream's.

    Ports at which nobody answers are replicas, too.
    """
    tmp_path.mkdir(exist_ok=True)  # noqa: ASYNC240  (a test's own directory)
    async with contextlib.AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(FakeUpstream(prefixes=FakePrefixCache()))
            for _ in range(count)
        ]
        ports = [one.getsockname()[1] for one in dead]
        urls = [replica.base_url for replica in replicas]
        urls += [f"http://127.0.0.1:{port}/v1" for port in ports]
        upstream = {"replicas": urls, **table}
        gateway = await stack.enter_async_context(
            running_gateway(
                tmp_path / "data", "", {"upstreams": {"llm": upstream}, **(settings or {})}
            )
        )
        yield Fleet(gateway, replicas)
