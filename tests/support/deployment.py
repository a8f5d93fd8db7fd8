"""Reads and tries the files under ``deploy/``."""

import re
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import hiredis
import yaml
from meta.repository import ROOT

from stepwell.assembly.checks import check
from stepwell.assembly.secret import secret_of
from stepwell.assembly.settings import Settings, load_settings
from support.redis_servers import PATIENCE_SECONDS, VALKEY, free_port, wait_until

DEPLOY = ROOT / "deploy"
PINNED = re.compile(r"[\w./-]+:v?\d+\.[\w.-]+")
"""An image by its version; ``latest`` is none."""


class Instruction(NamedTuple):
    """One of the container file."""

    name: str
    text: str


def container_file() -> list[Instruction]:
    """Return the instructions of the container file, continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Instruction(*line.split(maxsplit=1)) for line in lines]


def last(name: str) -> str:
    """Return what the last instruction of a kind says."""
    return [text for kind, text in container_file() if kind == name][-1]


def image_environment() -> dict[str, str]:
    """Return the variables that the image sets."""
    return dict(word.split("=", 1) for word in shlex.split(last("ENV")))


def documents(path: Path) -> list[Any]:
    """Return the documents of a YAML file."""
    return list(yaml.safe_load_all(path.read_text()))


def settings_in_use(path: Path) -> Settings:
    """Return settings that were looked at as the gateway looks at them when it starts."""
    settings = load_settings(path)
    check(settings, secret_of(settings, path.parent))
    return settings


def variables_named(path: Path) -> set[str]:
    """Return the environment variables that a settings file names."""
    return set(re.findall(r'_env = "(\w+)"', path.read_text()))


Ask = Callable[..., Any]


@contextmanager
def valkey_by(script: str, directory: Path) -> Iterator[Ask]:
    """Run a shell script that starts a Valkey on settings that follow in it; yield its client.

    The server is this machine's, on a port of its own, with the password ``secret``.
    """
    port = free_port()
    more = f"<<END\nport {port}\nbind 127.0.0.1\ndir {directory}\n"
    assert script.count("<<END\n") == 1
    here = script.replace("valkey-server", VALKEY).replace("<<END\n", more)
    server = subprocess.Popen(
        ["sh", "-c", here], env={"REDIS_PASSWORD": "secret"}, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: _answers(port))
        yield lambda *words: _ask(port, ("AUTH", "secret"), words)[1]
    finally:
        server.terminate()  # The shell has become the server: else this would not end it.
        assert server.wait(PATIENCE_SECONDS) == 0


def _answers(port: int) -> bool:
    try:
        return isinstance(_ask(port, ("PING",))[0], hiredis.ReplyError)
    except ConnectionError:
        return False


def _ask(port: int, *commands: Any) -> list[Any]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
        reader, replies = hiredis.Reader(encoding="utf-8"), []
        for words in commands:
            connection.sendall(hiredis.pack_command(words))
            while (reply := reader.gets()) is False:
                reader.feed(connection.recv(65_536))
            replies.append(reply)
        return replies
