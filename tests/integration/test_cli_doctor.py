"""``stepwell doctor``, and what ``stepwell explain`` says of a prompt."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import prompt_logs as logs

from stepwell.cli.main import main


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def figures(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.write_text(logs.lines(logs.timestamps, 10) + logs.lines(logs.tools, 10))
    assert run("doctor", log, "--json", out) == 0
    told = figures(out)
    assert told["requests"] == 20
    assert {(one["cause"], one["where"], one["rewrite"]) for one in told["findings"]} == {
        ("timestamp", "system prompt", "timestamps"),
        ("tool order", "tools", "tools"),
    }
    assert told["shared"]["share"] < 0.5
    assert told["shared_after_rewrites"]["share"] > 0.8
    shown = capsys.readouterr().out
    assert "Current time: [2026-03-02 09:01:00]" in shown
    assert shown.count("\n") < 30


def test_only_the_rewrites_asked_for_are_tried(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.write_text(logs.lines(logs.timestamps, 10))
    assert run("doctor", log, "--json", out, "--rewrite", "tools", "--rewrite", "ids") == 0
    told = figures(out)
    assert told["rewrites"] == ["ids", "tools"]
    assert told["requests_rewritten"] == 0
    assert told["shared_after_rewrites"] == told["shared"]


@pytest.mark.parametrize("indentation", [None, 2])
def test_a_single_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], indentation: int | None
) -> None:
    file, out = tmp_path / "request.json", tmp_path / "out"
    file.write_text(json.dumps(logs.timestamps(7), indent=indentation))
    assert run("doctor", file, "--json", out) == 0
    (risk,) = figures(out)["risks"]["found"]
    assert (risk["said"], risk["rewrite"]) == ("2026-03-02 09:07:00", "timestamps")
    assert "prompt tokens are computed anew" in capsys.readouterr().out


def test_an_empty_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("\n\nnot a request: {\n{\n")
    assert run("doctor", tmp_path / "log") == 0
    assert "passed over, not JSON: 1" in capsys.readouterr().out
    assert run("doctor", tmp_path / "none") == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", [b"\x7fELF\2\1\1\0 it is 10:42\n", "Zeit: fünf\n".encode("latin-1"), b"\xff\xfe{"]
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_is_no_text(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    pack: Callable[[bytes], bytes],
) -> None:
    """What might be read from it would be chance. A damaged line among others is passed over."""
    (tmp_path / "log").write_bytes(pack(content))
    assert run("doctor", tmp_path / "log") == 2
    told = capsys.readouterr()
    assert f"{tmp_path / 'log'} is not text in UTF-8; allowed: " in told.err
    assert told.out == ""
    damaged = b"\xff\n" + logs.lines(logs.timestamps, 10).encode()
    (tmp_path / "log").write_bytes(pack(damaged))
    assert run("doctor", tmp_path / "log") == 0
    assert "passed over, not UTF-8: 1" in capsys.readouterr().out


def test_text_that_is_cut_within_a_character(tmp_path: Path) -> None:
    """What is looked at ahead ends anywhere."""
    (tmp_path / "log").write_text("é" * 5_000 + "\n" + "x" + "é" * 5_000, encoding="utf-8")
    assert run("doctor", tmp_path / "log") == 0


def test_explain_says_what_is_at_risk_and_what_would_be_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request, config = tmp_path / "request.json", tmp_path / "settings.toml"
    request.write_text(json.dumps(logs.timestamps(7)))
    config.write_text('[prefix]\nrewrite = ["timestamps", "tools"]\n')
    (tmp_path / "data").mkdir()
    common = ("--upstream", "http://127.0.0.1:9/v1", "--data", tmp_path / "data")
    assert run("explain", request, *common, "--config", config, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rewritten"] == ["moved behind the user's words: 1 timestamp"]
    assert [risk["cause"] for risk in told["prefix"]["found"]] == ["timestamp"]
    assert run("explain", request, *common) == 0
    shown = capsys.readouterr().out
    assert "rewritten" not in shown
    assert "2026-03-02 09:07:00" in shown


def test_an_unknown_rewrite_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[prefix]\nrewrite = ["documents"]\n')
    assert run("config", "check", "--config", config) != 0
    told = capsys.readouterr()
    assert "prefix.rewrite" in told.out + told.err
    assert "whitespace" in told.out + told.err
