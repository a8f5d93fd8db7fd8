"""A real gateway in front of a fake model server, in the test's own event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn

from stepwell.assembly.house import Plan
from stepwell.assembly.settings import parse_settings
from stepwell.assembly.worker import Worker
from stepwell.embedding.supervisor import EmbedderAddress
from stepwell.gateway.protocol import GatewayProtocol

SECRET = bytes(range(32))


@dataclass
class Answer:
    """A reply, read to its end."""

    status: int
    headers: Any
    body: bytes

    @property
    def cache_status(self) -> str:
        return str(self.headers.get("cache-status", ""))


@dataclass
class Gateway:
    """A running gateway and a client for it."""

    origin: str
    http: aiohttp.ClientSession

    async def post(
        self,
        body: Any,
        *,
        path: str = "/v1/chat/completions",
        key: str | None = "sk-test",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send one request; ``body`` is JSON, or bytes as they are."""
        fields = {"content-type": "application/json", **(headers or {})}
        if key is not None:
            fields["authorization"] = f"Bearer {key}"
        sent = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self.http.post(self.origin + path, headers=fields, **sent) as reply:
            return Answer(reply.status, reply.headers, await reply.read())

    async def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        """Fetch one path."""
        async with self.http.get(self.origin + path, headers=headers) as reply:
            return Answer(reply.status, reply.headers, await reply.read())

    async def ask(self, text: str, **fields: Any) -> Answer:
        """Ask one plain question."""
        headers, key = fields.pop("headers", None), fields.pop("key", "sk-test")
        return await self.post(question(text, **fields), headers=headers, key=key)

    async def settle(self) -> None:
        """Return when what was answered is in the store: counting waits for what waits to be put.

        A worker process would keep its lock that long; gateways of one process share their locks.
        """
        await self.post({"everything": True}, path="/admin/invalidate", key=None)


def question(text: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a plain chat request."""
    return {"model": "fake", "messages": [{"role": "user", "content": text}], **fields}


StartGateway = Callable[..., AbstractAsyncContextManager[Gateway]]


@contextlib.asynccontextmanager
async def running_gateway(
    data_dir: Path,
    base_url: str,
    settings: dict[str, Any] | None = None,
    *,
    embedder: EmbedderAddress | None = None,
) -> AsyncIterator[Gateway]:
    """Run a gateway in this event loop, on the real protocol, until the block ends."""
    tables: dict[str, Any] = {
        "upstreams": {"fake": {"base_url": base_url}},
        "log": {"target": "off"},
    }
    tables.update(settings or {})
    plan = Plan(
        parse_settings(tables), data_dir, SECRET, embedder=embedder, boot="test", version="test"
    )
    data_dir.mkdir(exist_ok=True)  # noqa: ASYNC240  (a test's own directory)
    sock = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        partial(Worker, plan),
        factory=True,
        http=GatewayProtocol,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level="error",
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    while not server.started:
        await asyncio.sleep(0.01)
        if serving.done():
            serving.result()
            raise RuntimeError("the gateway did not start")
    try:
        async with aiohttp.ClientSession() as http:
            yield Gateway(f"http://127.0.0.1:{sock.getsockname()[1]}", http)
    finally:
        server.should_exit = True
        await serving
        sock.close()
