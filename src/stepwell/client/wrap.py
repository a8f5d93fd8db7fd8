"""A cache inside an OpenAI client: the same surface, the same response objects.

The client keeps everything it does itself (types, retries, streams); only the way its HTTP
requests take is another: they come here first, and what the cache has not, the client's own HTTP
client fetches, with the caller's own header, time-outs and proxies.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from stepwell.assembly.settings import Settings
from stepwell.client.desk import Desk
from stepwell.client.fetch import ClientUpstream
from stepwell.client.given import settings_of
from stepwell.client.transports import AsyncTransport, SyncTransport

C = TypeVar("C")


def wrap(
    client: C,
    settings: Settings | Mapping[str, Any] | Path | str | None = None,
    *,
    data_dir: Path | str | None = None,
) -> C:
    """Return a client like ``client`` that answers repeats from a cache.

    ::

        client = stepwell.wrap(openai.OpenAI())

    Its replies carry the gateway's cache headers; ``with_raw_response`` shows them. The client's
    API key is the tenant: clients with different keys share nothing. Close the returned client
    as you would the other; ``client`` itself stays usable and stays open.

    Args:
        client: An `openai.OpenAI`, which may be used from many threads, or an
            `openai.AsyncOpenAI`, whose cache belongs to the event loop that uses it first.
        settings: As the settings file has them: parsed, as plain tables, or the file. Its
            ``upstreams`` do not count: ``client`` says where to ask.
        data_dir: Where entries are kept, shared with other processes. Without it they stay in
            memory.

    Raises:
        ConfigError: A setting is wrong.
        TypeError: ``client`` is no OpenAI client.
    """
    inner: Any = getattr(client, "_client", None)
    copy = getattr(client, "copy", None)
    http = _http_library(inner)
    if copy is None or http is None:
        raise TypeError(f"{type(client).__name__} is not an OpenAI client.")
    checked = settings_of(settings)
    directory = None if data_dir is None else Path(data_dir)

    async def open_desk(upstream: ClientUpstream) -> Desk:
        return await Desk.open(checked, upstream, directory)

    base_url = str(getattr(client, "base_url", ""))
    if isinstance(inner, http.AsyncClient):
        transport: object = AsyncTransport(http, inner, base_url, open_desk)
        http_client = http.AsyncClient(transport=transport, timeout=inner.timeout)
    else:
        transport = SyncTransport(http, inner, base_url, open_desk)
        http_client = http.Client(transport=transport, timeout=inner.timeout)
    wrapped: C = copy(http_client=http_client)
    return wrapped


def _http_library(inner: object) -> ModuleType | None:
    """Return httpx or httpx2, whichever the SDK uses: since 3.0 it is the latter."""
    for kind in type(inner).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in {"httpx", "httpx2"}:
            return importlib.import_module(name)
    return None
