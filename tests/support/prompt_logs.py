"""Logs made by rule: an application whose prompts have one fault each time, or none."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from stepwell.study.analysis.shapes import LoggedRequest

Body = dict[str, Any]

RULES = "\n".join(
    f"- Rule {name}: answer questions about {name} in plain words, and say what you do not know."
    for name in "billing shipping returns accounts passwords invoices contracts travel".split()
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Looks {name} up in the catalogue of the shop.",
            "parameters": {"type": "object", "properties": {"key": {"type": "string"}}},
        },
    }
    for name in "articles customers orders parcels".split()
]
DOCUMENTS = [
    f"{name}: their warranty ends after two years; claims are sent in by post."
    for name in "Kettles Lamps Mowers Ovens".split()
]


def request(number: int, system: str, **members: Any) -> Body:
    """One question to an application."""
    turns = [
        {"role": "system", "content": system},
        {"role": "user", "content": f"Question {chr(97 + number % 26)}: what about it?"},
    ]
    return {"model": "m", "messages": turns, **members}


def timestamps(number: int) -> Body:
    return request(number, f"Current time: 2026-03-02 09:{number % 60:02}:00\n{RULES}")


def chinese_timestamps(number: int) -> Body:
    return request(number, f"你是客服助手。当前时间：2026年3月2日 9点{number % 60:02}分。\n{RULES}")


def ids(number: int) -> Body:
    return request(number, f"Session ID: sess_{number * 7919:08x}\n{RULES}")


def counters(number: int) -> Body:
    return request(number, f"Request #{number}\n{RULES}")


def usage(number: int) -> Body:
    return request(number, f"Tokens used: {number * 130} / 8000\n{RULES}")


def tools(number: int) -> Body:
    return request(number, RULES, tools=random.Random(number).sample(TOOLS, len(TOOLS)))


def keys(number: int) -> Body:
    turned = [dict(reversed(tool.items())) if number % 2 else tool for tool in TOOLS]
    return request(number, RULES, tools=turned)


def blanks(number: int) -> Body:
    return request(number, RULES.replace("\n", " " * number + "\n"))


def documents(number: int) -> Body:
    mixed = random.Random(number).sample(DOCUMENTS, len(DOCUMENTS))
    told = "".join(f"<document>{text}</document>\n" for text in mixed)
    return request(number, f"Answer from these documents.\n{told}{RULES}")


def names(number: int) -> Body:
    return request(
        number, f"The user's name is {('Ada', 'Bo', 'Cy')[number % 3]}{number}.\n{RULES}"
    )


def thoughts(number: int) -> Body:
    thought = "<think>What a question.</think>\n" if number % 2 else ""
    body = request(0, "Be kind.")
    body["messages"] += [
        {"role": "assistant", "content": f"{thought}{RULES}"},
        {"role": "user", "content": f"And {chr(97 + number)}?"},
    ]
    return body


def content(number: int) -> Body:
    return request(number, f"You work for {('a bank', 'an airline')[number % 2]}.\n{RULES}")


def clean(number: int) -> Body:
    return request(number, RULES, tools=TOOLS)


def logged(make: Callable[[int], Body], requests: int, **known: Any) -> Iterator[LoggedRequest]:
    """The requests of a log, as it is read."""
    for number in range(requests):
        fields = {"at": None, "tenant": "", "usage": None, "seconds": None, **known}
        yield LoggedRequest(body=make(number), failed=False, **fields)


def lines(make: Callable[[int], Body], requests: int) -> str:
    """The log itself."""
    return "".join(
        json.dumps({"body": make(n)}, ensure_ascii=False) + "\n" for n in range(requests)
    )
