"""Names that hold another name: Northern Ireland, Ireland; Quebec City, Quebec; 南苏丹, 苏丹."""

from collections.abc import Iterator

from stepwell.semantic.valve.names import Name, mentions, plain
from stepwell.semantic.valve.reading import HAN, LATIN, Reading, Word

_DIRECTIONS = {
    word: direction
    for direction in "north south east west northeast northwest southeast southwest".split()
    for word in (direction, f"{direction}ern")
} | {"central": "central"}
_IN_CAPITALS = frozenset("new old upper lower inner outer greater equatorial papua city".split())
"""Part of a name if written with a capital: a new Toyota is none."""
_HAN = ("赤道", "巴布亚", "北", "南", "东", "西")
_HAN_WITHIN = (*_HAN, "新")
"""Within a word: 新墨西哥; a word of its own, it says that something is new."""
_PLACES = frozenset(("country", "city", "state", "region"))
_TAGS = ("nr", "ns", "nt")

_BARE = ""


def other_part(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return a name and a longer one of another thing, if each text has one of them.

    What makes the longer one must not stand in the other text in another place: northern Italy,
    the north of Italy.
    """
    if not (asked.fact(_may_hold) or stored.fact(_may_hold)):
        return None
    mine, theirs = asked.fact(_names), stored.fact(_names)
    for name in sorted(mine.keys() & theirs.keys()):
        longer, bare = mine[name] - {_BARE}, theirs[name] == {_BARE}
        if longer and bare and mine[name] == longer and not _says(stored, longer):
            return f"{min(longer)} {name}", name
        longer, bare = theirs[name] - {_BARE}, mine[name] == {_BARE}
        if longer and bare and theirs[name] == longer and not _says(asked, longer):
            return name, f"{min(longer)} {name}"
    return None


def _may_hold(reading: Reading) -> bool:
    """Return whether a text has a word that may make another name of a name."""
    if not reading.prose.isascii() and any(part in reading.prose for part in _HAN_WITHIN):
        return True
    return not (_DIRECTIONS.keys() | _IN_CAPITALS).isdisjoint(reading.vocabulary)


def _says(reading: Reading, parts: set[str]) -> bool:
    if not reading.prose.isascii() and any(part in reading.prose for part in parts):
        return True
    return any(_DIRECTIONS.get(word, word) in parts for word in reading.vocabulary)


def _names(reading: Reading) -> dict[str, set[str]]:
    """Return what may be a name, with all that is put to it to make another; empty for nothing."""
    found: dict[str, set[str]] = {}
    for name, part in _parts(reading):
        found.setdefault(name, set()).add(part)
    return found


def _parts(reading: Reading) -> Iterator[tuple[str, str]]:
    words = reading.words
    listed = _listed(reading)
    for index, word in enumerate(words):
        before = words[index - 1] if index else None
        if word.script is HAN:
            yield from _of_chinese(word, before)
        elif word.script is LATIN and (word.written[0].isupper() or index in listed):
            behind = words[index + 1] if index + 1 < len(words) else None
            name = plain(word.text)
            part = _before(before, is_initial=index == 1) if before else _BARE
            if not part and behind is not None and plain(behind.text) == "city":
                part = "city" if behind.written[0].isupper() else _BARE
            if index not in listed or listed[index].text == name or not part:
                yield name, part


def _listed(reading: Reading) -> dict[int, Name]:
    """Return the listed places by the words that name them: all of New York is one name."""
    return {
        index: mention.name
        for mention in reading.fact(mentions)
        if mention.name.kind in _PLACES
        for index in range(mention.first, mention.behind)
    }


def _before(word: Word, *, is_initial: bool) -> str:
    if word.text in _DIRECTIONS:
        return _DIRECTIONS[word.text]
    is_part = word.text in _IN_CAPITALS and word.written[0].isupper() and not is_initial
    return word.text if is_part else _BARE


def _of_chinese(word: Word, before: Word | None) -> Iterator[tuple[str, str]]:
    if not word.tag.startswith(_TAGS):
        return
    for part in _HAN_WITHIN:
        rest = word.text.removeprefix(part)
        if rest != word.text and len(rest) > 1:
            yield rest, part
    yield word.text, before.text if before is not None and before.text in _HAN else _BARE
