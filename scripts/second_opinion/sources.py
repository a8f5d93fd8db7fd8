"""Texts and labelled pairs of open sets; every licence here allows training and sharing.

banking77 and hwu64 are CC BY 4.0, clinc150 CC BY 3.0, SVAMP MIT, Tatoeba CC BY 2.0 FR, the
question entailments of Ben Abacha and Demner-Fushman CC BY 4.0, GPTCache's mock data MIT,
TimeSensitiveQA BSD-3-Clause, CrossWOZ Apache-2.0, PAWS-X free for any purpose (its half called
``dev`` is used, ``test`` is kept for tests).
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from second_opinion.pairs import Gathering

Row = dict[str, Any]

STREAMS = ("en_banking77", "en_clinc150", "en_hwu64", "en_svamp")
_SHORTEST, _LONGEST, _LONGEST_CHINESE = 6, 220, 80
_NEIGHBOURS = 40
_NUMBERS = re.compile(r"\d+|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twenty|fifty)\b")

_WITH_DETAILS = frozenset(
    "translate definition spelling calculator exchange_rate weather time timezone "
    "measurement_conversion distance directions flight_status book_flight book_hotel travel_alert "
    "travel_suggestion restaurant_reviews restaurant_suggestion recipe nutrition_info calories "
    "ingredients_list ingredient_substitution cook_time meal_suggestion food_last play_music "
    "update_playlist next_song reminder reminder_update todo_list todo_list_update shopping_list "
    "shopping_list_update calendar calendar_update schedule_meeting schedule_maintenance alarm "
    "timer text make_call transfer pay_bill bill_due bill_balance balance transactions "
    "spending_history international_fees plug_type vaccines visa restaurant_reservation "
    "cancel_reservation confirm_reservation accept_reservations date gas_type mpg tire_pressure "
    "oil_change_when what_song smart_home share_location current_location traffic uber car_rental "
    "carry_on lost_luggage fun_fact tell_joke roll_dice flip_coin yes no maybe greeting goodbye "
    "thank_you oos whisper_mode change_speed change_volume change_accent change_language "
    "change_ai_name change_user_name order order_status interest_rate min_payment order_checks "
    "report_fraud taxes income pto_request pto_balance pto_used sync_device "
    "meeting_schedule".split()
)
"""Intents of clinc150 whose answer hangs on what is not in the label."""


def rows(data: Path, name: str) -> list[Row]:
    """Return the rows of a set."""
    with (data / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def carriers(data: Path) -> tuple[list[str], list[str]]:
    """Return the English and the Chinese texts that rules are applied to."""
    english: dict[str, None] = {}
    chinese: dict[str, None] = {}
    for text, is_chinese in _carriers(data):
        longest = _LONGEST_CHINESE if is_chinese else _LONGEST
        if _SHORTEST <= len(text) <= longest:
            (chinese if is_chinese else english)[text] = None
    return [*english], [*chinese]


def _carriers(data: Path) -> Iterator[tuple[str, bool]]:
    for stream in STREAMS:
        yield from ((row["text"], False) for row in rows(data, f"stream/{stream}"))
    for row in rows(data, "stream/tatoeba_en_zh"):
        yield row["text"], row["lang"] == "zh"
    yield from ((row["a"], False) for row in rows(data, "pairs/en_rqe_medical")[:700])
    yield from ((row["a"], False) for row in rows(data, "pairs/en_gptcache_mock"))
    for row in rows(data, "pairs/en_time_sensitive_qa"):
        yield from ((row["a"], False), (row["b"], False))
    for row in rows(data, "conv/conv_crosswoz_zh"):
        asked = (m["content"].strip() for m in row["messages"] if m["role"] == "user")
        yield from ((text, True) for text in asked)
    yield from ((row["a"], True) for row in _paws(data))


def _paws(data: Path) -> Iterator[Row]:
    return (row for row in rows(data, "pairs/zh_pawsx") if row["src_split"] == "dev_2k")


def add_labelled(english: Gathering, chinese: Gathering, data: Path) -> None:
    """Add the pairs that come with a label."""
    for row in rows(data, "pairs/en_gptcache_mock"):
        english.add(row["a"], row["b"], "gptcache_mock", same=True)
    for row in rows(data, "pairs/en_rqe_medical"):
        if row["label"] == 1 and len(row["a"]) + len(row["b"]) < 300:  # noqa: PLR2004
            english.add(row["a"], row["b"], "rqe_medical", same=True)
    for row in rows(data, "pairs/en_time_sensitive_qa"):
        english.add(row["a"], row["b"], "time_sensitive_qa", same=False)
    for row in _paws(data):
        chinese.add(row["a"], row["b"], "pawsx", same=row["label"] == 1)


@dataclass(frozen=True, slots=True)
class Mine:
    """How pairs are found among the texts of a set with intents."""

    name: str
    key: Callable[[Row], object]
    """Texts whose keys differ are not answered alike."""
    may_match: Callable[[Row], bool]
    """Whether texts of the row's key are answered alike."""
    counts: tuple[int, int]
    """Pairs wanted: same, other."""
    least_cosine: float
    """Of texts that count as the same."""
    most_cosine: float
    """Of texts that count as other: above it, labels err too often."""


MINES = (
    Mine("en_banking77", lambda r: r["intent"], lambda _: True, (3500, 4500), 0.70, 1.0),
    Mine(
        "en_clinc150",
        lambda r: r["intent"],
        lambda r: r["intent"] not in _WITH_DETAILS,
        (2500, 2500),
        0.75,
        0.84,
    ),
    Mine(
        "en_hwu64",
        lambda r: r["answer_key"],
        lambda _: True,
        (2500, 3000),
        0.60,
        0.84,
    ),
)


def _eligible(mine: Mine, row: Row) -> bool:
    if mine.name == "en_hwu64":
        return row["key_ok"] and not row["intent"].startswith("general")
    return bool(row["intent"] != "oos")


def add_mined(
    english: Gathering, data: Path, vectors: Callable[[list[str]], npt.NDArray[np.float32]]
) -> None:
    """Add near neighbours of the sets with intents, of equal and of different keys."""
    for mine in MINES:
        found = [row for row in rows(data, f"stream/{mine.name}") if _eligible(mine, row)]
        table = vectors([row["text"] for row in found])
        same: list[tuple[Row, Row]] = []
        other: list[tuple[Row, Row]] = []
        for at, row in enumerate(found):
            cosines = table @ table[at]
            cosines[at] = -1
            nearest = np.argsort(-cosines)[:_NEIGHBOURS]
            same += [
                (row, found[n])
                for n in nearest
                if at < n and _same(mine, row, found[n], cosines[n])
            ]
            differ = [n for n in nearest if mine.key(row) != mine.key(found[n])]
            other += [(row, found[n]) for n in differ[:3] if 0.55 < cosines[n] < mine.most_cosine]  # noqa: PLR2004
        for pairs, count, is_same in ((same, mine.counts[0], True), (other, mine.counts[1], False)):
            for one, two in english.writer.chance.sample(pairs, min(count, len(pairs))):
                english.add(one["text"], two["text"], mine.name, same=is_same)


def _same(mine: Mine, one: Row, other: Row, cosine: float) -> bool:
    if mine.key(one) != mine.key(other) or cosine < mine.least_cosine:
        return False
    return mine.may_match(one) and _numbers(one) == _numbers(other)


def _numbers(row: Row) -> list[str]:
    return sorted(_NUMBERS.findall(row["text"].lower()))
