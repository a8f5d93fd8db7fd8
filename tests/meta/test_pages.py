"""What the pages say can be followed: links, examples, commands."""

import argparse
import contextlib
import io
import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest
from meta.repository import ROOT, Fence, Link, anchors, definitions, fences, links, name_of

import stepwell.cli
from stepwell.assembly.reference import command_parser
from stepwell.assembly.settings import parse_settings


def named(fence: Fence) -> str:
    return fence.name


def test_links_lead_somewhere() -> None:
    """Every relative link names a file of the repository, and a heading that is there."""
    assert [broken for link in links() if (broken := _broken(link))] == []


def _broken(link: Link) -> str:
    where = f"{name_of(link.page)}: {link.target}"
    if "://" in link.target or link.target.startswith("mailto:"):
        return ""
    path, _, anchor = link.target.partition("#")
    target = (link.page.parent / path).resolve() if path else link.page
    if not target.exists() or not target.is_relative_to(ROOT):
        return f"{where}: no such file"
    if anchor and anchor not in anchors(target):
        return f"{where}: no such heading"
    if target.suffix == ".py" and link.text.strip("`") not in definitions(target):
        return f"{where}: no {link.text} in it"
    return ""


def test_pages_are_reached_from_the_index() -> None:
    """Every page of docs/ and design/ is linked from docs/index.md."""
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link.target).resolve() for link in links() if link.page == index}
    pages = {page for folder in ("docs", "design") for page in (ROOT / folder).rglob("*.md")}
    assert sorted(map(name_of, pages - linked - {index})) == []


@pytest.mark.parametrize("fence", fences("python"), ids=named)
def test_python_compiles(fence: Fence) -> None:
    """Every Python block is Python."""
    compile(fence.text, fence.name, "exec")


@pytest.mark.parametrize("fence", fences("bash", "sh", "console"), ids=named)
def test_shell_parses(fence: Fence) -> None:
    """Every shell block is accepted by ``bash -n``."""
    checked = subprocess.run(
        ["bash", "-n"], input=fence.text, text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("fence", fences("toml"), ids=named)
def test_settings_are_accepted(fence: Fence) -> None:
    """Every TOML block is a settings file that the gateway would take."""
    parse_settings(tomllib.loads(fence.text))


@pytest.mark.parametrize("fence", fences("json"), ids=named)
def test_json_parses(fence: Fence) -> None:
    """Every JSON block is JSON."""
    json.loads(fence.text)


def _commands() -> Iterator[tuple[str, list[str]]]:
    for fence in fences("bash", "sh", "console"):
        for line in fence.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True) if "stepwell" in line else []
            if words and words[0].rpartition("/")[2] == "stepwell":
                until = next((i for i, w in enumerate(words) if w.startswith(">")), len(words))
                yield f"{fence.name}: {line.strip()}", words[1:until]


def test_commands_are_accepted() -> None:
    """Every call of ``stepwell`` on the pages has a command and options that exist."""
    parser = command_parser(stepwell.cli)
    calls = list(_commands())
    assert len(calls) > 10
    assert [name for name, words in calls if not _accepts(parser, words)] == []


def _accepts(parser: argparse.ArgumentParser, words: list[str]) -> bool:
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        parser.parse_args(words)
        return True
    return False


def test_generated_pages_are_in_sync() -> None:
    """Settings, commands and metrics are described as they are; scripts/fix writes them anew."""
    checked = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference.py", "--check"],
        text=True,
        capture_output=True,
        check=False,
    )
    assert (checked.stdout, checked.returncode) == ("", 0), checked.stderr
