"""The word lists of a language; ``english.json`` and ``chinese.json`` beside this module.

In every list ``|`` joins wordings. Wordings of `Lists.synonyms`, `Lists.phrases`, of an act, an
object or a frame mean the same; those of `Lists.opposites`, `sisters`, `names`, `question_words`
are alike and mean something else. All lists were written for this purpose.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

Group = list[str]


@dataclass(frozen=True, slots=True)
class Act:
    """Something one does with things: verbs of one meaning, other verbs, and the things."""

    verbs: Group
    others: Group
    objects: list[Group]


@dataclass(frozen=True, slots=True)
class Frame:
    """Wordings of one question about entities of a kind."""

    wordings: Group
    places: str
    symmetric: bool = False
    """Whether it asks the same when its two entities change places."""
    reverse: str = ""
    """A wording that means the same when its two entities change places, and else does not."""


@dataclass(frozen=True, slots=True)
class Lists:
    """All lists of a language."""

    chinese: bool
    synonyms: list[Group]
    phrases: list[Group]
    opposites: list[Group]
    sisters: list[Group]
    names: list[Group]
    question_words: list[Group]
    acts: list[Act]
    circumstances: list[list[Group]]
    act_frames: dict[str, Group]
    stray_frames: Group
    thing_frames: dict[str, Group]
    things: Group
    possessions: Group
    places: dict[str, Group]
    two: list[Frame]
    numbers: list[Group]
    relations: list[Frame]
    restrictions: Group
    before: Group
    after: Group

    @classmethod
    def load(cls, name: str) -> Self:
        """Read the lists called ``name``."""
        raw = json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))
        groups = ("synonyms", "phrases", "opposites", "sisters", "names", "question_words")
        single = ("stray_frames", "things", "possessions", "restrictions", "before", "after")
        named = ("act_frames", "thing_frames", "places")
        return cls(
            chinese=name == "chinese",
            acts=[
                Act(_split(a["act"]), _split(a["others"]), _each(a["objects"])) for a in raw["acts"]
            ],
            circumstances=[_each(group) for group in raw["circumstances"]],
            two=[_frame(frame) for frame in raw["two"]],
            relations=[_frame(frame) for frame in raw["relations"]],
            numbers=_each(raw["numbers"]),
            **{key: _each(raw[key]) for key in groups},
            **{key: _split(raw[key]) for key in single},
            **{key: {k: _split(v) for k, v in raw[key].items()} for key in named},
        )


def _split(text: str) -> Group:
    return text.split("|")


def _each(texts: list[str]) -> list[Group]:
    return [_split(text) for text in texts]


def _frame(raw: dict[str, Any]) -> Frame:
    return Frame(
        _split(raw["wordings"]), raw["places"], raw.get("symmetric", False), raw.get("reverse", "")
    )
