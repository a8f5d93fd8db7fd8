"""Saving what slots hold, and giving it back: only what is whole, and one's own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stepwell.engines.llama_routes import Activity, RouteFailed, Wrote
from stepwell.engines.saved_slots import SavedSlots, folder_of, remove_others
from stepwell.engines.warm_slots import (
    IDLE_SECONDS,
    MIN_TOKENS,
    SAVE_EVERY_SECONDS,
    Restored,
    WarmSlots,
)

MADE_BY = "engine 1, weights 2"


class Server:
    """Slots as texts, a byte a token."""

    def __init__(self, folder: Path, *held: bytes) -> None:
        self.folder = folder
        self.held = list(held)
        self.cache: list[bytes] = []
        """What was let go."""
        self.decodes = 0
        self.is_busy = False
        self.is_deaf = False
        self.writes_at_most = 1 << 20
        self.saves = 0

    def save(self, slot: int, filename: str, timeout_seconds: float) -> Wrote:
        self._check(timeout_seconds)
        self.saves += 1
        held = self.held[slot]
        (self.folder / filename).write_bytes(held[: self.writes_at_most])
        return Wrote(len(held), len(held))

    def restore(self, slot: int, filename: str, timeout_seconds: float) -> int:
        self._check(timeout_seconds)
        self.held[slot] = (self.folder / filename).read_bytes()
        return len(self.held[slot])

    def let_go(self, slot: int, timeout_seconds: float) -> None:
        self._check(timeout_seconds)
        self.cache.append(self.held[slot])
        self.held[slot] = b"."
        self.decodes += 1

    def activity(self, timeout_seconds: float) -> Activity:
        self._check(timeout_seconds)
        return Activity(self.decodes, self.is_busy)

    def work(self, slot: int, held: bytes) -> None:
        self.held[slot] = held
        self.decodes += 1

    def _check(self, timeout_seconds: float) -> None:
        assert timeout_seconds > 0
        if self.is_deaf:
            raise RouteFailed("no answer")


COWS, DOGS = b"cows " * 20, b"dogs " * 30


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., tuple[Server, WarmSlots]]:
    """Return what starts a server of two slots; all share a folder."""
    folder = tmp_path / "kv"

    def begin(made_by: str = MADE_BY) -> tuple[Server, WarmSlots]:
        server = Server(folder, b"", b"")
        return server, WarmSlots(server, SavedSlots(folder, made_by), 2)

    return begin


Start = Callable[..., tuple[Server, WarmSlots]]


def saved_once(start: Start) -> Path:
    """Let a server work and end."""
    server, warm = start()
    assert warm.restore() == Restored()
    server.work(0, COWS)
    server.work(1, DOGS)
    warm.save_at_the_end()
    return server.folder


def test_the_next_one_begins_with_what_the_last_one_held(start: Start) -> None:
    """In its prompt cache, where any slot finds it; and the files are still there after that."""
    folder = saved_once(start)
    assert folder.stat().st_mode & 0o777 == 0o700
    for _ in range(2):
        server, warm = start()
        assert warm.restore() == Restored(slots=2, tokens=len(COWS) + len(DOGS), refused=0)
        assert server.cache == [COWS, DOGS]
        warm.save_at_the_end()  # It has served nobody.
        assert server.saves == 0


def test_what_let_go_does_not_replace_what_it_held(start: Start) -> None:
    """A slot that nobody used since holds a token or two."""
    saved_once(start)
    server, warm = start()
    warm.restore()
    server.work(0, b"sheep" * 20)
    warm.save_at_the_end()
    server, warm = start()
    warm.restore()
    assert server.cache == [b"sheep" * 20, DOGS]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "slot-0.kv").write_bytes(COWS[:-1]),
        lambda folder: (folder / "slot-0.kv").write_bytes(b"C" + COWS[1:]),
        lambda folder: (folder / "slot-0.json").write_bytes(b"{"),
        lambda folder: (folder / "slot-0.json").unlink(),
        lambda folder: (folder / "slot-1.kv").replace(folder / "slot-0.kv"),
    ],
    ids=["torn", "flipped", "half a description", "none", "another's"],
)
def test_damage_is_a_counted_miss(start: Start, damage: Callable[[Path], object]) -> None:
    """The server never sees such a file; it is gone afterwards."""
    damage(saved_once(start))
    server, warm = start()
    assert warm.restore().refused == 1
    assert COWS not in server.cache
    assert start()[1].restore().refused == 0


def test_what_others_made_is_a_counted_miss(start: Start) -> None:
    """Whole, but of other weights: of no use, and never given to the server."""
    saved_once(start)
    server, warm = start("engine 1, weights 3")
    assert warm.restore() == Restored(refused=2)
    assert server.cache == []


def test_what_brings_the_server_down_is_tried_once(start: Start) -> None:
    """Else the supervisor would start it again and again, for ever."""
    saved_once(start)
    server, _ = start()

    def die(slot: int, filename: str, timeout_seconds: float) -> int:
        raise SystemExit

    server.restore = die  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        WarmSlots(server, SavedSlots(server.folder, MADE_BY), 2).restore()
    assert start()[1].restore() == Restored(slots=1, tokens=len(DOGS), refused=1)


def test_a_server_that_refuses(start: Start) -> None:
    """It says no: a miss, and the file goes."""
    folder = saved_once(start)
    server, warm = start()
    server.is_deaf = True
    assert warm.restore() == Restored(refused=2)
    assert list(folder.iterdir()) == []


def test_a_full_disk_is_harmless(start: Start) -> None:
    """What is cut short is not kept, nor is anything left lying about; the last save stays."""
    folder = saved_once(start)
    server, warm = start()
    warm.restore()
    server.work(0, b"sheep" * 20)
    server.writes_at_most = 7
    warm.save_at_the_end()
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".json", ".kv", ".kv"]
    server, warm = start()
    warm.restore()
    assert server.cache == [COWS, DOGS]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """Nothing is restored or saved, and nothing is harmed."""
    (tmp_path / "kv").write_bytes(b"a file")
    server = Server(tmp_path / "kv", b"", b"")
    warm = WarmSlots(server, SavedSlots(tmp_path / "kv", MADE_BY), 2)
    assert warm.restore() == Restored()
    server.work(0, COWS)
    warm.save_at_the_end()
    assert server.saves == 2
    assert (tmp_path / "kv").read_bytes() == b"a file"


def test_half_done_saves_are_removed(start: Start) -> None:
    """A process that was killed in the middle of one leaves nothing for ever."""
    folder = saved_once(start)
    (folder / "slot-0.123.new").write_bytes(b"half")
    start()[1].restore()
    assert not list(folder.glob("*.new"))


def test_it_is_saved_when_it_has_worked_and_is_idle(start: Start) -> None:
    """Not while it works, not at once, not twice for the same, and not all the time."""
    server, warm = start()
    warm.restore()
    warm.look(0.0)
    warm.look(IDLE_SECONDS)
    assert server.saves == 0  # It has done nothing.
    server.work(0, COWS)
    warm.look(10.0)
    warm.look(10.0 + IDLE_SECONDS - 1)
    assert server.saves == 0
    server.is_busy = True
    warm.look(30.0)
    warm.look(40.0)
    assert server.saves == 0
    server.is_busy = False
    warm.look(41.0)
    warm.look(41.0 + IDLE_SECONDS)
    assert server.saves == 2
    warm.look(200.0)
    assert server.saves == 2  # Nothing new.
    server.work(0, DOGS)
    warm.look(201.0)
    warm.look(201.0 + IDLE_SECONDS)
    assert server.saves == 4
    server.work(0, COWS)
    warm.look(210.0)
    warm.look(210.0 + IDLE_SECONDS)
    assert server.saves == 4  # Too soon.
    warm.look(206.0 + SAVE_EVERY_SECONDS)
    assert server.saves == 6


def test_a_server_that_does_not_answer_is_left_alone(start: Start) -> None:
    """It is in the middle of a long prompt, or has died."""
    server, warm = start()
    warm.restore()
    server.work(0, COWS)
    server.is_deaf = True
    warm.look(0.0)
    warm.save_at_the_end()
    assert server.saves == 0


def test_a_slot_with_next_to_nothing_is_not_worth_a_file(start: Start) -> None:
    server, warm = start()
    warm.restore()
    server.work(0, b"x" * (MIN_TOKENS - 1))
    warm.save_at_the_end()
    assert list(server.folder.iterdir()) == []


def test_other_versions_leave_nothing_behind(tmp_path: Path) -> None:
    """One folder for those that can read each other's files; the others' go."""
    root = tmp_path / "llama"
    mine, other = folder_of(root, "mine"), folder_of(root, "other")
    assert mine != other
    assert remove_others(mine) == 0
    for folder in (mine, other):
        folder.mkdir(parents=True)
        (folder / "slot-0.kv").write_bytes(b"kv")
    assert remove_others(mine) == 1
    assert [path.name for path in root.iterdir()] == [mine.name]
    assert (mine / "slot-0.kv").exists()
