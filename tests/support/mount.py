"""File systems of the tests' own. Linux, and root only."""

import subprocess


def mount(*arguments: str) -> None:
    """Run ``mount``; `subprocess.CalledProcessError` if it fails."""
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def unmount(place: str) -> None:
    """Detach what is mounted at ``place``, now or when nobody uses it any more."""
    subprocess.run(["umount", "--lazy", place], check=True)
