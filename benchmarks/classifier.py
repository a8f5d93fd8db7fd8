"""How well the classifier tells request classes apart, and what it costs.

Evaluated on public labelled sets where they are at hand (they are read in place; none of their
text is in this repository), and always on our own sentences in ``tests/data``. The rules were
written on the rows with even numbers (from 0) of the public sets; the rows with odd numbers are
reported. Our own sentences are by the hand that wrote the rules: they are no independent
measurement.

    python -m benchmarks.classifier [--smoke] [--json OUT] [--data DIR]

DIR is by default ``$STEPWELL_BENCH_DATA``, or ``../shared/data`` beside the project.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import parse_arguments, print_table, write

from stepwell.core.names import Endpoint
from stepwell.policy.classes import BUILT_IN_CLASSES
from stepwell.policy.classifier import classify

PROJECT = Path(__file__).parents[1]
DATA = PROJECT.parent / "shared" / "data"
OWN = PROJECT / "tests" / "data" / "request_classes.jsonl"
SMOKE_ROWS = 40
CLASSES = tuple(BUILT_IN_CLASSES)

Row = Mapping[str, Any]

SUPPORT = {
    "en": "You are the support assistant of an online bank. Answer from our help centre.",
    "zh": "你是一家网上银行的在线客服。",
}
TRANSLATE = {
    "en": (
        "Translate the following sentence into Chinese: {}",
        "Please translate this into French:\n\n{}",
        'How do you say "{}" in German?',
        "Can you translate the text below to Spanish?\n{}",
    ),
    "zh": (
        "请把下面的句子翻译成英文：{}",
        "将以下内容翻译为日语：\n{}",
        "“{}”用英语怎么说？",
        "帮我把“{}”翻译成法文",
    ),
}
FORMAT = {
    "en": (
        "Convert the following sentence to a JSON array of words:\n{}",
        "Fix the punctuation in this sentence: {}",
        "Put this text into a Markdown list:\n\n{}",
    ),
    "zh": (
        "请把下面的句子转换成JSON数组：\n{}",
        "修改下面句子中的错别字：{}",
        "将以下内容整理成Markdown列表：\n{}",
    ),
}


@dataclass(frozen=True)
class Labelled:
    """Requests of one kind, and what they may be called."""

    name: str
    lang: str
    accepted: tuple[str, ...]
    """The classes that are right."""
    requests: list[tuple[str, str | None]]
    """Text of the user, and of the system."""


HWU64 = {
    "realtime": {"news_query", "qa_stock", "transport_traffic"},
    "factual": {"qa_factoid"},
    "general": {
        *("cooking_recipe", "general_affirm", "general_commandstop", "general_praise"),
        *("general_dontcare", "general_joke", "iot_hue_lightdim", "iot_hue_lighton"),
        *("audio_volume_mute", "audio_volume_up", "audio_volume_down", "qa_maths"),
        *("music_likeness", "music_settings", "play_radio", "lists_createoradd", "email_sendemail"),
    },
}
"""Intents that name a class. Left out: those whose class is a matter of taste, or that ask for
the user's own data (calendar, e-mail, alarms, recommendations near by, time zones)."""

CLINC150 = {
    "realtime": {"traffic"},
    "general": {
        *("definition", "meaning_of_life", "fun_fact", "tell_joke", "greeting", "goodbye"),
        *("recipe", "food_last", "ingredients_list", "what_are_your_hobbies", "maybe", "thank_you"),
        *("yes", "roll_dice", "change_accent", "change_ai_name", "do_you_have_pets", "calculator"),
        *("improve_credit_score", "oil_change_how", "tire_change", "jump_start", "play_music"),
    },
}
ALSO_RIGHT = {"factual": ("general",)}
"""The set does not say which facts change: those that do are factual, the others general."""

BACKGROUND: dict[str, tuple[str, ...]] = {
    "code": ("general", "code"),
    "coding": ("general", "code"),
    # Holds facts that change and facts that do not.
    "open qa": ("factual", "general"),
    "专业能力": ("factual", "general"),
    "综合问答": ("factual", "general"),
    # These hold translations and corrections too.
    "rewrite": ("general", "translation", "formatting"),
    "基本任务": ("general", "translation", "formatting"),
    "中文理解": ("general", "translation", "formatting"),
    "角色扮演": ("general", "translation", "formatting"),
    "writing": ("general", "translation", "formatting"),
}
"""Categories of the chat prompts that may be more than general."""


def main() -> None:
    """Evaluate, print the tables, and write the results."""
    arguments = parse_arguments(__doc__ or "", data="folder of public sets")
    data = Path(arguments.data or os.environ.get("STEPWELL_BENCH_DATA") or DATA)
    limit = SMOKE_ROWS if arguments.smoke else None
    public = list(_public_sets(data, limit)) if data.is_dir() else []
    evaluated = {"own": _evaluate(list(_own_sets()))}
    if public:
        evaluated["public"] = _evaluate(public)
    else:
        print(f"no data in {data.name}: only our own sentences are evaluated")
    for name, evaluation in evaluated.items():
        _print(name, evaluation)
    costs = _costs(quick=arguments.smoke)
    print("\ncost of one suggestion, CPU time, best of several rounds")
    print_table([{"text": name, "us": us} for name, us in costs.items()], ("text", "us"))
    write("classifier", {"smoke": arguments.smoke, **evaluated, "cost_us": costs}, arguments.json)


def _read(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _own_sets() -> Iterator[Labelled]:
    rows = list(_read(OWN))
    for name in CLASSES:
        for lang in ("en", "zh"):
            requests = [
                (row["text"], row.get("system"))
                for row in rows
                if row["class"] == name and row["lang"] == lang
            ]
            yield Labelled(f"own {name}", lang, (name,), requests)


def _public_sets(data: Path, limit: int | None) -> Iterator[Labelled]:
    def rows(file: str) -> list[Row]:
        path = data / file
        return list(_read(path))[1::2][:limit] if path.is_file() else []

    yield from _by_intent("hwu64", rows("stream/en_hwu64.jsonl"), HWU64)
    yield from _by_intent("clinc150", rows("stream/en_clinc150.jsonl"), CLINC150)
    yield from _support(rows)
    yield from _by_template(rows("stream/tatoeba_en_zh.jsonl"))
    yield from _background(rows("stream/bg_prompts_en_zh.jsonl"))
    for name in ("code_recode_humaneval", "code_humanevalpack"):
        yield _whole(name, "en", ("code",), rows(f"stream/{name}.jsonl"))
    # News quizzes: what they ask moves on, slowly or fast.
    quiz = rows("stream/en_realtimeqa.jsonl")
    yield _whole("realtimeqa", "en", ("realtime", "factual"), quiz)
    for name in ("svamp", "gsm_symbolic_p2", "vcache_classif"):
        yield _whole(name, "en", ("general",), rows(f"stream/en_{name}.jsonl"))
    yield _whole("mqp", "en", ("general",), rows("pairs/en_mqp.jsonl"), lambda row: row["a"])
    passages = rows("stream/xquad_en_zh.jsonl")
    for lang in ("en", "zh"):
        of_lang = [row for row in passages if row["lang"] == lang]
        yield _whole("xquad", lang, ("general",), of_lang, _with_context)


def _by_intent(name: str, rows: list[Row], intents: dict[str, set[str]]) -> Iterator[Labelled]:
    for label, names in intents.items():
        chosen = [row for row in rows if row["intent"] in names]
        yield _whole(name, "en", (label, *ALSO_RIGHT.get(label, ())), chosen)


def _support(rows: Callable[[str], list[Row]]) -> Iterator[Labelled]:
    """Support questions, alone and behind the prompt of a support assistant."""
    hint3 = [r for r in rows("stream/en_hint3_support.jsonl") if "NO_NODES" not in r["intent"]]
    sets = (
        ("banking77", "en", [row["text"] for row in rows("stream/en_banking77.jsonl")]),
        ("hint3", "en", [row["text"] for row in hint3]),
        ("bq", "zh", list(dict.fromkeys(row["a"] for row in rows("pairs/zh_bq.jsonl")))),
        ("afqmc", "zh", list(dict.fromkeys(row["a"] for row in rows("pairs/zh_afqmc.jsonl")))),
    )
    for name, lang, texts in sets:
        alone = [(text, None) for text in texts]
        yield Labelled(f"{name}, no system prompt", lang, ("faq", "general"), [*alone])
        assisted = [(text, SUPPORT[lang]) for text in texts]
        yield Labelled(f"{name}, support prompt", lang, ("faq",), [*assisted])


def _by_template(rows: list[Row]) -> Iterator[Labelled]:
    """Sentences behind an instruction of ours: what they say must not matter."""
    for label, templates in (("translation", TRANSLATE), ("formatting", FORMAT)):
        for lang in ("en", "zh"):
            texts = [row["text"] for row in rows if row["lang"] == lang]
            filled = [
                (templates[lang][n % len(templates[lang])].format(text), None)
                for n, text in enumerate(texts)
            ]
            yield Labelled(f"tatoeba, {label}", lang, (label,), [*filled])
        for lang in ("en", "zh"):
            # The instruction in one language, the sentence in the other.
            other = "zh" if lang == "en" else "en"
            texts = [row["text"] for row in rows if row["lang"] == other]
            filled = [(templates[lang][0].format(text), None) for text in texts]
            yield Labelled(f"tatoeba, {label}, mixed", lang, (label,), [*filled])


def _background(rows: list[Row]) -> Iterator[Labelled]:
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, str | None]]] = {}
    for row in rows:
        category = " ".join(row["category"].split())
        accepted = BACKGROUND.get(category, ("general",))
        if row["source"].startswith("arena"):
            accepted = ("general", "code")
        groups.setdefault((row["lang"], accepted), []).append((row["text"], None))
    for (lang, accepted), requests in sorted(groups.items()):
        yield Labelled("chat prompts, " + "|".join(accepted), lang, accepted, requests)


def _whole(
    name: str,
    lang: str,
    accepted: tuple[str, ...],
    rows: Iterable[Row],
    text: Callable[[Row], str] = lambda row: row["text"],
) -> Labelled:
    return Labelled(name, lang, accepted, [(text(row), None) for row in rows])


def _with_context(row: Row) -> str:
    return f"{row['context']}\n\n{row['text']}"


def _body(text: str, system: str | None) -> dict[str, Any]:
    user = {"role": "user", "content": text}
    messages = [user] if system is None else [{"role": "system", "content": system}, user]
    return {"model": "m", "messages": messages}


def _evaluate(sets: list[Labelled]) -> dict[str, Any]:
    suggested = [
        (labelled, Counter(_suggest(text, system) for text, system in labelled.requests))
        for labelled in sets
        if labelled.requests
    ]
    return {
        "sets": [
            {
                "set": labelled.name,
                "lang": labelled.lang,
                "rows": len(labelled.requests),
                "label": "|".join(labelled.accepted),
                "right": _right(labelled, counts) / len(labelled.requests),
                "suggested": dict(counts),
            }
            for labelled, counts in suggested
        ],
        "confusion": {lang: _confusion(_of(suggested, lang)) for lang in ("en", "zh")},
        "classes": {lang: _by_class(_of(suggested, lang)) for lang in ("en", "zh", "both")},
    }


Suggested = list[tuple[Labelled, Counter[str]]]


def _of(suggested: Suggested, lang: str) -> Suggested:
    return [pair for pair in suggested if lang in {pair[0].lang, "both"}]


def _suggest(text: str, system: str | None) -> str:
    return classify(Endpoint.CHAT, _body(text, system)).request_class


def _right(labelled: Labelled, counts: Counter[str]) -> int:
    return sum(counts[name] for name in labelled.accepted)


def _confusion(suggested: Suggested) -> dict[str, dict[str, int]]:
    table: dict[str, Counter[str]] = {}
    for labelled, counts in suggested:
        table.setdefault("|".join(labelled.accepted), Counter()).update(counts)
    return {label: dict(counts) for label, counts in sorted(table.items())}


def _by_class(suggested: Suggested) -> dict[str, dict[str, float | int | None]]:
    """Precision: of the suggestions of a class, how many were acceptable. Recall: of the requests
    for which only that class is acceptable, how many were suggested it."""
    figures: dict[str, dict[str, float | int | None]] = {}
    for name in CLASSES:
        total = sum(counts[name] for _, counts in suggested)
        good = sum(counts[name] for labelled, counts in suggested if name in labelled.accepted)
        own = [(labelled, counts) for labelled, counts in suggested if labelled.accepted == (name,)]
        rows = sum(counts.total() for _, counts in own)
        found = sum(counts[name] for _, counts in own)
        figures[name] = {
            "suggested": total,
            "precision": good / total if total else None,
            "rows": rows,
            "recall": found / rows if rows else None,
        }
    return figures


def _costs(*, quick: bool) -> dict[str, float]:
    sentence = "The committee met in the old hall and talked at length about a new bridge. "
    minutes = "委员会在旧礼堂开会，讨论了还没有人读过的新桥方案。"
    lines = "total = add(total, price)\nreport the total to whoever asked for it\n"
    prompts = {
        "English, 40 characters": "Give me three ideas for a birthday party",
        "English question, 40 characters": "What is the capital of Australia called?",
        "English, 1 KB": ("Summarise these minutes for me. " + sentence * 20)[:1024],
        "Chinese, 10 characters": "如何提高英语口语水平",
        "Chinese, 1,024 characters": ("请总结下面的会议纪要。" + minutes * 60)[:1024],
        "lines, 1 KB": (lines * 20)[:1024],
        "translation, 1 KB": ("Translate the following into French: " + sentence * 20)[:1024],
        "weather, 38 characters": "What's the weather like in Oslo today?",
        "a megabyte": "translate " * 100_000,
    }
    return {name: _microseconds(text, rounds=3 if quick else 15) for name, text in prompts.items()}


def _microseconds(text: str, rounds: int, calls: int = 500) -> float:
    """CPU time of one call: the best round, because others share the machine."""
    body = _body(text, None)
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            classify(Endpoint.CHAT, body)
        taken.append((time.process_time() - start) / calls * 1e6)
    return round(min(taken), 1)


def _print(title: str, evaluation: Mapping[str, Any]) -> None:
    print(f"\n{title}: sets")
    print_table(
        [row | {"suggested": _counts(row["suggested"])} for row in evaluation["sets"]],
        ("set", "lang", "rows", "label", "right", "suggested"),
    )
    for lang, table in evaluation["confusion"].items():
        print(f"\n{title}, {lang}: rows as labelled, columns as suggested")
        zeros = dict.fromkeys(CLASSES, 0)
        rows = [{"label": label, **zeros, **counts} for label, counts in table.items()]
        print_table(rows, ("label", *CLASSES))
    for lang, figures in evaluation["classes"].items():
        print(f"\n{title}, {lang}: by class")
        rows = [{"class": name, **_without_none(figure)} for name, figure in figures.items()]
        print_table(rows, ("class", "suggested", "precision", "rows", "recall"))


def _counts(suggested: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in suggested.items())


def _without_none(figure: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in figure.items() if value is not None}


if __name__ == "__main__":
    main()
