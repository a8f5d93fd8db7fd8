"""A llama.cpp server whose slots are chosen here, one for each conversation."""

from collections.abc import AsyncIterator
from dataclasses import replace

from stepwell.core.ports import Call, Headers, Reply, Upstream
from stepwell.engines.slot_table import SlotTable


class SlottedUpstream:
    """An `Upstream` that says in each call which slot of the server is to serve it.

    The server could choose itself, but takes a slot for a conversation's own when most of the
    prompt is alike, as with a long system prompt, and drops what stood behind it.

    Each worker process has a table of its own. Where several share a server, one may name a slot
    that another's call is in: then the call waits for that slot, as it would for a processor.
    """

    def __init__(self, upstream: Upstream, slots: int) -> None:
        """Choose among ``slots`` slots of ``upstream``, which is closed with this."""
        self._upstream = upstream
        self._table = SlotTable(slots)
        self.name = upstream.name
        self.identity = upstream.identity

    async def send(self, call: Call) -> Reply:
        """As `Upstream.send`."""
        if not _can_be_told(call.body):
            return await self._upstream.send(call)
        slot = self._table.take(call.body)
        if slot is None:
            return await self._upstream.send(call)
        try:
            reply = await self._upstream.send(_in_slot(call, slot))
        except BaseException:
            self._table.give_back(slot)
            raise
        return _SlottedReply(reply, self._table, slot)

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """As `Upstream.forward`."""
        return await self._upstream.forward(method, path, query, headers, body)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._upstream.aclose()


class _SlottedReply:
    """A reply that frees its slot when it is closed."""

    def __init__(self, reply: Reply, table: SlotTable, slot: int) -> None:
        self._reply = reply
        self._table = table
        self._slot: int | None = slot
        self.status = reply.status
        self.headers = reply.headers

    def chunks(self) -> AsyncIterator[bytes]:
        return self._reply.chunks()

    async def aclose(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            self._table.give_back(slot)
        await self._reply.aclose()


def _can_be_told(body: bytes) -> bool:
    """Return whether a member may be added: not where the caller names a slot."""
    return body[:1] == b"{" and b'"id_slot"' not in body and body[1:].lstrip()[:1] == b'"'


def _in_slot(call: Call, slot: int) -> Call:
    return replace(call, body=b'{"id_slot":%d,' % slot + call.body[1:])
