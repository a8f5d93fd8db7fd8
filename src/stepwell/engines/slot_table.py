"""Which slot of a llama.cpp server a prompt goes to. Pure."""

from dataclasses import dataclass

MAX_COMPARED_BYTES = 64 << 10
"""Of a request. More than fits into the context of a small model."""


@dataclass(slots=True)
class _Slot:
    held: bytes = b""
    """The beginning of the request it served last, or serves."""
    used_at: int = 0
    is_busy: bool = False


class SlotTable:
    """Remembers what each slot served last. For one event loop.

    A conversation goes on in the slot that holds it. A new one goes where most of it stands
    already, as a shared system prompt does: what it drives out is in the server's prompt cache.
    """

    def __init__(self, slots: int) -> None:
        """Begin with ``slots`` empty, free slots."""
        self._slots = [_Slot() for _ in range(slots)]
        self._uses = 0

    def take(self, request: bytes) -> int | None:
        """Return the free slot with the longest common beginning, of those the least recently used.

        It is busy until `give_back`. ``None`` if none is free. Costs microseconds.
        """
        request = request[:MAX_COMPARED_BYTES]
        free = [number for number, slot in enumerate(self._slots) if not slot.is_busy]
        if not free:
            return None
        number = max(free, key=lambda number: self._worth(self._slots[number], request))
        slot = self._slots[number]
        self._uses += 1
        slot.held, slot.used_at, slot.is_busy = request, self._uses, True
        return number

    def give_back(self, number: int) -> None:
        """Free a slot that was taken."""
        self._slots[number].is_busy = False

    def _worth(self, slot: _Slot, request: bytes) -> tuple[int, int]:
        return common_bytes(slot.held, request), -slot.used_at


def common_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes two byte strings begin alike, by halving: no loop over bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
