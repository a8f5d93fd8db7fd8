"""What the slots of a llama.cpp server held, in files: whole and its own, or not there.

The server writes and reads a slot's file itself, and takes what it finds there on trust. So beside
each file stands what it must be, and only what is just that is given back to the server. A file
that is torn, that was made with other weights, or that brought a server down before, is a prompt
that must be computed again.

    slot-0.kv      as the server wrote it: token ids, keys and values
    slot-0.json    `SavedSlot`: written last, and taken away while a server reads the file

For one thread. Others may do the same in the same folder: the last to save wins.
"""

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec


class SavedSlot(msgspec.Struct, frozen=True):
    """What a slot's file must be."""

    made_by: str
    """Engine, weights, context: all that must be the same for the file to be of use."""
    tokens: int
    size_bytes: int
    sha256: str
    """In hexadecimal."""


class SavedSlots:
    """The files of one engine. Methods raise `OSError` where the disk refuses."""

    def __init__(self, folder: Path, made_by: str) -> None:
        """Look in ``folder``; nothing is touched before `make_folder`."""
        self._folder = folder
        self._made_by = made_by

    def make_folder(self) -> None:
        """Make the folder, for its owner alone, and remove what a save left half done."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._folder.glob("*.new"):
            left.unlink(missing_ok=True)

    def take(self, slot: int) -> SavedSlot | None:
        """Return what stands in the file of ``slot``, if it may be given to the server.

        Until `keep_on` says that the server lives, the file counts as one nobody has vouched for:
        what brings a server down is tried once. Reads the whole file.
        """
        beside = self._beside(slot)
        try:
            saved = msgspec.json.decode(beside.read_bytes(), type=SavedSlot)
            beside.unlink()
            if saved.made_by == self._made_by and saved == self._described(slot, saved.tokens):
                return saved
        except (OSError, msgspec.MsgspecError):
            pass
        return None

    def keep_on(self, slot: int, saved: SavedSlot) -> None:
        """Say that what `take` returned did no harm."""
        self._vouch(slot, saved)

    def has_any(self, slot: int) -> bool:
        """Return whether there is a file for ``slot``, good or bad."""
        return self.file(slot).exists()

    def remove(self, slot: int) -> None:
        """Remove what is there for ``slot``."""
        for path in (self._beside(slot), self.file(slot)):
            path.unlink(missing_ok=True)

    def keep(self, slot: int, written: Path, *, tokens: int, size_bytes: int) -> None:
        """Put what the server has ``written`` in the place of what was there.

        Raises:
            OSError: Also where the file is shorter than the server believes: the disk is full.
        """
        if written.stat().st_size != size_bytes:
            raise OSError(f"{written.name} is not as long as what was written")
        self._beside(slot).unlink(missing_ok=True)
        written.replace(self.file(slot))
        self._vouch(slot, self._described(slot, tokens))

    def file(self, slot: int) -> Path:
        """Return where the server finds what ``slot`` held."""
        return self._folder / f"slot-{slot}.kv"

    def new_file(self, slot: int) -> Path:
        """Return where the server shall write; `keep` takes it from there."""
        return self._folder / f"slot-{slot}.{os.getpid()}.new"

    def _described(self, slot: int, tokens: int) -> SavedSlot:
        with self.file(slot).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return SavedSlot(self._made_by, tokens, os.fstat(file.fileno()).st_size, sha256)

    def _vouch(self, slot: int, saved: SavedSlot) -> None:
        beside = self._beside(slot)
        aside = beside.with_name(f"{beside.name}.{os.getpid()}.new")
        try:
            aside.write_bytes(msgspec.json.encode(saved))
            aside.replace(beside)
        finally:
            aside.unlink(missing_ok=True)

    def _beside(self, slot: int) -> Path:
        return self._folder / f"slot-{slot}.json"


def folder_of(root: Path, made_by: str) -> Path:
    """Return the folder below ``root`` for engines that can read each other's files."""
    return root / hashlib.sha256(made_by.encode()).hexdigest()[:16]


def remove_others(folder: Path) -> int:
    """Remove the folders beside ``folder``, of engines that are no more; return how many.

    Else each new version would leave its prompts behind for good. What cannot be removed stays.
    """
    removed = 0
    with contextlib.suppress(OSError):
        for other in folder.parent.iterdir():
            if other != folder and other.is_dir():
                for file in other.iterdir():
                    file.unlink()
                other.rmdir()
                removed += 1
    return removed
