"""The commands of the study, with an embedder made by hand."""

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.study import hand_made_parts

from stepwell.assembly.settings import parse_settings
from stepwell.cli import studying
from stepwell.cli.main import main
from stepwell.study import labels


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts lie where they say."""
    monkeypatch.setattr(studying, "open_parts", hand_made_parts)
    # The safety valve would find numbers in where they lie.
    monkeypatch.setattr(labels, "difference", lambda asked, stored: None)


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_pairs(tmp_path: Path) -> None:
    file = write(tmp_path / "in", {"a": "a@0", "b": "b@20"}, {"a": "a@0", "b": "b@70", "x": 1})
    out = tmp_path / "out"
    assert run("pairs", file, "--out", out) == 0
    assert rows_of(out) == [
        {"hit": True, "similarity": 0.939693, "refused_by": None},
        {"hit": False, "similarity": 0.34202, "refused_by": "similarity"},
    ]
    assert run("pairs", file, "--level", "strict", "--out", out) == 0
    assert [row["hit"] for row in rows_of(out)] == [False, False]


def test_pairs_go_to_standard_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rows and nothing else; what they come to is said on standard error."""
    rows = [("a@0", "b@20"), ("a@0", "b@70"), ("a@0", "c@80"), ("a@0", "")]
    file = write(tmp_path / "in", *({"a": a, "b": b} for a, b in rows))
    assert run("pairs", file) == 0
    told = capfd.readouterr()
    assert [json.loads(line)["hit"] for line in told.out.splitlines()] == [True] + [False] * 3
    assert told.err == "4 pairs, 1 hits; refused by similarity 2, empty 1\n"


@pytest.mark.parametrize(
    ("command", "option"),
    [("pairs", "--out"), ("tune", "--out"), ("analyze", "--html"), ("analyze", "--json")],
)
def test_outputs_are_tried_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, option: str
) -> None:
    """Nothing is read: a file that is not there would be complained of."""
    out = tmp_path / "none" / "out"
    assert run(command, tmp_path / "no log", option, out) == 2
    assert (
        capsys.readouterr().err
        == f"stepwell: {out} cannot be written: No such file or directory.\n"
    )


@pytest.mark.parametrize(
    ("command", "option"), [("pairs", "--out"), ("tune", "--out"), ("analyze", "--html")]
)
def test_what_is_read_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, option: str
) -> None:
    """Labels made by hand are not made again."""
    file = tmp_path / "in"
    file.write_text('{"a": "a@0", "b": "b@20", "label": 1}\n')
    other = tmp_path / "in.link"
    other.symlink_to(file)
    assert run(command, file, option, other) == 2
    assert "is read, and would be overwritten" in capsys.readouterr().err
    assert file.read_text().startswith('{"a"')


def test_pairs_of_a_gzipped_file_with_a_cache(tmp_path: Path) -> None:
    packed = tmp_path / "in.gz"
    packed.write_bytes(gzip.compress(b'{"a": "a@0", "b": "b@20"}\n'))
    for _ in range(2):
        assert run("pairs", packed, "--out", tmp_path / "out", "--cache", tmp_path / "c") == 0
        assert rows_of(tmp_path / "out")[0]["hit"] is True
    assert list((tmp_path / "c").glob("vectors-*.sqlite"))


def test_a_bad_line_is_named_and_the_old_result_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "in", tmp_path / "out"
    file.write_text('{"a": "a@0", "b": "b@20"}\n{"a": \n')
    out.write_text("old")
    assert run("pairs", file, "--out", out) == 2
    assert f"{file} line 2: not JSON" in capsys.readouterr().err
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


@pytest.mark.parametrize("command", ["pairs", "tune", "replay", "analyze"])
def test_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(command, tmp_path / "none") == 2
    assert "none cannot be read: No such file" in capsys.readouterr().err


def labelled(count: int) -> list[dict[str, Any]]:
    near = [{"a": f"n{n}@0", "b": f"m{n}@{n % 20}", "label": 1} for n in range(count)]
    return near + [{"a": f"f{n}@0", "b": f"g{n}@{40 + n % 20}", "label": 0} for n in range(count)]


def test_tune_writes_levels_that_are_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write(tmp_path / "labels", *labelled(400)), tmp_path / "levels.toml"
    assert run("tune", file, "--json", "--out", out) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["levels"]["strict"]["shown"] is True
    # Between the last that may share an answer, at 19 degrees, and the first that must not, at 40.
    assert 0.76 < told["levels"]["strict"]["similarity"] < 0.946
    levels = parse_settings(tomllib.loads(out.read_text())).semantic.levels
    assert levels.strict == told["levels"]["strict"]["similarity"]


def test_tune_in_text_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "labels", *labelled(20), {"a": "x", "b": "y", "label": None})
    assert run("tune", file, file, "--target-precision", "faq=0.8") == 0
    text = capsys.readouterr().out
    assert "Too few labels: 99.0% takes 381 hits" in text
    assert "not labelled: 2" in text
    assert "faq (80.0% right)" in text


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("strict", "allowed is strict, general or faq"),
        ("best=0.9", "allowed is strict, general or faq"),
        ("strict=1", "a number from 0 to 0.9999"),
        ("strict=nan", "a number from 0 to 0.9999"),
        ("strict=0.5", "strict must ask for as much as general"),
    ],
)
def test_tune_refuses_targets_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, said: str
) -> None:
    file = write(tmp_path / "labels", *labelled(2))
    assert run("tune", file, "--target-precision", option) == 2
    assert said in capsys.readouterr().err


def test_tune_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What there was, and why it is of no use, is said."""
    rows = [{"a": "x", "b": "y", "label": None}, {"a": "x", "b": "x", "label": 1}]
    assert run("tune", write(tmp_path / "labels", *rows)) == 2
    said = capsys.readouterr().err
    assert "no pair to choose by; left out: 1 not labelled, 1 the same to the exact layer" in said


@pytest.mark.parametrize("command", ["pairs", "tune", "replay", "analyze"])
def test_an_embedder_that_does_not_work_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Its own reason, once; no result is made of nothing."""
    pair = {"a": "broken 1", "b": "broken 2", "label": 1}
    asked = [{"text": pair[side], "answer_key": "x", "model": "m"} for side in ("a", "b")]
    rows = [pair] if command in ("pairs", "tune") else asked
    more = ["--out", tmp_path / "out"] if command == "pairs" else []
    assert run(command, write(tmp_path / "in", *rows), *more) == 2
    told = capsys.readouterr()
    assert told.err == "stepwell: nothing can be embedded: out of order\n"
    assert told.out == ""
    assert not (tmp_path / "out").exists()


def test_some_texts_that_fail_are_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "in", {"a": "a@0", "b": "broken"})
    assert run("pairs", file, "--out", tmp_path / "out") == 0
    assert rows_of(tmp_path / "out")[0]["refused_by"] == "embedder"
    said = "the embedder failed at 1 of 2 texts; at the first: out of order"
    assert said in capsys.readouterr().err


TRACE = [
    {"text": "a@0", "answer_key": "A"},
    {"text": "b@20", "answer_key": "A"},
    {"text": "c@21", "answer_key": "C"},
]


def test_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "trace", *TRACE)
    assert run("replay", file, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["caches"]["general"]["semantic_hits"] == 2
    assert told["caches"]["general"]["wrong_hits"] == 1
    assert told["lookup"]["lookups"] == 3
    assert run("replay", file) == 0
    assert "recall of reusable" in capsys.readouterr().out


def test_replay_learns_from_a_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As large as the option says, else as the settings do."""
    file = write(tmp_path / "trace", *TRACE)
    settings = tmp_path / "stepwell.toml"
    settings.write_text("[semantic]\nsample_share = 1.0\n")
    for options, judged in ((["--sample-share", "1"], 2), (["--config", str(settings)], 2)):
        assert run("replay", file, "--json", *options) == 0
        told = json.loads(capsys.readouterr().out)["caches"]["general"]
        assert told["judged_hits"] == judged
    assert run("replay", file, "--json", "--config", str(settings), "--sample-share", "0") == 0
    assert json.loads(capsys.readouterr().out)["caches"]["general"]["judged_hits"] == 0


def test_replay_drawn_and_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "trace", *TRACE)
    drawn = ["--zipf", "1", "--requests", "50", "--seed", "1", "--max-entries", "1"]
    assert run("replay", file, *drawn, "--policy", "lru", "--json") == 0
    first = json.loads(capsys.readouterr().out)["caches"]
    assert first["general"]["requests"] == 50
    assert first["exact only"]["evicted"] > 0
    assert run("replay", file, *drawn, "--policy", "lru", "--json") == 0
    assert json.loads(capsys.readouterr().out)["caches"] == first


@pytest.mark.parametrize(
    "options",
    [
        ["--zipf", "0"],
        ["--zipf", "nan"],
        ["--requests", "5"],
        ["--ttl", "-1"],
        ["--max-entries", "0"],
        ["--sample-share", "1.1"],
        ["--sample-share", "nan"],
    ],
)
def test_replay_refuses_what_makes_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert run("replay", write(tmp_path / "trace", *TRACE), *options) == 2
    assert options[0] in capsys.readouterr().err


PRICES = '[prices.models."m"]\ninput_per_million = 1000000\noutput_per_million = 0\n'


def logged(text: str, at: float) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return {"ts": at, "body": body, "usage": {"prompt_tokens": 2, "completion_tokens": 1}}


def test_analyze_writes_a_report_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(
        tmp_path / "log", logged("a@0", 1e9), logged("a@0", 1e9 + 1), logged("b@20", 1e9 + 2)
    )
    settings = tmp_path / "stepwell.toml"
    settings.write_text(PRICES)
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    assert run("analyze", log, "--html", page, "--json", figures, "--config", settings) == 0
    told = json.loads(figures.read_text())
    assert told["caches"]["general"]["saved"]["money"] == 4.0
    assert told["run"]["embedder"] == "angles@1"
    assert "<svg" in page.read_text()
    assert "3 requests" in capsys.readouterr().out


def test_analyze_settings_count(tmp_path: Path) -> None:
    """A class that is cached for a second, in a log in which two pass."""
    log = write(tmp_path / "log", logged("a@0", 1e9), logged("a@0", 1e9 + 2))
    settings, figures = tmp_path / "stepwell.toml", tmp_path / "figures.json"
    settings.write_text("[classes.general]\nttl_seconds = 1\n")
    assert run("analyze", log, "--exact-only", "--json", figures, "--config", settings) == 0
    assert json.loads(figures.read_text())["caches"]["exact only"]["saved"]["requests"] == 0


def test_analyze_of_a_broken_file_tells_what_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = gzip.compress(
        b"".join(json.dumps(logged(f"{n}", 1e9)).encode() + b"\n" for n in range(999))
    )
    (tmp_path / "log.gz").write_bytes(whole[: len(whole) // 2])
    assert run("analyze", tmp_path / "log.gz", "--exact-only") == 0
    text = capsys.readouterr().out
    assert "log.gz cannot be read after line" in text
    assert not text.startswith("0 requests")
