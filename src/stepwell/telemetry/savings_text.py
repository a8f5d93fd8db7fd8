"""The savings statement as a page for terminals."""

from datetime import UTC, datetime

from stepwell.telemetry.savings import EmbeddingsLine, Statement
from stepwell.telemetry.tables import share, table

_INDENT = "  "
_MINUTE = 60
_HOUR = 3600


def render_statement(statement: Statement) -> str:
    """Return ``statement`` as aligned text of at most some 80 columns, ending in a line feed."""
    blocks = [_headline(statement), table(_requests(statement)), table(_accounts(statement))]
    if statement.layers:
        blocks.append(table(_layers(statement)))
    if statement.classes:
        blocks.append(table(_classes(statement)))
    if any(line.cached_share is not None for line in statement.prefixes):
        blocks.append(table(_prefixes(statement)))
    if statement.embeddings is not None:
        blocks.append(table(_embeddings(statement.embeddings)))
    if statement.judged:
        blocks.append(table(_judged(statement)))
    notes = _notes(statement)
    if notes:
        blocks.append(notes)
    return "\n\n".join(blocks) + "\n"


def _headline(statement: Statement) -> str:
    ratio = share(statement.hit_ratio)
    lines = [f"hit ratio {ratio}, {_count(statement.calls_avoided)} model server calls avoided"]
    if statement.since is not None:
        begun = datetime.fromtimestamp(statement.since, UTC)
        lines.append(f"counted since {begun:%Y-%m-%d %H:%M} UTC")
    return "\n".join(lines)


def _requests(statement: Statement) -> list[list[str]]:
    rows = [["requests", _count(statement.requests), ""]]
    rows += [
        [_INDENT + result, _count(number), share(number / statement.requests)]
        for result, number in statement.by_result.items()
    ]
    rows.append(["model server calls", _count(statement.calls_made + statement.calls_failed), ""])
    rows.append([_INDENT + "failed", _count(statement.calls_failed), ""])
    return rows


def _accounts(statement: Statement) -> list[list[str]]:
    saved, spent = statement.saved, statement.spent
    rows = [
        ["", "saved", "spent"],
        ["prompt tokens", _count(saved.prompt_tokens), _count(spent.prompt_tokens)],
        ["completion tokens", _count(saved.completion_tokens), _count(spent.completion_tokens)],
        ["model server time", _duration(saved.seconds), _duration(spent.seconds)],
    ]
    for currency in _currencies(statement):
        in_saved, in_spent = saved.money.get(currency, 0), spent.money.get(currency, 0)
        rows.append([f"money ({currency})", _money(in_saved), _money(in_spent)])
    return rows


def _layers(statement: Statement) -> list[list[str]]:
    currencies = _currencies(statement)
    rows = [["layer", "answers", "tokens", "time", *currencies]]
    rows += [
        [
            "another's call" if line.layer == "none" else line.layer,
            _count(line.answers),
            _count(line.tokens),
            _duration(line.seconds),
            *(_money(line.money.get(currency, 0)) for currency in currencies),
        ]
        for line in statement.layers
    ]
    return rows


def _classes(statement: Statement) -> list[list[str]]:
    rows = [["class", "requests", "answers", "hit ratio", "time"]]
    rows += [
        [
            line.request_class,
            _count(line.requests),
            _count(line.answers),
            share(line.hit_ratio),
            _duration(line.seconds),
        ]
        for line in statement.classes
    ]
    return rows


def _prefixes(statement: Statement) -> list[list[str]]:
    rows = [["prompts read by", "cached", "computed", "not said", "cached share"]]
    rows += [
        [
            line.upstream,
            _count(line.cached_tokens),
            _count(line.computed_tokens),
            _count(line.unsaid_tokens),
            share(line.cached_share),
        ]
        for line in statement.prefixes
    ]
    return rows


def _embeddings(line: EmbeddingsLine) -> list[list[str]]:
    parts = {"known": line.known, "another's call": line.shared, "computed": line.computed}
    return [
        ["texts embedded", _count(line.texts), ""],
        *(
            [_INDENT + name, _count(number), share(number / line.texts)]
            for name, number in parts.items()
        ),
        [_INDENT + "tokens saved", _count(line.tokens_saved), ""],
    ]


def _judged(statement: Statement) -> list[list[str]]:
    rows = [["other words", "withheld", "right", "wrong", "unjudged", "precision", "95 % interval"]]
    rows += [
        [
            f"{line.request_class}, {line.by}",
            "-" if line.withheld is None else _count(line.withheld),
            _count(line.right),
            _count(line.wrong),
            _count(line.not_judged),
            share(line.precision),
            "-" if line.precision is None else f"{share(line.lower)} to {share(line.upper)}",
        ]
        for line in statement.judged
    ]
    return rows


def _notes(statement: Statement) -> str:
    accounts = (("saved", statement.saved), ("spent", statement.spent))
    return "\n".join(
        f"money {verb} leaves out {_count(account.unpriced_tokens)} tokens that have no price"
        for verb, account in accounts
        if account.unpriced_tokens
    )


def _currencies(statement: Statement) -> list[str]:
    return sorted(statement.saved.money.keys() | statement.spent.money.keys())


def _count(number: int) -> str:
    return f"{number:,}"


def _money(amount: float) -> str:
    """Write an amount with the digits that matter: a single answer costs a small part of a cent."""
    return f"{amount:,.2f}" if amount >= 1 else f"{amount:.4f}"


def _duration(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, whole_seconds = divmod(int(seconds), _MINUTE)
    if seconds < _HOUR:
        return f"{minutes} min {whole_seconds:02} s"
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours:,} h {minutes:02} min"
