"""A model server for tests: real HTTP, no model, and as ill-behaved as a test wants it.

    async with FakeUpstream() as upstream:
        ...                                  # talk to upstream.base_url
        assert upstream.call_count == 1

Answers are a function of the request (`stepwell.testing.fake_answers`), so whether a client
got its own answer, and all of it, can be read from the bytes; the reply field ``x-fake-call``
says which call made it. How it misbehaves is a `Script`, chosen by the request's model name
(`SCRIPTS` lists those that are there), or queued for the next calls::

    upstream.scripts["my-model"] = Script(fault=Fault.RESET, after_events=3)
    upstream.queue.append(Script(status=503))

By hand: ``python -m stepwell.testing.fake_upstream --port 8000``; with ``--prefixes`` it reports
cached tokens.
"""

import argparse
import asyncio
import contextlib
import sys
from collections import deque
from http import HTTPStatus
from typing import Self

from stepwell.testing.fake_connection import Connection, Received
from stepwell.testing.fake_performance import Performance
from stepwell.testing.fake_prefixes import FakePrefixCache
from stepwell.testing.fake_script import SCRIPTS, Fault, Script, VectorFault

__all__ = ["SCRIPTS", "FakeUpstream", "Fault", "Received", "Script", "VectorFault"]


class FakeUpstream:
    """Serves on a loopback port while entered. For one event loop.

    Attributes:
        scripts: Model name to script; starts as `SCRIPTS`.
        paths: Path, such as ``/tokenize``, to script; comes before the model's.
        queue: Scripts for the next calls, whatever their model.
        calls: The last thousand requests, oldest first.
        call_count: Requests since the start.
    """

    def __init__(self, *, port: int = 0, prefixes: FakePrefixCache | None = None) -> None:
        """Prepare to serve.

        Args:
            port: 0 takes a free one.
            prefixes: Lets it report cached tokens, and name the tokens of prompts.
        """
        self._prefixes = prefixes
        self.scripts = dict(SCRIPTS)
        self.paths: dict[str, Script] = {}
        self.queue: deque[Script] = deque()
        self.calls: deque[Received] = deque(maxlen=1_000)
        self.call_count = 0
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._arrival = asyncio.Condition()

    @property
    def base_url(self) -> str:
        """Address to give to a client, ending in ``/v1``. Valid once entered."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    async def wait_for_calls(self, count: int) -> None:
        """Return once ``count`` requests have come since the start."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: self.call_count >= count)

    async def __aenter__(self) -> Self:
        """Start to listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._reply, self._connections), "127.0.0.1", self._port
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Stop to listen and abort all connections; entering again serves on the same port."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(connection.aclose() for connection in tuple(self._connections)))

    async def _reply(self, received: Received, connection: Connection) -> None:
        self.calls.append(received)
        self.call_count += 1
        number = self.call_count
        async with self._arrival:
            self._arrival.notify_all()
        script = self.queue.popleft() if self.queue else self._script_for(received)
        if script.hold is not None:
            await script.hold.wait()
        if script.head_delay_seconds:
            await asyncio.sleep(script.head_delay_seconds)
        performance = Performance(received, script, connection, number, self._prefixes)
        await performance.run(list(self.scripts))

    def _script_for(self, received: Received) -> Script:
        if received.path in self.paths:
            return self.paths[received.path]
        try:
            model = received.json().get("model")
        except (ValueError, AttributeError):
            return Script(status=HTTPStatus.BAD_REQUEST)
        return self.scripts.get(str(model), Script())


async def _serve(port: int, prefixes: FakePrefixCache | None) -> None:
    async with FakeUpstream(port=port, prefixes=prefixes) as upstream:
        sys.stdout.write(f"Serving {upstream.base_url}, models {', '.join(upstream.scripts)}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m stepwell.testing.fake_upstream")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument(
        "--prefixes",
        action="store_true",
        help="report cached tokens as a server with a prefix cache does, a word a token",
    )
    options = parser.parse_args()
    prefixes = FakePrefixCache() if options.prefixes else None
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.port, prefixes))


if __name__ == "__main__":
    main()
