"""Writes the generated pages in docs/reference; with --check, only says which are out of date."""

import sys
from pathlib import Path

import stepwell.cli
from stepwell.assembly.reference import command_parser, render_commands, render_settings
from stepwell.telemetry.reference import render_reference

DIRECTORY = Path(__file__).parent.parent / "docs" / "reference"


def main() -> int:
    """Write or check every page; return 1 if one is out of date and was to be checked only."""
    pages = {
        "cli.md": render_commands(command_parser(stepwell.cli)),
        "metrics.md": render_reference(),
        "settings.md": render_settings(),
    }
    old = [name for name, page in pages.items() if not _is(DIRECTORY / name, page)]
    if "--check" in sys.argv[1:]:
        for name in old:
            print(f"docs/reference/{name} is out of date; run scripts/fix")
        return 1 if old else 0
    for name in old:
        (DIRECTORY / name).write_text(pages[name], encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


def _is(path: Path, page: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == page


if __name__ == "__main__":
    sys.exit(main())
