"""What stands for tokens where nobody names them."""

from typing import Any

import orjson
import pytest

from stepwell.core.names import Endpoint
from stepwell.prefix.steering.text import text_tokens

SYSTEM = {"role": "system", "content": "You answer briefly. " * 20}


def tokens(endpoint: Endpoint = Endpoint.CHAT, **body: Any) -> bytes:
    return text_tokens(endpoint, body)


def shared(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def test_a_conversation_that_goes_on_begins_the_same() -> None:
    first = [SYSTEM, {"role": "user", "content": "Hello?"}]
    then = [*first, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "And?"}]
    one, other = tokens(messages=first), tokens(messages=then)
    assert shared(one, other) >= len(one.rstrip())


def test_another_question_shares_the_system_prompt_and_no_more() -> None:
    one = tokens(messages=[SYSTEM, {"role": "user", "content": "Hello?"}])
    other = tokens(messages=[SYSTEM, {"role": "user", "content": "Bye!"}])
    ahead = len(orjson.dumps(SYSTEM))
    assert ahead < shared(one, other) < ahead + 40


def test_tools_stand_ahead() -> None:
    """As templates write them: other tools, another beginning."""
    one = tokens(messages=[SYSTEM], tools=[{"type": "function", "function": {"name": "a"}}])
    other = tokens(messages=[SYSTEM], tools=[{"type": "function", "function": {"name": "b"}}])
    assert shared(one, other) < 60


def test_what_only_changes_the_answer_is_left_out() -> None:
    assert tokens(messages=[SYSTEM], temperature=1) == tokens(messages=[SYSTEM], seed=3)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.COMPLETIONS, {"prompt": "如何重置密码？"}),
        (Endpoint.COMPLETIONS, {"prompt": [[1, 2, 3]]}),
        (Endpoint.COMPLETIONS, {"prompt": None}),
        (Endpoint.RESPONSES, {"input": "Hi", "instructions": "Be brief."}),
        (Endpoint.RESPONSES, {"input": [{"role": "user", "content": "Hi"}]}),
        (Endpoint.CHAT, {"messages": "none"}),
        (Endpoint.CHAT, {"messages": [None, 3, {"role": []}]}),
        (Endpoint.CHAT, {}),
    ],
)
def test_whole_tokens_of_anything(endpoint: Endpoint, body: dict[str, Any]) -> None:
    assert len(tokens(endpoint, **body)) % 4 == 0
