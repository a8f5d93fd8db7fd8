"""The ``stepwell`` command, as a user runs it."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.gateway import StartGateway, question

from stepwell.core.clock import SystemClock
from stepwell.semantic.acceptance.calibration import UNCALIBRATED, Calibration, packaged
from stepwell.telemetry.catalogue import JUDGED
from stepwell.telemetry.ledger_session import LedgerSession
from stepwell.telemetry.series import Series
from stepwell.testing.fake_upstream import FakeUpstream

KEY = {"KEY": "sk-test"}


def run(*arguments: str | Path, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """Run the command with nothing in the environment but what is given."""
    return subprocess.run(
        [sys.executable, "-m", "stepwell.cli.main", *map(str, arguments)],
        env={"HOME": "/nonexistent", **kwargs.pop("env", {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **kwargs,
    )


COMMANDS = (
    "serve stats invalidate embeddings explain analyze doctor pairs tune replay replicas warm"
    " config"
).split()


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS]])
def test_help_teaches(command: list[str]) -> None:
    """Every command says what it is for, in sentences."""
    shown = run(*command, "--help")
    assert shown.returncode == 0
    assert "usage: stepwell" in shown.stdout
    assert len(shown.stdout.splitlines()) > 8


@pytest.mark.parametrize("arguments", [[], ["srve"], ["config"], ["serve", "--port", "x"]])
def test_a_wrong_call_says_how(arguments: list[str]) -> None:
    """With the usage, on standard error, and status 2."""
    shown = run(*arguments)
    assert shown.returncode == 2
    assert "usage:" in shown.stderr


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("[servr]", "Did you mean 'server'?"),
        ("[server]\nport = 99999", "server.port is 99999; allowed: an integer from 0 to 65535"),
        ("[classes.faq]\nttl_seconds = -1", "classes.faq.ttl_seconds is -1"),
        ("[[routes]]\nclass = 'fqa'", "routes[0].class"),
        ("[[routes]]\nclass = 'faq'\npattern = '('", "routes[0].pattern"),
        ("[server]\nadmin_token_env = 'NOT_SET'", "NOT_SET, which is not set"),
        ("port = ", "is not TOML"),
        (
            "[semantic]\nsample_share = 1.5",
            "semantic.sample_share is 1.5; allowed: a number from 0 to 1",
        ),
        (
            "[semantic.judge]\nupstream = 'judges'",
            "semantic.judge: upstream needs model: another server may not have the request's own",
        ),
        (
            "[semantic.judge]\nupstream = 'judges'\nmodel = 'm'",
            "semantic.judge.upstream is 'judges'; allowed: embedded",
        ),
        ("[semantic]\nopposites = 'nope.txt'", "nope.txt cannot be read"),
        ("[semantic.levels]\ngeneral = 0.99", "allowed: strict >= general >= faq"),
        ("data_dir = ''", "data_dir is ''; allowed: a string that is not empty"),
        ("[server]\nhost = ''", "server.host is ''"),
        ("[exact]\nignored_fields = ['user', 'model']", "must not hold model"),
        ("[classes.'Bad Name']\nttl_seconds = 1", "classes: one of the names Bad Name"),
        ("[upstreams.x]\nbase_url = 'http:///v1'", "[upstreams.x] base_url 'http:///v1' must be"),
        ("[upstreams.x]\nbase_url = 'http://a:99999/v1'", "http://a:99999/v1' must be"),
        ("[upstreams.x]\nmodels = ['a']", "upstreams.x: base_url is missing"),
        (
            "[upstreams.x]\nbase_url = 'http://a/v1'\n[upstreams.x.llama]\nslots = 1",
            '[upstreams.NAME.llama] goes with kind = "embedded"',
        ),
        ("[auth]\nmode = 'keys'", "needs [[auth.keys]]"),
        (
            (
                '[semantic]\nembedder = "endpoint"\n'
                '[semantic.endpoint]\nbase_url = "http://x:99999/v1"\nmodel = "m"\ndimensions = 8'
            ),
            "[semantic.endpoint] base_url 'http://x:99999/v1' must be",
        ),
        (
            (
                '[semantic]\nembedder = "endpoint"\n[semantic.endpoint]\napi_key_env = "NOT_SET"\n'
                'base_url = "http://x/v1"\nmodel = "m"\ndimensions = 8'
            ),
            "semantic.endpoint.api_key_env",
        ),
    ],
)
def test_config_check_names_what_is_wrong(tmp_path: Path, toml: str, expected: str) -> None:
    """The key, its value, what is allowed."""
    file = tmp_path / "stepwell.toml"
    file.write_text(toml)
    shown = run("config", "check", "--config", file, "--data", tmp_path)
    assert shown.returncode == 2
    assert expected in shown.stderr
    assert "Traceback" not in shown.stderr


def test_config_check_of_good_settings(tmp_path: Path) -> None:
    """It says so; what ``config show`` prints is good, too."""
    shown = run("config", "show", "--data", tmp_path)
    assert shown.returncode == 0
    file = tmp_path / "stepwell.toml"
    file.write_text(shown.stdout)
    checked = run("config", "check", "--config", file)
    assert (checked.returncode, checked.stdout) == (0, "The settings are fine.\n")
    assert run("config", "show", "--config", file).stdout == shown.stdout


COMPARED = packaged("multilingual-e5-small", compares=True) or UNCALIBRATED
ALONE = packaged("multilingual-e5-small") or UNCALIBRATED


@pytest.mark.parametrize(
    ("toml", "calibration", "own", "remark"),
    [
        ("", COMPARED, {}, "where texts cannot be compared"),
        ("[semantic]\ncomparison = 'off'", ALONE, {}, "the comparison is not asked"),
        ("[semantic.levels]\nfaq = 0.8", COMPARED, {"faq": 0.8}, "#   faq: a score of"),
        ("[semantic]\nembedder = 'english'", UNCALIBRATED, {}, "for all-minilm-l6-v2"),
    ],
)
def test_config_show_says_what_the_levels_are(
    tmp_path: Path, toml: str, calibration: Calibration, own: dict[str, float], remark: str
) -> None:
    """As measured for the embedder, where the file does not say; and shown again, the same."""
    file = tmp_path / "stepwell.toml"
    file.write_text(toml)
    shown = run("config", "show", "--config", file, "--data", tmp_path)
    table = tomllib.loads(shown.stdout)["semantic"]
    measured = calibration.min_similarity
    assert table["levels"] == {level: own.get(level, least) for level, least in measured.items()}
    assert table["reuse_similarity"] == calibration.reuse_similarity
    assert table["threads"] >= 1
    assert remark in shown.stdout
    file.write_text(shown.stdout)
    assert run("config", "show", "--config", file).stdout == shown.stdout


def test_paths_begin_where_the_settings_file_is(tmp_path: Path) -> None:
    """Wherever the command is run."""
    folder, elsewhere = tmp_path / "settings", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "own.txt").write_text("starboard | port side\n")
    file = folder / "stepwell.toml"
    file.write_text('data_dir = "data"\n[semantic]\nopposites = "own.txt"\n')
    shown = run("config", "show", "--config", "../settings/stepwell.toml", cwd=elsewhere)
    tables = tomllib.loads(shown.stdout)
    assert Path(tables["data_dir"]).resolve() == folder / "data"
    assert Path(tables["semantic"]["opposites"]).resolve() == folder / "own.txt"
    checked = run("config", "check", "--config", file, cwd=elsewhere)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_config_check_starts_and_writes_nothing(tmp_path: Path) -> None:
    """Whoever checks may be another user than the one who serves."""
    data = tmp_path / "data"
    checked = run("config", "check", "--data", data)
    assert checked.stdout == (
        "No settings file was given (--config); every setting has its default.\n"
        "The settings are fine.\n"
    )
    assert not data.exists()


def test_config_check_warns_of_what_is_hardly_meant(tmp_path: Path) -> None:
    """A base URL without a path leads to no model server."""
    file = tmp_path / "stepwell.toml"
    file.write_text("[upstreams.vllm]\nbase_url = 'http://127.0.0.1:8000'\n")
    checked = run("config", "check", "--config", file)
    assert checked.returncode == 0
    assert checked.stdout.startswith("Warning: upstreams.vllm.base_url is 'http://127.0.0.1:8000'")


def test_lists_of_tables_are_shown(tmp_path: Path) -> None:
    """What is not set of them is left out, as everywhere."""
    file = tmp_path / "stepwell.toml"
    file.write_text('[[routes]]\nclass = "faq"\nmodel = "m"\n')
    shown = run("config", "show", "--config", file, "--data", tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert tomllib.loads(shown.stdout)["routes"] == [{"class": "faq", "model": "m"}]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ('url = "nonsense://"', "its scheme is unknown"),
        ('url = "redis+cluster://h/3"', "a cluster has db 0 only"),
        ('url = "redis://h"\npassword_env = "NOWHERE"', "NOWHERE"),
        ('url = "rediss://h"\nca_file = "/nonexistent.pem"', "cannot be used"),
    ],
)
def test_redis_is_checked_before_anything_starts(
    tmp_path: Path, table: str, complaint: str
) -> None:
    """As far as that can be done without asking it; `serve` says the same."""
    file = tmp_path / "stepwell.toml"
    file.write_text(f"[stores.redis]\n{table}\n")
    checked = run("config", "check", "--config", file)
    assert (checked.returncode, complaint in checked.stderr) == (2, True), checked.stderr
    served = run("serve", "--config", file, "--data", tmp_path, "--workers", "2", "--port", "0")
    assert (served.returncode, served.stderr) == (2, checked.stderr)


@pytest.mark.parametrize(
    ("table", "warning"),
    [
        ('url = "redis://h"', "no other gateway finds their answers"),
        ('username = "u"', "Redis is not used"),
    ],
)
def test_what_is_hardly_meant_of_redis(tmp_path: Path, table: str, warning: str) -> None:
    file = tmp_path / "stepwell.toml"
    file.write_text(f"[stores.redis]\n{table}\n")
    checked = run("config", "check", "--config", file)
    assert (checked.returncode, warning in checked.stdout) == (0, True), checked.stderr


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("--host", "192.0.2.1", "choose an address of this machine with --host"),
        ("--data", "/dev/null", "/dev/null is not a directory"),
    ],
)
def test_serve_says_what_to_do(option: str, value: str, advice: str) -> None:
    """By what is wrong, and before anything is said to have begun."""
    shown = run("serve", "--upstream", "http://127.0.0.1:9/v1", option, value)
    assert shown.returncode == 2
    assert advice in shown.stderr
    assert "listens" not in shown.stdout + shown.stderr


def test_an_address_that_is_taken(tmp_path: Path, upstream: FakeUpstream) -> None:
    """The message says which, and what to do."""
    port = upstream.base_url.split(":")[2].removesuffix("/v1")
    shown = run("serve", "--upstream", upstream.base_url, "--port", port, "--data", tmp_path)
    assert shown.returncode == 2
    assert f"127.0.0.1:{port}" in shown.stderr
    assert "--port" in shown.stderr


def test_no_data_yet(tmp_path: Path) -> None:
    """Commands that look at data say that there is none."""
    for command in (["stats"], ["invalidate", "--everything"]):
        shown = run(*command, "--data", tmp_path / "none")
        assert shown.returncode == 2
        assert str(tmp_path / "none") in shown.stderr
        assert "Traceback" not in shown.stderr


def test_a_damaged_ledger_is_named(tmp_path: Path) -> None:
    """With what becomes of it."""
    ledger = tmp_path / "ledger.sqlite"
    ledger.write_bytes(b"nonsense" * 1_000)
    shown = run("stats", "--data", tmp_path)
    assert shown.returncode == 2
    assert str(ledger) in shown.stderr
    assert "sets it aside" in shown.stderr


def test_judging_anew(tmp_path: Path) -> None:
    """The count of a class begins again; a class of which nothing was judged is refused."""
    judged = Series(JUDGED.name, (("verdict", "right"), ("by", "shadow"), ("class", "faq")))
    server = LedgerSession(tmp_path / "ledger.sqlite", "boot", SystemClock())
    server.post({judged: 2}, {})
    shown = run("stats", "--data", tmp_path)
    assert "faq, shadow         0      2      0         0     100.0%" in shown.stdout
    refused = run("stats", "--judge-anew", "fqa", "--data", tmp_path)
    assert refused.returncode == 2
    assert "--judge-anew is 'fqa', of which nothing was judged; allowed: faq." in refused.stderr
    anew = run("stats", "--judge-anew", "faq", "--json", "--data", tmp_path)
    assert json.loads(anew.stdout)["judged"] == []
    server.close({judged: 3})
    (line,) = json.loads(run("stats", "--json", "--data", tmp_path).stdout)["judged"]
    assert (line["right"], line["precision"]) == (1, 1.0)


async def test_explain_stats_invalidate(
    start_gateway: StartGateway, upstream: FakeUpstream, tmp_path: Path
) -> None:
    """They see what the gateway sees, while it runs, and it obeys them."""
    settings = tmp_path / "stepwell.toml"
    settings.write_text(
        f'[semantic]\nembedder = "off"\n[upstreams.fake]\nbase_url = "{upstream.base_url}"\n'
    )
    (tmp_path / "data").mkdir()
    # The tests' gateway has a fixed secret; the command reads it where a gateway keeps its own.
    (tmp_path / "data" / "namespace.key").write_bytes(bytes(range(32)))
    common: list[str | Path] = ["--config", settings, "--data", tmp_path / "data"]
    body = json.dumps(question("hi", metadata={"stepwell_tags": "greeting"}))

    def explain() -> dict[str, Any]:
        told = run("explain", "-", "--api-key-env", "KEY", "--json", *common, input=body, env=KEY)
        assert told.returncode == 0, told.stderr
        parsed: dict[str, Any] = json.loads(told.stdout)
        return parsed

    async with start_gateway() as gateway:
        assert explain()["would"] == "ask the model server"
        missed = await gateway.post(json.loads(body))
        told = explain()
        assert told["would"] == "answer from the cache"
        assert told["key"] == missed.headers["x-stepwell-key"]
        assert told["entry_tags"] == ["greeting"]
        assert told["class"] == "general"
        assert (await gateway.post(json.loads(body))).headers["x-cache"] == "HIT"

        counted = run("invalidate", "--tag", "greeting", *common)
        assert counted.stdout.startswith("Would remove 1 entry. Nothing was removed")
        assert (await gateway.post(json.loads(body))).headers["x-cache"] == "HIT"
        removed = run("invalidate", "--tag", "greeting", "--yes", *common)
        assert removed.stdout == "Removed 1 entry.\n"
        assert (await gateway.post(json.loads(body))).headers["x-cache"] == "MISS"
    stats = json.loads(run("stats", "--json", *common).stdout)
    assert stats["by_result"] == {"hit": 2, "miss": 2}
    assert "hit ratio" in run("stats", *common).stdout


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    """A command that counts nothing makes no ledger."""
    settings = tmp_path / "stepwell.toml"
    settings.write_text('[semantic]\nembedder = "off"\n')
    upstream = ["--upstream", "http://127.0.0.1:9/v1"]
    body = json.dumps(question("hi"))
    common: list[str | Path] = ["--config", settings, "--data", tmp_path, *upstream]
    assert run("explain", "-", *common, input=body).returncode == 0
    assert list(tmp_path.glob("ledger*")) == []


@pytest.mark.embedder
async def test_explain_says_which_question_was_matched(
    start_semantic: StartGateway, upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Served in other words, or only counted in shadow mode: key and words of what is stored."""
    settings = tmp_path / "stepwell.toml"
    told_of = (
        f'[semantic]\ntimeout_seconds = 10\n[upstreams.fake]\nbase_url = "{upstream.base_url}"\n'
    )
    settings.write_text(told_of)
    data = tmp_path / "data"
    data.mkdir()
    (data / "namespace.key").write_bytes(bytes(range(32)))
    body = json.dumps(question("What is the way to return shoes I bought online?"))
    stored = "How do I return shoes that I bought online?"

    def explain(*arguments: str) -> str:
        common = ("--api-key-env", "KEY", "--config", settings, "--data", data)
        home = {"HOME": os.environ["HOME"]}
        shown = run("explain", "-", *arguments, *common, input=body, env=KEY | home)
        assert shown.returncode == 0, shown.stderr
        return shown.stdout

    async with start_semantic() as gateway:
        first = await gateway.ask(stored)
        await gateway.settle()
        told = json.loads(explain("--json"))
        assert told["would"] == "answer from the cache"
        assert told["matched_key"] == first.headers["x-stepwell-key"] != told["key"]
        assert told["matched_question"] == stored
        assert f"matched question  {stored}\n" in explain()
        settings.write_text(
            told_of + "[classes.faq]\nshadow = true\n[classes.general]\nshadow = true\n"
        )
        told = json.loads(explain("--json"))
        assert told["would"] == "ask the model server"
        assert told["matched_question"] == stored


@pytest.mark.parametrize(
    ("arguments", "would", "trail"),
    [
        ([], "ask the model server", "bypass: no API key"),
        (["--api-key-env", "KEY", "--header", "Cache-Control: no-cache"], "ask", "no-cache"),
        (
            ["--api-key-env", "KEY", "--header", "cache-control: only-if-cached"],
            "refuse",
            "only-if",
        ),
    ],
)
def test_explain_says_why(tmp_path: Path, arguments: list[str], would: str, trail: str) -> None:
    """Controls and missing keys show in the trail."""
    common: list[str | Path] = ["--upstream", "http://127.0.0.1:9/v1", "--data", tmp_path]
    file = tmp_path / "request.json"
    file.write_text(json.dumps(question("hi")))
    told = json.loads(run("explain", file, "--json", *arguments, *common, env=KEY).stdout)
    assert told["would"].startswith(would)
    assert trail in told["trail"]


def test_explain_knows_the_tenants(tmp_path: Path) -> None:
    """By a caller's key as the gateway would, or by name; others there are none."""
    settings = tmp_path / "stepwell.toml"
    settings.write_text(
        "[auth]\nmode = 'keys'\nkeys = [{ tenant = 'team-a', key_env = 'KEY' }]\n"
        "[upstreams.x]\nbase_url = 'http://127.0.0.1:9/v1'\n[semantic]\nembedder = 'off'\n"
    )
    file = tmp_path / "request.json"
    file.write_text(json.dumps(question("hi")))
    common: list[str | Path] = [file, "--config", settings, "--data", tmp_path, "--json"]
    told = [
        json.loads(run("explain", *common, *who, env={**KEY, "OTHER": "sk-other"}).stdout)["key"]
        for who in (["--api-key-env", "KEY"], ["--tenant", "team-a"])
    ]
    assert told[0] == told[1] is not None
    for who, said in (
        (["--tenant", "team-b"], "--tenant is 'team-b'; allowed: team-a."),
        (["--api-key-env", "OTHER"], "key"),
        ([], "key"),
    ):
        refused = run("explain", *common, *who, env={**KEY, "OTHER": "sk-other"})
        assert refused.returncode == 2
        assert said in refused.stderr


@pytest.mark.parametrize("body", ["", "{", "[]", '{"model": "m"}', '{"model": 1, "messages": []}'])
def test_explain_of_a_bad_request(tmp_path: Path, body: str) -> None:
    """It is told as the gateway would tell it."""
    common: list[str | Path] = ["--upstream", "http://127.0.0.1:9/v1", "--data", tmp_path]
    shown = run("explain", "-", *common, input=body)
    assert shown.returncode == 2
    assert shown.stderr.startswith("stepwell: ")
