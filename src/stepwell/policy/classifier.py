"""A modest classifier: suggests a request class by rules, in English and Chinese.

Deterministic, and made to be wrong on the cheap side. A text nothing is known about is
``general``; only text that brings along what it wants translated or formatted is kept longer
than that, only a support assistant's questions (or a plain question about refunds and the like)
may be answered by a similar question's answer, and a request with tools, images or files is
none of these. Wrongly suggested ``realtime`` or ``code`` costs some hits. Wrongly suggested
``factual`` costs all of them, so it too needs evidence: a fact that changes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepwell.core.names import Endpoint
from stepwell.policy.chinese import CHINESE_RULES
from stepwell.policy.code_shape import has_hole, looks_like_code
from stepwell.policy.english import ENGLISH_RULES
from stepwell.policy.rule import HEAD_CHARACTERS, Rule
from stepwell.policy.text import Body, has_more_than_text, last_user_text, system_text


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A request class, and what speaks for it."""

    request_class: str
    """Name of a built-in class."""
    why: str
    """In constant words; nothing of the request is in it."""


_GENERAL = Suggestion("general", "no rule holds")
_NEEDS_WORDS_ONLY = frozenset({"translation", "formatting", "faq"})
_LEFT_TO_SUPPORT = frozenset({"general", "factual"})

_LINE_OF_CODE = Suggestion("code", "holds lines of code")
_HOLE = Suggestion("code", "marks a hole in code")
_FOR_TRANSLATOR = Suggestion("translation", "the system prompt makes the model a translator")
_FOR_SUPPORT = Suggestion("faq", "a question to a support assistant")

_PUNCTUATION = b'?!.,:;"()[]{}<>/\\|*_~`-='
_WITHOUT_PUNCTUATION = bytes.maketrans(_PUNCTUATION, b" " * len(_PUNCTUATION))

_WORD = re.compile(r"[a-z0-9+#']+")

_SYSTEM_CHARACTERS = 512
_QUESTION_CHARACTERS = 200

_TRANSLATOR = re.compile(
    r"(?:(?![^\n.,;]{0,60}\b(?:and|or|not|never)\b)[^\n.,;]{0,60}\btranslator\b"
    r"|(?:you are |act as )?(?:an? )?translation (?:engine|assistant|service)"
    r"|(?:[^\n]{0,60}[.\n] ?)?translate (?:the|all|every|any|each|whatever|what|everything)\b"
    r"[^\n.]{0,60} (?:to|into) \w"
    r"|(?![^\n]{0,40}(?:不|勿|别|、|或|如果|若|当|需要|可以|能|会))"
    r"(?:[^\n，,；;]{0,16}翻译(?:官|员|家|助手|引擎|专家|器|机|[。.，,\n]|\Z)"
    r"|[^\n]{0,24}译(?:成|为|到)?(?:[中英日韩法德俄][文语]|汉语|西班牙语)))"
)
_SUPPORT = re.compile(
    r"\b(?:(?:customer|user|product|technical|online) (?:support|service|care)"
    r"|support (?:assistant|agent|bot|team)|help ?(?:cent(?:er|re)|desk)|faqs?)\b"
    r"|客服|常见问题|帮助中心|售后"
)
_QUESTION = re.compile(
    r"\W{0,3}(?:hi|hello|hey|please)?\W{0,3}(?:how|what|which|where|when|who|why|can|could|"
    r"do|does|is|are|will|may)\b|[^\n]{0,200}(?:[?？吗呢]|怎么|如何|怎样|多久|什么|能不能|可不可以|多少|哪|是否)"
)


def classify(endpoint: Endpoint, body: Body) -> Suggestion:
    """Suggest a class for a request; ``general`` in doubt.

    Never raises, whatever the shape of ``body``. Looks at a bounded part of it, so the time it
    takes has a bound too.
    """
    text = last_user_text(endpoint, body).lstrip()
    if not text:
        return _GENERAL
    system = system_text(endpoint, body, _SYSTEM_CHARACTERS).lower()
    suggestion = _suggest(endpoint, body, text, system)
    if suggestion.request_class in _NEEDS_WORDS_ONLY and has_more_than_text(endpoint, body):
        return _GENERAL
    return suggestion


def _suggest(endpoint: Endpoint, body: Body, text: str, system: str) -> Suggestion:
    if system and _TRANSLATOR.match(system):
        return _FOR_TRANSLATOR
    if endpoint is Endpoint.COMPLETIONS and (body.get("suffix") or has_hole(text)):
        return _HOLE
    by_rule = _by_rule(text)
    # What a translation brings along may be code, or a question.
    if by_rule.request_class != "translation" and looks_like_code(text):
        return _LINE_OF_CODE
    # What a help centre says of prices and people moves the marker of its class when it changes.
    if by_rule.request_class in _LEFT_TO_SUPPORT and system and _is_for_support(text, system):
        return _FOR_SUPPORT
    return by_rule


def _is_for_support(text: str, system: str) -> bool:
    return bool(
        len(text) <= _QUESTION_CHARACTERS
        and _SUPPORT.search(system)
        and _QUESTION.match(text.lower())
    )


def _by_rule(text: str) -> Suggestion:
    head = text[:HEAD_CHARACTERS].lower()
    if head.isascii():
        rules = _RULES_FOR_ASCII
        said = head.encode().translate(_WITHOUT_PUNCTUATION).decode().split()
    else:
        rules = _RULES
        said = _WORD.findall(head)
    words = _SIGNAL_WORDS.intersection(said)
    for rule, suggestion in rules.all if words else rules.without_words:
        if rule.holds(head, words, len(text)):
            return suggestion
    return _GENERAL


_ORDER = ("translation", "code", "formatting", "realtime", "factual", "faq")
"""What is asked to be done with a text comes before what the text is about: "translate: what is
the weather today" is a translation."""

_Pairs = tuple[tuple[Rule, Suggestion], ...]


class _Rules(NamedTuple):
    """Rules in the order in which they are tried."""

    all: _Pairs
    without_words: _Pairs
    """Those that can hold for a text with no signal word. Most texts have none."""


def _in_order(rules: Sequence[Rule]) -> _Rules:
    pairs = tuple(
        (rule, Suggestion(rule.request_class, rule.why))
        for name in _ORDER
        for rule in rules
        if rule.request_class == name
    )
    return _Rules(pairs, tuple(pair for pair in pairs if not pair[0].words))


_RULES = _in_order(ENGLISH_RULES + CHINESE_RULES)
_RULES_FOR_ASCII = _in_order(ENGLISH_RULES)
_SIGNAL_WORDS = frozenset[str]().union(*(rule.words for rule, _ in _RULES.all))
"""The words that some rule asks for."""
