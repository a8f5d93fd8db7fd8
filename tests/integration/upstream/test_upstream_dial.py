"""A host with several addresses, some of which do not answer."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.dead_ports import silent

from stepwell.engines import direct_dial
from stepwell.engines.direct_dial import TcpAddress, dial, resolve


def address_of(listener: socket.socket) -> TcpAddress:
    return (socket.AF_INET, socket.SOCK_STREAM, 0, "", listener.getsockname())


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def refusing() -> TcpAddress:
    with listening() as listener:
        return address_of(listener)


async def test_first_address_is_preferred() -> None:
    """The others are not even tried."""
    with listening() as first, listening() as second:
        with await dial([address_of(first), address_of(second)]) as connection:
            assert connection.getpeername() == first.getsockname()
        second.settimeout(0)
        with pytest.raises(BlockingIOError):
            second.accept()


async def test_address_that_refuses_is_passed_over_at_once() -> None:
    """Without waiting for its head start to be over."""
    with listening() as second:
        with await dial([refusing(), refusing(), address_of(second)]) as connection:
            assert connection.getpeername() == second.getsockname()


async def test_address_that_is_silent_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is tried beside it; the attempt that lost leaves no socket behind."""
    monkeypatch.setattr(direct_dial, "HEAD_START_SECONDS", 0.01)
    with silent() as first, listening() as second:
        with await dial([address_of(first), address_of(second)]) as connection:
            assert connection.getpeername() == second.getsockname()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_only_one_of_those_that_answer_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that answer at the same moment are one too many."""
    monkeypatch.setattr(direct_dial, "HEAD_START_SECONDS", 0.0)
    with listening() as first, listening() as second:
        with await dial([address_of(first), address_of(second)]) as connection:
            assert connection.getpeername() in {first.getsockname(), second.getsockname()}
        await asyncio.sleep(0)  # a socket left open would be a ResourceWarning


async def test_all_refusals_are_told() -> None:
    """Each with the address that it is about."""
    first, second = refusing(), refusing()
    with pytest.raises(OSError, match=rf"{first[4][1]!r}.*; .*{second[4][1]!r}"):
        await dial([first, second])


async def test_no_address_is_an_error() -> None:
    """Not a wait for ever."""
    with pytest.raises(OSError, match="no address"):
        await dial([])


async def test_cancelling_leaves_no_socket() -> None:
    """A caller who leaves while it is tried takes all attempts along."""
    with silent() as first:
        dialing = asyncio.create_task(dial([address_of(first)]))
        await asyncio.sleep(0.01)
        dialing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialing
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_names_and_addresses_are_resolved() -> None:
    """To something that can be dialled."""
    by_name = await resolve("localhost", 80)
    assert [address[4] for address in await resolve("127.0.0.1", 80)] == [("127.0.0.1", 80)]
    assert [address[4][:2] for address in await resolve("::1", 80)] == [("::1", 80)]
    assert by_name[0][4][0] in {"127.0.0.1", "::1"}
    with pytest.raises(OSError, match=r"known|No address|failure"):
        await resolve("no-such-host.invalid", 80)
