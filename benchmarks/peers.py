"""The servers the benchmarks compare, and the model server behind them.

Ours are started by the functions below as processes of their own::

    python benchmarks/peers.py {upstream,constant,lookup,proxy} --port P

``upstream`` is a model server as fast as Python has it: it answers every request with the same
bytes (one for vectors with one vector), so that what a gateway adds is not lost in what its model
server takes.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import math
import os
import pwd
import shutil
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import aiohttp
import orjson
import uvicorn
from load import TOKEN, fast_loop, is_whole
from processes import CPUS, Server, free_port, serving
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

STREAM_PATH = "/stream/chat/completions"
"""Where servers that do not read the body answer with a stream."""

EVENTS = 67
_ANSWER_BYTES = 2_048
_TEXT = "The bridge over the river was very old and would not last another long winter. "


def _answer() -> bytes:
    def whole(text: str) -> bytes:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return orjson.dumps({**_head("chat.completion"), "choices": [choice], "usage": _USAGE})

    length = _ANSWER_BYTES - len(whole(""))
    return whole((_TEXT * 40)[:length])


def _head(kind: str) -> dict[str, object]:
    return {"id": "chatcmpl-benchmark", "object": kind, "created": 1_700_000_000, "model": "fake"}


_USAGE = {"prompt_tokens": 256, "completion_tokens": 64, "total_tokens": 320}


def _events() -> tuple[bytes, ...]:
    """Return a stream: role, 64 tokens, end, usage, and what marks the end."""

    def event(**members: object) -> bytes:
        body = {**_head("chat.completion.chunk"), "system_fingerprint": "fp_fake", **members}
        return b"data: " + orjson.dumps(body) + b"\n\n"

    deltas: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": f" {word}"}, None) for word in (_TEXT * 5).split()[:64]]
    deltas += [({}, "stop")]
    tokens = [
        event(choices=[{"index": 0, "delta": delta, "finish_reason": finish}], usage=None)
        for delta, finish in deltas
    ]
    return (*tokens, event(choices=[], usage=_USAGE), b"data: [DONE]\n\n")


ANSWER = _answer()
STREAM = _events()
STREAM_BODY = b"".join(STREAM)


WIDTH = 1_536
_VECTOR = [struct.unpack("<f", struct.pack("<f", math.sin(n) / 28))[0] for n in range(WIDTH)]


def _embeddings(embedding: object) -> bytes:
    """Return a reply with the vector of one text."""
    item = {"object": "embedding", "index": 0, "embedding": embedding}
    usage = {"prompt_tokens": 50, "total_tokens": 50}
    return orjson.dumps({"object": "list", "data": [item], "model": "fake", "usage": usage})


VECTOR = _embeddings(_VECTOR)
VECTOR_IN_BASE64 = _embeddings(base64.b64encode(struct.pack(f"<{WIDTH}f", *_VECTOR)).decode())


def start_upstream(
    directory: Path, *, delay_seconds: float = 0.0
) -> AbstractContextManager[Server]:
    """Run the model server; ``GET /calls`` tells how often it was asked."""
    port = free_port()
    command = _own("upstream", port, "--delay", str(delay_seconds))
    return serving(
        command,
        port=port,
        ready_path="/calls",
        log=directory / "upstream.log",
        cpus=CPUS[1:] or CPUS,
    )


GATEWAY_LOG = "gateway.log"
EXACT_ONLY = '[semantic]\nembedder = "off"\n'


def start_gateway(
    directory: Path,
    upstream_url: str,
    *,
    workers: int = 1,
    settings: str = EXACT_ONLY,
    cpus: Sequence[int] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AbstractContextManager[Server]:
    """Run Stepwell's gateway as a user would, with a fresh data directory."""
    port = free_port()
    file = directory / f"settings-{port}.toml"
    file.write_text(settings)
    command = [sys.executable, "-m", "stepwell.cli.main", "serve"]
    command += ["--upstream", f"{upstream_url}/v1", "--port", str(port)]
    command += ["--data", str(directory / f"data-{port}"), "--workers", str(workers)]
    command += ["--config", str(file)]
    return serving(
        command,
        port=port,
        ready_path="/readyz",
        log=directory / GATEWAY_LOG,
        environment=environment,
        cpus=cpus or (CPUS[:1] if workers == 1 else CPUS),
    )


def start_constant(directory: Path) -> AbstractContextManager[Server]:
    """Run uvicorn's HTTP protocol with the same bytes for every request."""
    port = free_port()
    return serving(_own("constant", port), port=port, log=directory / "constant.log")


def start_lookup(directory: Path) -> AbstractContextManager[Server]:
    """Run uvicorn with a bare ASGI callable that looks an answer up."""
    port = free_port()
    return serving(_own("lookup", port), port=port, log=directory / "lookup.log")


def start_proxy(directory: Path, upstream_url: str) -> AbstractContextManager[Server]:
    """Run uvicorn with a bare ASGI callable that passes requests on by aiohttp's client."""
    port = free_port()
    command = _own("proxy", port, "--upstream", upstream_url)
    return serving(command, port=port, log=directory / "proxy.log", cpus=CPUS[:1])


def start_nginx_proxy(directory: Path, upstream_url: str) -> AbstractContextManager[Server] | None:
    """Run nginx as a reverse proxy, or return ``None`` if it is not installed."""
    return _start_nginx(
        directory / "nginx-proxy", _NGINX_PROXY.replace("UPSTREAM", upstream_url.partition("//")[2])
    )


def start_nginx(directory: Path) -> AbstractContextManager[Server] | None:
    """Run nginx with the answers as files, or return ``None`` if it is not installed."""
    for path, body in (("/v1/chat/completions", ANSWER), (STREAM_PATH, STREAM_BODY)):
        file = directory / f"nginx/html{path}"
        file.parent.mkdir(parents=True)
        file.write_bytes(body)
    return _start_nginx(directory / "nginx", _NGINX_FILES)


def _start_nginx(directory: Path, servers: str) -> AbstractContextManager[Server] | None:
    program = shutil.which("nginx")
    if program is None:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    user = pwd.getpwuid(os.geteuid()).pw_name
    configuration = directory / "nginx.conf"
    text = _NGINX + servers + "}}\n"
    configuration.write_text(text.format(directory=directory, port=port, user=user))
    command = [program, "-c", str(configuration), "-e", "stderr"]
    return serving(command, port=port, log=directory / "nginx.log")


_NGINX = """
user {user};
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  client_body_temp_path {directory}/client;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
"""
_NGINX_FILES = """
  open_file_cache max=16 inactive=600s;
  open_file_cache_valid 600s;
  server {{
    listen 127.0.0.1:{port};
    root {directory}/html;
    default_type application/json;
    # A file is not posted to; this way nginx serves it all the same.
    error_page 405 =200 $uri;
    location /stream/ {{ default_type text/event-stream; }}
  }}
"""
_NGINX_PROXY = """
  upstream model {{ server UPSTREAM; keepalive 64; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://model;
      proxy_http_version 1.1;
      proxy_set_header connection "";
      proxy_buffering off;
    }}
  }}
"""


def start_litellm(
    directory: Path, upstream_url: str, python: Path
) -> AbstractContextManager[Server]:
    """Run LiteLLM's proxy with its cache in memory, from an environment of its own."""
    port = free_port()
    model = {"model": "openai/fake", "api_base": f"{upstream_url}/v1", "api_key": TOKEN}
    settings = {
        "model_list": [{"model_name": "fake", "litellm_params": model}],
        "general_settings": {"master_key": TOKEN},
        "litellm_settings": {"cache": True, "cache_params": {"type": "local"}},
    }
    configuration = directory / "litellm.yaml"
    configuration.write_text(json.dumps(settings))  # JSON is YAML.
    command = [str(python.parent / "litellm"), "--config", str(configuration)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    return serving(
        command,
        port=port,
        ready_path="/health/liveliness",
        log=directory / "litellm.log",
        environment={
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    )


def _own(name: str, port: int, *arguments: str) -> list[str]:
    return [sys.executable, __file__, name, "--port", str(port), *arguments]


class _Upstream(asyncio.Protocol):
    """One connection to the model server."""

    calls = 0

    def __init__(self, delay_seconds: float) -> None:
        self._delay_seconds = delay_seconds
        self._received = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not is_whole(self._received):
            return
        request = bytes(self._received)
        self._received.clear()
        if request.startswith(b"GET"):
            self._write(_whole_reply(b"%d" % _Upstream.calls))
            return
        _Upstream.calls += 1
        if request.startswith(b"POST /v1/embeddings"):
            answer = self._embed_in_base64 if b'"base64"' in request else self._embed
        else:
            answer = self._stream if b'"stream":true' in request else self._answer
        if self._delay_seconds:
            asyncio.get_running_loop().call_later(self._delay_seconds, answer)
        else:
            answer()

    def _answer(self) -> None:
        self._write(_ANSWER_REPLY)

    def _embed(self) -> None:
        self._write(_VECTOR_REPLY)

    def _embed_in_base64(self) -> None:
        self._write(_VECTOR_IN_BASE64_REPLY)

    def _stream(self) -> None:
        self._write(_STREAM_HEAD)
        self._event(0)

    def _event(self, number: int) -> None:
        """Send one event, and the next when the loop comes round: each is a send of its own."""
        self._write(_CHUNKS[number])
        if number + 1 < len(_CHUNKS):
            asyncio.get_running_loop().call_soon(self._event, number + 1)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


class _Constant(HttpToolsProtocol):
    """Uvicorn's reading, and then always the same bytes: the least a reply can cost here."""

    def on_headers_complete(self) -> None:
        """Start nothing."""

    def on_body(self, body: bytes) -> None:
        """Keep nothing."""

    def on_message_complete(self) -> None:
        """Answer."""
        is_stream = self.url.startswith(b"/stream")
        self.transport.write(_STREAM_REPLY if is_stream else _ANSWER_REPLY)


async def _lookup(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer from a dictionary by the digest of the sorted body."""
    del scope
    raw, more = b"", True
    while more:
        message = await receive()
        raw += message.get("body", b"")
        more = message.get("more_body", False)
    body = orjson.loads(raw or b"{}")
    key = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()
    found = _ANSWERS.get(key)
    if found is None:
        found = _ANSWERS[key] = _STREAM_FOUND if body.get("stream") else _ANSWER_FOUND
    fields, answer = found
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": answer})


class _Proxy:
    """Passes every request on and its reply back, and knows nothing of either."""

    def __init__(self, upstream_url: str) -> None:
        self._upstream_url = upstream_url
        self._session: aiohttp.ClientSession | None = None

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False)
        raw, more = b"", True
        while more:
            message = await receive()
            raw += message.get("body", b"")
            more = message.get("more_body", False)
        url = self._upstream_url + scope["path"]
        fields = {"content-type": "application/json"}
        async with self._session.request(scope["method"], url, data=raw, headers=fields) as reply:
            kept = [
                (name.lower(), value)
                for name, value in reply.raw_headers
                if name.lower() != b"transfer-encoding"
            ]
            status = reply.status
            await send({"type": "http.response.start", "status": status, "headers": kept})
            async for chunk in reply.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


_Found = tuple[list[tuple[bytes, bytes]], bytes]
_ANSWERS: dict[bytes, _Found] = {}


def _found(body: bytes, content_type: bytes) -> _Found:
    return [(b"content-type", content_type), (b"content-length", b"%d" % len(body))], body


def _whole_reply(body: bytes, content_type: bytes = b"application/json") -> bytes:
    lines = b"".join(b"%b: %b\r\n" % field for field in _found(body, content_type)[0])
    return b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n" + body


_ANSWER_FOUND = _found(ANSWER, b"application/json")
_STREAM_FOUND = _found(STREAM_BODY, b"text/event-stream")
_ANSWER_REPLY = _whole_reply(ANSWER)
_VECTOR_REPLY = _whole_reply(VECTOR)
_VECTOR_IN_BASE64_REPLY = _whole_reply(VECTOR_IN_BASE64)
_STREAM_REPLY = _whole_reply(STREAM_BODY, b"text/event-stream")
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_CHUNKS = (*(b"%x\r\n%b\r\n" % (len(event), event) for event in STREAM), b"0\r\n\r\n")


async def _serve_upstream(port: int, delay_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Upstream(delay_seconds), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=("upstream", "constant", "lookup", "proxy"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds, of the upstream")
    parser.add_argument("--upstream", default="", help="base URL, of the proxy")
    options = parser.parse_args()
    if options.name == "upstream":
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            runner.run(_serve_upstream(options.port, options.delay))
        return
    uvicorn.run(
        _Proxy(options.upstream) if options.name == "proxy" else _lookup,
        port=options.port,
        http=_Constant if options.name == "constant" else "httptools",
        lifespan="off",
        log_level="warning",
        access_log=False,
        backlog=4096,
    )


if __name__ == "__main__":
    main()
