"""Texts in two languages, or in one that the valve cannot read.

An embedder that knows many languages puts a question and its translation in one place; their
answers are not the same text. And where the valve does not know the words for *not*, *before* and
*all*, it would see no difference where there is one. So: English with English, Chinese with
Chinese.
"""

import unicodedata
from collections import Counter

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.reading import HAN, LATIN, Reading

ENGLISH = "English"
CHINESE = "Chinese"
NONE = "no language"
"""Numbers, symbols, nothing at all."""

_MINOR_SHARE = 0.2
"""Letters of another script up to this share are names and quotations."""

_FOREIGN_WORDS = 2
"""So many function words of another language, and more than of English, make a text that language.
Chosen so that a name or a loan does not."""

_FUNCTION_WORDS = {
    "French": "le les des du une est sont dans pour que qui avec sur pas quel quelle quels comment"
    " pourquoi où je vous nous il elle ce cette mon ma mes votre fait faire peut puis et ou aux",
    "German": "der das und ist nicht wie ich ein eine einen einer für mit auf zu von den dem des"
    " warum wo wann wer kann muss soll wird sind haben mein meine oder wenn ohne über kein keine",
    "Spanish": "el los las una es en por para que con cómo qué cuál dónde cuándo quién mi mis su"
    " sus del al y o pero como puedo puede hacer está son hay sin más muy lo se",
    "Italian": "il lo gli una è che per con come cosa quale dove quando chi mio mia sono della del"
    " nel alla di da si posso può fare senza più non perché",
    "Portuguese": "os um uma é em para que com como não qual onde quando quem meu minha são da dos"
    " das na pelo posso pode fazer sem mais por você",
    "Dutch": "het een van voor met hoe niet wat waar wanneer wie waarom ik je mijn zijn kan moet op"
    " en of maar geen wordt deze",
    "Polish": "jak czy nie jest się w na do co gdzie kiedy kto dlaczego mój moja to z i od po bez",
    "Turkish": "nasıl nedir ne bir ve için mi mı ile nerede zaman kim neden değil var yok bu",
    "Indonesian": "bagaimana apa yang dan di untuk dengan tidak cara saya adalah dari ke ini itu",
    "Vietnamese": "là của và có không cho thế nào tôi gì được làm với này những một",
}
_ENGLISH_WORDS = (
    "the of to and in is are was were a an how what why when where who which do does did can could"
    " should would will my your his her its our their i you he she it we they for with on at by"
    " from not no this that these those be been has have had if or but as about there me us them"
)


def language_of(reading: Reading) -> str:
    """Return the language of a text: `ENGLISH`, `CHINESE`, `NONE`, or the name of another.

    By script first, then by function words; Latin letters without any count as English, as do
    product names and code. Linear in the text.
    """
    if reading.prose.isascii():
        has_words = any(word.script is LATIN for word in reading.words)
        return _latin_language(reading.vocabulary) if has_words else NONE
    scripts = Counter(
        _script(letter)
        for word in reading.words
        if word.script in (LATIN, HAN)
        for letter in word.text
        if letter.isalpha()
    )
    letters = sum(scripts.values())
    if not letters:
        return NONE
    for script, count in scripts.items():
        if script not in (CHINESE, "Latin") and count > _MINOR_SHARE * letters:
            return script
    # A Chinese sign says as much as several Latin letters: few suffice.
    if scripts[CHINESE]:
        return CHINESE
    return _latin_language(reading.vocabulary)


def _script(letter: str) -> str:
    if "\u4e00" <= letter <= "\u9fff":
        return CHINESE
    if letter.isascii():
        return "Latin"
    name = unicodedata.name(letter, "").split(" ", 1)[0]
    return {"CJK": CHINESE, "LATIN": "Latin"}.get(name, name.capitalize() or "unknown")


def _latin_language(words: frozenset[str]) -> str:
    if _ANY_FOREIGN.isdisjoint(words):
        return ENGLISH
    english = len(words & _ENGLISH)
    foreign = {language: len(words & known) for language, known in _FOREIGN.items()}
    best = max(foreign, key=lambda language: foreign[language])
    if foreign[best] >= _FOREIGN_WORDS and foreign[best] > english:
        return best
    return ENGLISH


_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_FOREIGN = {name: frozenset(words.split()) - _ENGLISH for name, words in _FUNCTION_WORDS.items()}
_ANY_FOREIGN = frozenset().union(*_FOREIGN.values())


def language(asked: Reading, stored: Reading) -> Difference | None:
    """Return a difference unless both texts are English, or both Chinese, or neither anything.

    The very same text is no difference in whatever language.
    """
    if asked.text == stored.text:
        return None
    one, other = asked.fact(language_of), stored.fact(language_of)
    if one == other and one in (ENGLISH, CHINESE, NONE):
        return None
    if NONE in (one, other) and {one, other} <= {ENGLISH, CHINESE, NONE}:
        return None  # "15" and "15 km" differ in other ways.
    return Difference(Kind.LANGUAGE, one, other)
