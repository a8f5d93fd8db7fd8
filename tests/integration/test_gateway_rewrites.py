"""Prompts rewritten by the gateway: what the model server gets, what the cache makes of it."""

import json

import pytest
from support import prompt_logs as logs
from support.gateway import StartGateway

from stepwell.testing.fake_upstream import FakeUpstream

REWRITES = {"rewrite": ["timestamps", "tools"]}


async def test_the_model_server_gets_the_rewritten_prompt_and_the_log_says_so(
    start_gateway: StartGateway, upstream: FakeUpstream, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same request again is a hit: its key is the caller's request's."""
    body = {**logs.timestamps(7), "model": "fake", "tools": logs.TOOLS[::-1]}
    async with start_gateway(prefix=REWRITES, log={"target": "stderr"}) as gateway:
        answers = [await gateway.post(body) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert upstream.call_count == 1
    received = json.loads(upstream.calls[0].body)
    system, user = (turn["content"] for turn in received["messages"])
    assert system == logs.RULES
    assert user.endswith("[From the system prompt: Current time: 2026-03-02 09:07:00.]")
    assert received["tools"] == logs.TOOLS
    said = capfd.readouterr().err
    assert said.count("moved behind the user's words: 1 timestamp") == 1
    assert said.count("tools: sorted by name") == 1


async def test_an_answer_of_before_is_not_served_after(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Each set of rewrites has answers of its own; turned off again, the old ones are there."""
    body = {**logs.timestamps(7), "model": "fake"}
    for prefix in ({}, REWRITES, {"rewrite": ["timestamps"]}, {}):
        async with start_gateway(prefix=prefix) as gateway:
            assert (await gateway.post(body)).status == 200
    assert upstream.call_count == 3


async def test_without_the_setting_nothing_is_rewritten(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    body = {**logs.timestamps(7), "model": "fake", "tools": logs.TOOLS[::-1]}
    async with start_gateway() as gateway:
        await gateway.post(body)
    assert json.loads(upstream.calls[0].body) == body
