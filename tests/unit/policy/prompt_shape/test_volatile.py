"""What changes by itself, in English and Chinese, and what only looks so."""

import pytest

from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.volatile import volatile_spans


def spans(text: str) -> list[tuple[str, Cause, bool]]:
    return [(text[s.start : s.end], s.cause, s.is_sure) for s in volatile_spans(text)]


@pytest.mark.parametrize(
    "said",
    [
        *("2026-03-02T09:00:00.123Z", "2026-03-02 09:00:00 EST", "2026/03/02 9:00 pm"),
        *("Monday, March 2, 2026 at 9:05 pm EST", "Mon, 02 Mar 2026 09:00:00 GMT"),
        *("2nd of March 2026, 09:00", "2026年3月2日 星期一 上午9点05分", "2026年3月2日09:05"),
        *("1772442000", "1772442000123", "1772442000.25", "2026-03-02T09:00:00+02:00"),
    ],
)
def test_moments(said: str) -> None:
    assert spans(f"It was {said}, they say") == [(said, Cause.TIMESTAMP, True)]


@pytest.mark.parametrize("said", ["2026-03-02", "March 2, 2026", "9:05 pm", "星期一", "Tuesday"])
def test_a_date_or_an_hour_alone_may_stay(said: str) -> None:
    assert spans(f"Since {said} we are open") == [(said, Cause.TIMESTAMP, False)]


@pytest.mark.parametrize(
    "said",
    [
        *("550e8400-e29b-41d4-a716-446655440000", "4bf92f3577b34da6a3ce929d0e0e4736"),
        *("session_id=ab12", "Session ID: zyx", "req_011CSHoEeqs5", "chatcmpl-9f8e7d6c"),
        *("01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonce: x7", "会话编号：a8f3", "trace id is 77"),
    ],
)
def test_ids(said: str) -> None:
    assert spans(f"so {said} then") == [(said, Cause.ID, True)]


@pytest.mark.parametrize(
    ("said", "cause", "is_sure"),
    [
        ("Request #17", Cause.COUNTER, True),
        ("request number 17 of 20", Cause.COUNTER, True),
        ("第17次请求", Cause.COUNTER, True),
        ("Step 3", Cause.COUNTER, False),
        ("Tokens used: 1,234 / 8,000", Cause.USAGE, True),
        ("45% context left", Cause.USAGE, True),
        ("budget remaining: $3.20", Cause.USAGE, True),
        ("剩余额度：1234", Cause.USAGE, True),
        ("user's name is Ada Lovelace", Cause.USER_NAME, False),
        ("用户名：小明", Cause.USER_NAME, False),
    ],
)
def test_counters_and_names(said: str, cause: Cause, is_sure: bool) -> None:  # noqa: FBT001
    assert spans(f"so {said}\n") == [(said, cause, is_sure)]


@pytest.mark.parametrize(
    "text",
    [
        "You are a helpful assistant. Answer in at most 3 sentences, in 2 languages.",
        "Use version 1.2.3 at 10.0.0.1, port 8080; pay 1234567890123456.",
        "你是一个乐于助人的助手，请用三句话回答。",
        "The sun may rise in the second half; it costs 12 dollars a day.",
        "decade facade beefed 00000000000000000000",
    ],
)
def test_other_words(text: str) -> None:
    assert spans(text) == []
