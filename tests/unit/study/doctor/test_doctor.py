"""What the doctor finds in logs with one fault each, and in odd ones."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import prompt_logs as logs

from stepwell.core.entry import Usage
from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.prompt import Part
from stepwell.policy.prompt_shape.reshaping import Rewrite
from stepwell.policy.prompt_shape.tokens import estimated_tokens
from stepwell.study.doctor.doctor import Doctor
from stepwell.study.doctor.figures import figures
from stepwell.study.doctor.memory import Memory
from stepwell.study.doctor.text import as_text
from stepwell.study.lines import LineFile

REQUESTS = 20
RULES_TOKENS = estimated_tokens(logs.RULES)

Make = Callable[[int], logs.Body]


def look(make: Make, requests: int = REQUESTS, **options: Any) -> Doctor:
    doctor = Doctor(tuple(Rewrite), tenant_field="tenant", **options)
    for logged in logs.logged(make, requests):
        doctor.take(logged)
    return doctor


@pytest.mark.parametrize(
    ("make", "cause", "part"),
    [
        (logs.timestamps, Cause.TIMESTAMP, Part.SYSTEM),
        (logs.chinese_timestamps, Cause.TIMESTAMP, Part.SYSTEM),
        (logs.ids, Cause.ID, Part.SYSTEM),
        (logs.counters, Cause.COUNTER, Part.SYSTEM),
        (logs.usage, Cause.USAGE, Part.SYSTEM),
        (logs.tools, Cause.TOOL_ORDER, Part.TOOLS),
        (logs.keys, Cause.JSON_ORDER, Part.TOOLS),
        (logs.blanks, Cause.WHITESPACE, Part.SYSTEM),
        (logs.documents, Cause.DOCUMENT_ORDER, Part.SYSTEM),
        (logs.names, Cause.USER_NAME, Part.SYSTEM),
        (logs.thoughts, Cause.THINKING, Part.ASSISTANT),
        (logs.content, Cause.CONTENT, Part.SYSTEM),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_fault_is_found_and_no_other(make: Make, cause: Cause, part: Part) -> None:
    findings = look(make).findings
    assert set(findings.found) == {(cause, part)}
    finding = findings.found[cause, part]
    assert finding.requests >= 1
    assert finding.tokens == finding.tokens_alone > 0.5 * RULES_TOKENS
    assert finding.example.old != finding.example.new


@pytest.mark.parametrize(
    "make",
    [
        *(logs.timestamps, logs.chinese_timestamps, logs.ids, logs.counters, logs.usage),
        *(logs.tools, logs.keys, logs.blanks),
    ],
    ids=lambda make: make.__name__,
)
def test_rewrites_bring_back_what_is_said_to_be_lost(make: Make) -> None:
    findings = look(make).findings
    lost = sum(finding.tokens for finding in findings.found.values())
    assert findings.reshaped_tokens - findings.shared_tokens == pytest.approx(lost, rel=0.05)


def test_a_log_without_faults() -> None:
    findings = look(logs.clean).findings
    assert findings.found == {}
    assert findings.shared_tokens == findings.reshaped_tokens > 0.9 * findings.prompt_tokens


def test_every_request_but_the_first_loses() -> None:
    finding = look(logs.timestamps).findings.found[Cause.TIMESTAMP, Part.SYSTEM]
    assert finding.requests == REQUESTS - 1
    assert finding.tokens == pytest.approx((REQUESTS - 1) * RULES_TOKENS, rel=0.1)


def test_what_another_prompt_shares_is_not_lost() -> None:
    """Each minute is met twice: every second prompt goes on from its twin."""
    finding = look(lambda number: logs.timestamps(number // 2)).findings.found
    assert finding[Cause.TIMESTAMP, Part.SYSTEM].requests == REQUESTS // 2 - 1


def test_a_second_fault_gains_nothing_alone() -> None:
    def make(number: int) -> logs.Body:
        body = logs.timestamps(number)
        body["messages"][0]["content"] += f"\nSession ID: sess_{number:06}\n{logs.RULES}"
        return body

    found = look(make).findings.found
    assert found[Cause.TIMESTAMP, Part.SYSTEM].tokens_alone > 0
    assert found[Cause.ID, Part.SYSTEM].tokens > 0
    assert found[Cause.ID, Part.SYSTEM].tokens_alone == 0


def test_no_more_is_shared_than_there_is() -> None:
    """Prompts met again: a rewrite adds some tokens, which are shared, too."""
    found = figures(look(lambda number: logs.timestamps(number % 2)).findings)
    assert 0.8 < found["shared_after_rewrites"]["share"] <= 1


def test_the_prompt_with_the_longest_common_beginning_is_compared() -> None:
    """Tools in two orders, and the time: what the time costs alone is told among equal tools."""

    def make(number: int) -> logs.Body:
        tools = logs.TOOLS if number % 2 else logs.TOOLS[::-1]
        return {**logs.timestamps(number), "tools": tools}

    found = look(make).findings.found
    stamp = found[Cause.TIMESTAMP, Part.SYSTEM]
    assert stamp.tokens_alone == pytest.approx((REQUESTS - 2) * RULES_TOKENS, rel=0.1)


def test_tenants_and_models_are_not_compared() -> None:
    doctor = Doctor(tuple(Rewrite), tenant_field="tenant")
    for number, logged in enumerate(logs.logged(logs.timestamps, 2)):
        doctor.take(replace(logged, tenant="ab"[number]))
    for logged in logs.logged(lambda _: {**logs.timestamps(3), "model": "other"}, 1):
        doctor.take(logged)
    assert doctor.findings.found == {}
    assert doctor.findings.shared_tokens == 0


def test_tokens_of_the_log_count_before_estimates() -> None:
    doctor = Doctor(tuple(Rewrite), tenant_field="tenant")
    for logged in logs.logged(logs.timestamps, REQUESTS, usage=Usage(1_000, 1)):
        doctor.take(logged)
    findings = doctor.findings
    assert findings.prompt_tokens == pytest.approx(1_000 * REQUESTS)
    assert findings.estimated == 0
    lost = findings.found[Cause.TIMESTAMP, Part.SYSTEM].tokens
    assert 900 * (REQUESTS - 1) < lost < 1_000 * (REQUESTS - 1)


def test_a_tokenizer_may_count() -> None:
    findings = look(logs.timestamps, count_tokens=lambda text: float(len(text))).findings
    assert findings.prompt_tokens == pytest.approx(4 * look(logs.timestamps).findings.prompt_tokens)


def test_conversations_go_on_from_their_own_last_turn() -> None:
    """Of many conversations at once, each is compared with itself."""

    def make(number: int) -> logs.Body:
        talk, turn = number % 5, number // 5
        turns = [{"role": "system", "content": f"{logs.RULES}"}]
        for said in range(turn + 1):
            turns += [
                {"role": "user", "content": f"Talk {talk}, word {said}: {logs.RULES}"},
                {"role": "assistant", "content": "Yes."},
            ]
        return {"model": "m", "messages": turns[:-1]}

    findings = look(make, 25).findings
    assert all(not cause.is_fault for cause, _ in findings.found)
    assert findings.shared_tokens > 0.7 * findings.prompt_tokens


def test_memory_is_bounded() -> None:
    """Prompts that have nothing in common: the oldest go, and their traces too."""
    memory = Memory(max_prompts=100)

    def make(number: int) -> logs.Body:
        return logs.request(number, f"Application {number} has a prompt of its own, x{number}.")

    look(make, 1_000, memory=memory)
    assert len(memory) == 100
    assert len(memory._latest) < 1_000


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "messages": []},
        {"model": "m", "messages": [{}, None, 7, {"role": "user"}, {"role": ["x"], "content": 3}]},
        {"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url"}, "x"]}]},
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [{}, 7, None, []]},
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": {"a": 1}},
        {"model": "m", "prompt": ["a", [1, 2, 3]]},
        {"model": "m", "input": [{"type": "function_call_output", "output": {"x": 1}}]},
        {"model": "m", "input": "x", "instructions": 7},
        {"model": "m", "messages": [{"role": "assistant", "content": "<think>" * 50}]},
        {"model": "m", "messages": [{"role": "system", "content": "<document>" * 500}]},
        {"model": "m", "messages": [{"role": "system", "content": "[1] " * 500 + "\n[1]" * 500}]},
        {"model": "m", "messages": [{"role": "system", "content": '{"a": ' * 5_000}]},
    ],
)
def test_any_body_can_be_looked_at(body: logs.Body) -> None:
    for _ in range(2):
        findings = look(lambda _: body, 2).findings
    assert findings.requests == 2
    assert as_text(figures(findings))


def test_odd_lines_are_counted(tmp_path: Path) -> None:
    """Gzipped, with lines that are no JSON, no request, or no text, and torn at its end."""
    log = logs.lines(logs.timestamps, 5).encode()
    log += b'{"body": \n{"nothing": 1}\n\n\xff\xfe\n' + b'{"a": {"a": ' * 2_000 + b"\n"
    log += b'{"model": "m", "messages": [{"role": "user", "role": "user", "content": "x"}]}\n'
    packed = gzip.compress(log + logs.lines(logs.ids, 500).encode())
    (tmp_path / "log.gz").write_bytes(packed[:-30])
    doctor = Doctor(tuple(Rewrite), tenant_field="tenant")
    seen: list[int] = []
    with LineFile(str(tmp_path / "log.gz")) as file:
        doctor.read(file, seen.append)
    findings = doctor.findings
    assert findings.requests > 100
    assert findings.unusable == {"not JSON": 2, "no request in it": 1, "not UTF-8": 1}
    assert len(findings.broken_files) == 1
    assert seen == sorted(seen)
    assert "passed over, not JSON: 2" in as_text(figures(findings))


def test_strangers_words_cannot_write_on_the_terminal() -> None:
    def make(number: int) -> logs.Body:
        return logs.request(number, f"\x1b[2JCurrent time: 09:{number:02}\x1b[31m\n{logs.RULES}")

    assert "\x1b" not in as_text(figures(look(make).findings))
