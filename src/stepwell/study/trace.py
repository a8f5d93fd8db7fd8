"""A trace: questions in order, each with the name of its right answer."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stepwell.core.errors import ConfigError, RequestError
from stepwell.core.names import Namespace
from stepwell.study.arm import Question
from stepwell.study.requests import MODEL, body_of
from stepwell.study.rules import Rules, rule

_ONE_TENANT = Namespace(bytes(16))
_MILLISECONDS = 1_000.0


def questions(
    rows: Iterable[tuple[str, Mapping[str, Any]]], rules: Rules, ttl_seconds: float
) -> Iterator[Question]:
    """Yield the questions of a trace.

    Args:
        rows: Where each stands, for messages, and the row: ``text`` (or messages, or a body),
            ``answer_key``, and perhaps ``model``, ``system`` and ``t_ms``. Without a time a
            question comes a second after the one before.
        rules: Make the keys, and say which class a question is of.
        ttl_seconds: How long an answer is fresh.

    Raises:
        ConfigError: A row cannot be asked.
    """
    last = 0.0
    for number, (place, row) in enumerate(rows):
        if "text" not in row or not isinstance(row.get("answer_key"), str | int):
            raise ConfigError(f"{place}: a row needs 'text' and 'answer_key'.")
        last = _time(row, place, last)
        model, system = row.get("model", MODEL), row.get("system") or ""
        if not isinstance(model, str) or not isinstance(system, str):
            raise ConfigError(f"{place}: 'model' and 'system' are texts.")
        try:
            ruling = rule(body_of(row["text"], model=model, system=system), rules)
            asked = (_ONE_TENANT, ruling.endpoint, ruling.body)
            yield Question(
                number=number,
                key=rules.scheme.key(*asked),
                phrasing=rules.scheme.phrasing(*asked),
                level=ruling.request_class.level,
                at=last,
                ttl_seconds=ttl_seconds,
                answer=str(row["answer_key"]),
                layers=ruling.layers,
            )
        except RequestError as error:
            raise ConfigError(f"{place}: cannot be asked: {error}") from error


def _time(row: Mapping[str, Any], place: str, last: float) -> float:
    given = row.get("t_ms")
    if given is None:
        return last + 1.0
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ConfigError(f"{place}: t_ms is {given!r}; allowed: a number of milliseconds.")
    return max(last, given / _MILLISECONDS)


def drawn_by_zipf(
    asked: Iterable[Question], exponent: float, count: int, seed: int
) -> Iterator[Question]:
    """Yield ``count`` questions, drawn as popular things are asked for, a second apart.

    The answers are ranked by chance; the one of rank r is asked for r**-exponent times as often
    as the first; which of its phrasings is asked is even chance. The same seed draws the same.
    """
    by_answer: dict[str, list[Question]] = {}
    for question in asked:
        by_answer.setdefault(question.answer, []).append(question)
    generator = np.random.default_rng(seed)
    phrasings = list(by_answer.values())
    if not phrasings:
        return
    generator.shuffle(phrasings)
    weights = np.arange(1, len(phrasings) + 1, dtype=np.float64) ** -exponent
    ranks = generator.choice(len(phrasings), size=count, p=weights / weights.sum())
    luck = generator.random(count)
    for number, (rank, chance) in enumerate(zip(ranks, luck, strict=True)):
        choice = phrasings[rank]
        question = choice[int(chance * len(choice))]
        yield replace(question, number=number, at=float(number))
