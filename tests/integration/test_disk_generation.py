"""The number that all processes of a disk store share."""

import subprocess
import sys
from pathlib import Path

from stepwell.stores.disk.generation import Generation

RAISE_MANY = """
import sys
from pathlib import Path
from stepwell.stores.disk.generation import Generation
generation = Generation(Path(sys.argv[1]))
for position in range(int(sys.argv[2]), 2_000, 2):
    generation.raise_to(position)
    assert generation.current() >= position
"""


def test_everybody_sees_it_at_once(tmp_path: Path) -> None:
    """What one raised, all see, and who comes later too."""
    first, second = Generation(tmp_path / "number"), Generation(tmp_path / "number")
    assert (first.current(), second.current()) == (0, 0)
    first.raise_to(258)
    assert second.current() == 258
    third = Generation(tmp_path / "number")
    assert third.current() == 258
    for generation in (first, second, third):
        generation.close()


def test_it_never_goes_back(tmp_path: Path) -> None:
    """Writers that committed 5 and 6 and announce 6 and 5 leave 6."""
    first, second = Generation(tmp_path / "number"), Generation(tmp_path / "number")
    second.raise_to(6)
    first.raise_to(5)
    assert (first.current(), second.current()) == (6, 6)
    first.close()
    second.close()


def test_processes_that_raise_it_together(tmp_path: Path) -> None:
    """It ends at the largest, and nobody ever sees it below what he has raised it to."""
    processes = [
        subprocess.Popen([sys.executable, "-c", RAISE_MANY, str(tmp_path / "number"), start])
        for start in ("0", "1")
    ]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    generation = Generation(tmp_path / "number")
    assert generation.current() == 1_999
    generation.close()


def test_file_removed_under_it(tmp_path: Path) -> None:
    """Handles that follow meet again in the new file, above all that was read."""
    first, second = Generation(tmp_path / "number"), Generation(tmp_path / "number")
    first.raise_to(7)
    (tmp_path / "number").unlink()
    first.follow()
    assert first.current() == 8
    second.follow()
    first.raise_to(9)
    assert second.current() == 9
    first.close()
    second.close()


def test_closed(tmp_path: Path) -> None:
    """A closed one stays as it was and takes no notice of anything."""
    generation = Generation(tmp_path / "number")
    generation.raise_to(3)
    generation.close()
    generation.close()
    generation.raise_to(4)
    generation.follow()
    assert generation.current() == 3
