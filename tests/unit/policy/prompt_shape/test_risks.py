"""What a look at one request tells."""

from stepwell.core.names import Endpoint
from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.prompt import Part
from stepwell.policy.prompt_shape.risks import MAX_RISKS, Risk, risks_of

RULES = "Be kind. " * 100


def chat(system: str, **members: object) -> dict[str, object]:
    turns = [{"role": "system", "content": system}, {"role": "user", "content": "At 09:00?"}]
    return {"model": "m", "messages": turns, **members}


def test_what_says_now_is_at_risk_and_what_stands_behind_it() -> None:
    found = risks_of(Endpoint.CHAT, chat(f"Today is 2026-03-02.\n{RULES}"))
    assert found.found == (Risk(Cause.TIMESTAMP, Part.SYSTEM, "2026-03-02", 2),)
    assert found.prompt_tokens - found.tokens_at_risk == 2
    assert found.tokens_at_risk > 200


def test_dates_that_stay_and_users_words_are_not() -> None:
    found = risks_of(Endpoint.CHAT, chat(f"The law is of 2021-05-01. Step 1: read.\n{RULES}"))
    assert found.found == ()
    assert found.tokens_at_risk == 0


def test_tools_come_first() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "At 2026-03-02 09:00"}}
    found = risks_of(Endpoint.CHAT, chat("Now: 09:00\nBe kind.", tools=[tool])).found
    assert [risk.part for risk in found] == [Part.TOOLS, Part.SYSTEM]
    assert found[0].at_token < found[1].at_token


def test_there_is_an_end_to_it() -> None:
    lines = "".join(f"Request #{number}\n" for number in range(1_000))
    assert len(risks_of(Endpoint.CHAT, chat(lines)).found) == MAX_RISKS
