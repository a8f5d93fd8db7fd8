"""The classifier: what it must see, and above all what it must not."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stepwell.core.names import Endpoint
from stepwell.policy.classes import BUILT_IN_CLASSES
from stepwell.policy.classifier import Suggestion, classify
from stepwell.policy.text import MAX_CHARACTERS

LABELLED = Path(__file__).parents[2] / "data" / "request_classes.jsonl"
TRANSLATE = "Translate the following sentence into French: The train leaves at noon."
TO_JSON = "Convert the following list to a JSON array:\nred\ngreen"
REFUND = "What is your refund policy?"


def chat(text: object, system: str | None = None, **more: object) -> dict[str, Any]:
    """Return a chat request."""
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return {"model": "m", "messages": messages, **more}


def suggested(text: object, system: str | None = None, **more: object) -> str:
    """Return the class suggested for a chat request."""
    return classify(Endpoint.CHAT, chat(text, system, **more)).request_class


def labelled() -> list[dict[str, str]]:
    """Return our own labelled sentences."""
    return [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]


def test_own_sentences() -> None:
    """Of our own sentences at least 95 in 100 are told right, and none is kept too long."""
    results = [(row["class"], suggested(row["text"], row.get("system"))) for row in labelled()]
    right = sum(expected == actual for expected, actual in results)
    assert right >= 0.95 * len(results)
    too_long = [pair for pair in results if pair[0] != pair[1] and pair[1] in _KEPT_OR_ALIKE]
    assert too_long == []


_KEPT_OR_ALIKE = {"translation", "formatting", "faq"}


def test_own_sentences_cover_every_class_in_both_languages() -> None:
    """Each class has at least 25 sentences in each language."""
    counts = Counter((row["class"], row["lang"]) for row in labelled())
    too_few = {(name, lang) for name in BUILT_IN_CLASSES for lang in ("en", "zh")} - {
        pair for pair, count in counts.items() if count >= 25
    }
    assert too_few == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What is asked to be done with a text comes before what the text is about.
        ('Translate "what is the weather today?" into French', "translation"),
        ("把“今天天气怎么样？”翻译成英文", "translation"),
        ("Translate to German:\n\ndef f(x): return x", "translation"),
        ("Fix the grammar: who is president of the club", "formatting"),
        # Without the text itself, it leans on earlier turns or on the world.
        ("Translate that into French", "general"),
        ("把这句话翻译成英文", "general"),
        ("Translate today's headlines into Chinese", "realtime"),
        # The words are there, the meaning is not.
        ("Explain how weather forecasts are made", "general"),
        ("Write a story about a translator: she forgot every word", "general"),
        ("Write a refund policy for my shop", "general"),
        ("How can I get more traffic to my website?", "general"),
        ("遗传信息是怎样翻译成蛋白质的？", "general"),
        ("写一首关于天气的诗", "general"),
        ("树上有8只鸟，飞走了3只，现在还有几只？", "general"),
        ("我今天很难过怎么办？", "general"),
        ("你爸爸是谁", "general"),
        ("Write about the function of the heart", "general"),
        ("Create a class schedule for Monday", "general"),
        ("How old are you?", "general"),
        # Code is told by its shape.
        ("def add(a, b):", "code"),
        ("What does this do?\n\nfor i in range(3):\n    print(i)\n", "code"),
        (
            "I came from Paris, and I return tomorrow.\nIf you (and only you) agree, say so.",
            "general",
        ),
        # A long text that opens like a plain question brings its own context along.
        ("What's the weather like today? " + "It was a dark and stormy night. " * 8, "general"),
        ("Who is the president? " + "The club has a new board since May. " * 8, "general"),
        ("今天天气怎么样？" + "他们沿着河边走了很久，谁也没有说话。" * 5, "general"),
        ("", "general"),
        (" \n\t", "general"),
    ],
)
def test_close_calls(text: str, expected: str) -> None:
    """Texts that look like something else."""
    assert suggested(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        # Offices.
        "Who is the president of Brazil?",
        "who's india's prime minister",
        "What is the name of the mayor of Leeds?",
        "美国现任总统是谁？",
        "谁是苹果公司的CEO",
        # Records.
        "Who is the richest man in the world?",
        "Who is the reigning world chess champion?",
        "世界首富是谁？",
        "男子百米世界纪录是多少？",
        # Counts.
        "What is the population of Norway?",
        "How many employees does Toyota have?",
        "上海有多少人口？",
        # Prices.
        "How much does a subway ticket in New York cost?",
        "北京地铁单程票价是多少？",
        # Ranks.
        "What are the top ten universities in the world?",
        "世界大学排名第一的是哪所大学？",
        # Ages of the living.
        "How old is Paul McCartney?",
        "周杰伦几岁了？",
        # What says so itself.
        "What is the current minimum age for drivers in Texas?",
        "As of this writing, which country has the most nuclear power plants?",
        "截至2024年底，中国有多少网民？",
    ],
)
def test_fact_that_changes_is_factual(text: str) -> None:
    """What may be another answer within the hour is never cached."""
    assert suggested(text) == "factual"


@pytest.mark.parametrize(
    "text",
    [
        "What is the capital of France?",
        "法国的首都是哪里？",
        "Who wrote Hamlet?",
        "Who is the author of Hamlet?",
        "《红楼梦》的作者是谁？",
        "Who invented the telephone?",
        "电话是谁发明的？",
        "When did the Second World War end?",
        "第二次世界大战是哪一年结束的？",
        "Who won the 1998 World Cup?",
        "How tall is Mount Kenya?",
        "珠穆朗玛峰有多高？",
        "What is the tallest building in the world?",
        "Where is Lake Titicaca located?",
        "What is inflation?",
        "什么是世界纪录？",
        # Once true, always true.
        "Who was the first president of the United States?",
        "Who is the third president of the United States?",
        "美国第一任总统是谁？",
        "What was the population of Rome in 1900?",
        "1949年中国有多少人口？",
        # The words are there, the meaning is not.
        "Who is the best president ever?",
        "Which food is richest in iron?",
        "What is the current in a circuit with a resistance of 5 ohms?",
        "What does opportunity cost mean?",
        "What is the price of success?",
        "What is a population in statistics?",
        "How old is Sherlock in the first book?",
        "How old is the universe?",
        "How much do apples cost if each apple is 3 dollars?",
        "How does the president of France get elected?",
        "小明买了3个苹果花了多少钱？",
        "如何成为世界冠军？",
        "孩子几岁上学？",
        "狮子王里的国王是谁演的",
        # The caller's own.
        "Who is the leader of my team?",
        "我们班的队长是谁？",
    ],
)
def test_fact_that_stays_is_general(text: str) -> None:
    """Never cached is too much for an answer that stays the same."""
    assert suggested(text) == "general"


@pytest.mark.parametrize("text", [TRANSLATE, TO_JSON, REFUND])
@pytest.mark.parametrize(
    "more",
    [{"tools": [{"type": "function", "function": {"name": "f"}}]}, {"functions": [{"name": "f"}]}],
)
def test_request_with_tools_is_neither_kept_long_nor_answered_alike(
    text: str, more: dict[str, Any]
) -> None:
    """With tools at hand, the answer may be an action: never a translation, FAQ or formatting."""
    assert suggested(text) in _KEPT_OR_ALIKE
    assert suggested(text, **more) == "general"


@pytest.mark.parametrize("text", [TRANSLATE, TO_JSON, REFUND])
def test_request_with_a_picture_is_neither_kept_long_nor_answered_alike(text: str) -> None:
    """A picture may be what is asked about."""
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    assert suggested([{"type": "text", "text": text}]) in _KEPT_OR_ALIKE
    assert suggested([{"type": "text", "text": text}, picture]) == "general"


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("You are a professional English to Chinese translator.", "translation"),
        ("Translate everything the user says into Spanish.", "translation"),
        ("你是一名专业的翻译官。", "translation"),
        ("You are a coder, a translator and a poet.", "general"),
        ("You are a helpful assistant. Never act as a translator.", "general"),
        ("You are a coder and translator.", "general"),
        ("把用户发来的内容翻译成英文。", "translation"),
        ("你是一个会写作、翻译的助手。", "general"),
        ("请勿翻译。", "general"),
        ("如果用户要求，就翻译成英文。", "general"),
    ],
)
def test_system_prompt_of_a_translator(system: str, expected: str) -> None:
    """Only a system prompt that makes the model nothing but a translator counts."""
    assert suggested("The bridge is old.", system) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How do I change my address?", "faq"),
        ("怎么修改地址", "faq"),
        ("I am furious.", "general"),
        # A fact that changes, but the help centre announces it.
        ("How much does express delivery cost?", "faq"),
        ("加急配送多少钱？", "faq"),
        # State of an account, not how a shop does things.
        ("Where is my order?", "realtime"),
        ("How do I change my address? " + "Because. " * 40, "general"),
    ],
)
def test_question_to_a_support_assistant(text: str, expected: str) -> None:
    """Short questions to a support assistant are FAQ; complaints and long stories are not."""
    assert suggested(text, "You are a customer support agent. 你是客服。") == expected


def test_hole_in_code() -> None:
    """Fill-in-the-middle is code: by the API's own field, or by the marks of the models."""
    with_suffix = {"prompt": "total = ", "suffix": "\nprint(total)"}
    assert classify(Endpoint.COMPLETIONS, with_suffix).request_class == "code"
    with_marks = {"prompt": "<|fim_prefix|>total = <|fim_suffix|>\nprint(total)<|fim_middle|>"}
    assert classify(Endpoint.COMPLETIONS, with_marks).request_class == "code"


def test_every_endpoint_is_understood() -> None:
    """The same words get the same suggestion wherever they stand."""
    translation = classify(Endpoint.CHAT, chat(TRANSLATE))
    assert translation == Suggestion("translation", "asks to translate the text it brings")
    assert classify(Endpoint.RESPONSES, {"input": TRANSLATE}) == translation
    assert classify(Endpoint.COMPLETIONS, {"prompt": TRANSLATE}) == translation


HOSTILE = [
    *(
        "a",
        " ",
        "\n",
        ":",
        "(",
        '"',
        "“",
        "译",
        "翻译",
        "天气",
        "please ",
        "can you ",
        "translate ",
    ),
    *("translate to ", "convert ", "weather ", "who is the ", "what is ", "def ", "class a:\n"),
    *(
        "for (\n",
        "今天",
        "写",
        "用python",
        "how do you say ",
        "is it ",
        "fix ",
        "请",
        "?",
        "this week ",
        "who is a ",
        "how old is a",
        "what is the current ",
        "what are a's ",
        "多少钱",
        "谁是",
        "现任",
    ),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_is_looked_at_in_part(unit: str) -> None:
    """A megabyte of repetition is told by its head alone, and does not hang."""
    text = unit * (1_000_000 // len(unit))
    assert classify(Endpoint.CHAT, chat(text)) == classify(
        Endpoint.CHAT, chat(text[: MAX_CHARACTERS + 1])
    )
    assert classify(Endpoint.CHAT, chat("Hi", text)) == classify(
        Endpoint.CHAT, chat("Hi", text[: MAX_CHARACTERS + 1])
    )
