"""What edits of both kinds share: a source of chance, the lists, and ways to replace words."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from second_opinion.lists import Group, Lists
from second_opinion.wordnet import Key, Relations

Item = TypeVar("Item")

AMBIGUOUS = frozenset(
    "May March Go R Swift Edge Teams Signal Frank Grace Numbers Rust Opera Safari Windows Ruby "
    "Chrome Slack Java Turkey China Chile Polish Greek Mary Excel Oracle React Discord "
    "Julia".split()
)
"""Names that mean something else when written small."""

COMMON = frozenset(
    "the a an and or of to in on at is are was were be been do does did have has had can could "
    "will would should may might must shall what when where who whom which why how there here "
    "this that these those it its my your his her our their me you him them us i we he she they "
    "not no yes if so as by for from with about into than then too very just get got go make "
    "made take took want need tell know like see say please one two way thing time use used "
    "give work".split()
)

_DOUBLED = frozenset(
    "set put get cut run swim forget begin stop submit refer plan ban shut".split()
)


@dataclass(frozen=True)
class Writer:
    """Writes texts of a language. Not for several threads."""

    lists: Lists
    chance: random.Random
    words: dict[Key, Relations] = field(default_factory=dict)

    def pick(self, items: Sequence[Item]) -> Item:
        """Return any of ``items``."""
        return items[int(self.chance.random() * len(items))]

    def odds(self, share: float) -> bool:
        """Return whether something happens that happens with probability ``share``."""
        return self.chance.random() < share

    @cached_property
    def alike(self) -> dict[str, set[str]]:
        """What else each wording may be called."""
        found: dict[str, set[str]] = {}
        for group in [*self.lists.synonyms, *self.lists.phrases]:
            for wording in group:
                found.setdefault(wording.lower(), set()).update(w.lower() for w in group)
        return found

    def exchanged(self, text: str, groups: Sequence[Group]) -> str | None:
        """Return ``text`` with a wording of some group replaced by another one of it."""
        low = text.lower()
        for group in self.chance.sample(groups, len(groups)):
            present = sorted((w for w in group if w.lower() in low), key=len, reverse=True)
            for wording in present[:1]:
                others = [w for w in group if w != wording and w.lower() not in low]
                result = self.replaced(text, wording, self.pick(others)) if others else None
                if result:
                    return result
        return None

    def replaced(self, text: str, old: str, new: str) -> str | None:
        """Return ``text`` with the first whole word ``old`` replaced, or ``None``."""
        if self.lists.chinese:
            return text.replace(old, new, 1) if len(old) > 1 and old in text else None
        flags = 0 if old in AMBIGUOUS else re.IGNORECASE
        found = re.search(rf"(?<![A-Za-z0-9]){re.escape(old)}(?![A-Za-z0-9'])", text, flags)
        if found is None:
            return None
        if found[0][:1].isupper() and old[:1].islower():
            new = new[:1].upper() + new[1:]
        return text[: found.start()] + new + text[found.end() :]

    def related(self, text: str, how: str) -> str | None:
        """Return an English text with a word replaced by a relation (a field of `Relations`)."""
        found = [*re.finditer(r"[a-z]{3,}", text)]
        self.chance.shuffle(found)
        for match in found:
            if match[0] in COMMON:
                continue
            for key, ending in self._readings(match[0]):
                others = self._others(key, how)
                if others:
                    word = _ended(self.pick(others), ending)
                    return text[: match.start()] + word + text[match.end() :]
        return None

    def _others(self, key: Key, how: str) -> list[str]:
        relations = self.words[key]
        match how:
            case "same":
                sure = relations.share >= 0.8 and relations.count >= 4  # noqa: PLR2004
                return relations.same if sure else []
            case "opposite":
                return relations.opposite
            case _:
                if key[0] == "a" or relations.share < 0.5:  # noqa: PLR2004
                    return []
                known = self.alike.get(key[1], set())
                return [w for w in relations.near if w not in known and w not in relations.same]

    def _readings(self, word: str) -> list[tuple[Key, str]]:
        plain = [((part, word), "") for part in "nva" if (part, word) in self.words]
        if word.endswith("s") and not word.endswith("ss") and ("n", word[:-1]) in self.words:
            plain.append((("n", word[:-1]), "s"))
        if word.endswith("ing"):
            stems = [s for s in (word[:-3], word[:-3] + "e") if ("v", s) in self.words]
            plain += [(("v", stem), "ing") for stem in stems[:1]]
        return plain if len(plain) == 1 else []


def _ended(word: str, ending: str) -> str:
    match ending:
        case "ing":
            return gerund(word)
        case "s" if word.endswith("y") and word[-2:-1] not in "aeiou":
            return word[:-1] + "ies"
        case "s":
            return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")
        case _:
            return word


def gerund(words: str) -> str:
    """Return an English verb and what follows it with the verb in its ``-ing`` form."""
    verb, _, rest = words.partition(" ")
    if verb in _DOUBLED:
        verb += verb[-1]
    elif verb.endswith("ie"):
        verb = verb[:-2] + "y"
    elif verb.endswith("e") and not verb.endswith("ee"):
        verb = verb[:-1]
    return f"{verb}ing {rest}".rstrip()


def lowered(text: str) -> str:
    """Return ``text`` with its first letter small, unless it is the word I or a shouted word."""
    keep = not text[1:2].islower() or text.startswith(("I ", "I'"))
    return text if keep else text[0].lower() + text[1:]
