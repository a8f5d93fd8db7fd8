"""Pairs made of frames: the same question worded twice, and questions with one thing changed."""

from dataclasses import dataclass

from second_opinion.edits import Writer, gerund
from second_opinion.lists import Act, Group
from second_opinion.other import digits_swapped, number
from second_opinion.pairs import Gathering

_SHARE_SAME = 0.45
_NEAR_QUESTIONS = (
    {"HOW", "WHERE"},
    {"HOW", "CAN"},
    {"SHOULD", "MUST"},
    {"CAN", "WHO"},
    {"CAN", "WHY"},
    {"LONG", "WHEN"},
    {"avail", "where"},
    {"use", "pro"},
    {"lost", "late"},
)
"""Kinds of question whose answers may well be the same."""


def gather_frames(gathering: Gathering, count: int) -> None:
    """Add about three times ``count`` pairs."""
    for _ in range(count):
        add_act(gathering)
        add_entity(gathering)
        if gathering.writer.odds(1 / 3):
            add_thing(gathering)
        if gathering.writer.odds(1 / 3):
            add_two(gathering)
        if gathering.writer.odds(1 / 3):
            add_number(gathering)


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked about an act."""

    frame: str
    verbs: Group
    thing: Group
    circumstance: Group | None

    def text(self, writer: Writer, wording: str | None = None) -> str:
        """Return it in words of the lists."""
        lists = writer.lists
        stray = self.frame not in lists.act_frames
        frame = wording or writer.pick(
            lists.stray_frames if stray else lists.act_frames[self.frame]
        )
        verb, thing = writer.pick(self.verbs), writer.pick(self.thing)
        case = writer.pick(self.circumstance) if self.circumstance else ""
        if lists.chinese:
            act = verb.replace("_", thing) if "_" in verb else verb + thing
            return frame.replace("{v}", case + act)
        act = f"{verb} {thing} {case}".strip()
        return frame.replace("{v}", act).replace("{g}", gerund(act))


def add_act(gathering: Gathering) -> None:
    """Add a pair about something one does."""
    writer = gathering.writer
    act = writer.pick(writer.lists.acts)
    frames = [*writer.lists.act_frames]
    frame = writer.pick(["HOW"] * 5 + ["CAN"] * 2 + frames)
    cases = writer.pick(writer.lists.circumstances) if writer.odds(0.45) else None
    one = _Request(
        frame, act.verbs, writer.pick(act.objects), writer.pick(cases) if cases else None
    )
    if writer.odds(_SHARE_SAME):
        gathering.add_dressed(one.text(writer), one.text(writer), "act", same=True)
        return
    kind, other = _other_request(writer, one, act, cases)
    wording = None
    if other.frame == one.frame and writer.odds(0.35):
        wording = writer.pick(writer.lists.act_frames[frame])
    gathering.add_dressed(one.text(writer, wording), other.text(writer, wording), kind, same=False)


def _other_request(
    writer: Writer, one: _Request, act: Act, cases: list[Group] | None
) -> tuple[str, _Request]:
    draw = writer.chance.random()
    if draw < 0.30:  # noqa: PLR2004
        other = [writer.pick(act.others)]
        return "act.verb", _Request(one.frame, other, one.thing, one.circumstance)
    if draw < 0.58:  # noqa: PLR2004
        thing = writer.pick([t for t in act.objects if t is not one.thing])
        return "act.object", _Request(one.frame, one.verbs, thing, one.circumstance)
    if draw < 0.75:  # noqa: PLR2004
        if cases is None:
            case = writer.pick(writer.pick(writer.lists.circumstances))
        else:
            case = writer.pick([c for c in cases if c is not one.circumstance] + [None])
        return "act.circumstance", _Request(one.frame, one.verbs, one.thing, case)
    frames = [f for f in writer.lists.act_frames if _differ(f, one.frame)]
    frame = writer.pick(frames) if writer.odds(0.72) else "stray"
    return "act.question", _Request(frame, one.verbs, one.thing, one.circumstance)


def _differ(one: str, other: str) -> bool:
    return one != other and {one, other} not in _NEAR_QUESTIONS


def add_thing(gathering: Gathering) -> None:
    """Add a pair that asks for a property of a thing."""
    writer, lists = gathering.writer, gathering.writer.lists
    kind = writer.pick([*lists.thing_frames])
    frames = lists.thing_frames[kind]
    slot = "{y}" if "{y}" in frames[0] else "{x}"
    things = lists.possessions if slot == "{y}" else lists.things
    thing, (first, second) = writer.pick(things), writer.chance.sample(frames, 2)
    one = first.replace(slot, thing)
    draw = writer.chance.random()
    if draw < _SHARE_SAME:
        gathering.add_dressed(one, second.replace(slot, thing), "thing", same=True)
    elif draw < 0.75:  # noqa: PLR2004
        at = things.index(thing) + 1
        near = at < len(things) and writer.odds(0.6)
        other = things[at] if near else writer.pick([t for t in things if t != thing])
        frame = writer.pick([first, second])
        gathering.add_dressed(one, frame.replace(slot, other), "thing.other", same=False)
    else:
        kinds = [k for k, f in lists.thing_frames.items() if slot in f[0] and _differ(k, kind)]
        frame = writer.pick(lists.thing_frames[writer.pick(kinds)])
        gathering.add_dressed(one, frame.replace(slot, thing), "thing.property", same=False)


def add_entity(gathering: Gathering) -> None:
    """Add a pair that asks something about a country, a person, a language."""
    writer, lists = gathering.writer, gathering.writer.lists
    frame = writer.pick(lists.relations)
    places = lists.places[frame.places]
    place, (first, second) = writer.pick(places), writer.chance.sample(frame.wordings, 2)
    one = first.replace("{x}", place)
    draw = writer.chance.random()
    others = [f for f in lists.relations if f.places == frame.places and f is not frame]
    if draw < _SHARE_SAME:
        gathering.add_dressed(one, second.replace("{x}", place), "entity", same=True)
    elif draw < 0.86 or not others:  # noqa: PLR2004
        other = writer.pick([p for p in places if p != place])
        wording = writer.pick([first, second])
        gathering.add_dressed(one, wording.replace("{x}", other), "entity.other", same=False)
    else:
        wording = writer.pick(writer.pick(others).wordings)
        gathering.add_dressed(one, wording.replace("{x}", place), "entity.property", same=False)


def add_two(gathering: Gathering) -> None:
    """Add a pair about two entities, whose order may count."""
    writer = gathering.writer
    frame = writer.pick(writer.lists.two)
    places = writer.lists.places[frame.places]
    one, other, third = writer.chance.sample(places, 3)
    first, second = writer.chance.sample(frame.wordings, 2)
    text = _filled(first, one, other)
    draw = writer.chance.random()
    if draw < 0.3:  # noqa: PLR2004
        gathering.add_dressed(text, _filled(second, one, other), "two", same=True)
    elif draw < 0.65:  # noqa: PLR2004
        wording = writer.pick([first, second])
        same = frame.symmetric
        gathering.add_dressed(text, _filled(wording, other, one), "two.swapped", same=same)
    elif draw < 0.8 and frame.reverse:  # noqa: PLR2004
        same = writer.odds(0.5)
        turned = (other, one) if same else (one, other)
        gathering.add_dressed(text, _filled(frame.reverse, *turned), "two.reverse", same=same)
    else:
        wording = writer.pick([first, second])
        turned = writer.pick([(one, third), (third, other)])
        gathering.add_dressed(text, _filled(wording, *turned), "two.other", same=False)


def _filled(wording: str, one: str, other: str) -> str:
    return wording.replace("{x}", one).replace("{y}", other)


def add_number(gathering: Gathering) -> None:
    """Add a pair about a number."""
    writer = gathering.writer
    frame = writer.pick(writer.lists.numbers)
    first, second = writer.chance.sample(frame, 2)
    slot = "{N}" if "{N}" in first else "{n}"
    digits = writer.chance.randrange(2, 6) if slot == "{N}" else writer.pick([1, 2, 2])
    year = any(f"{century}{slot}" in first for century in ("19", "20"))
    digits = 2 if year else digits
    old = str(writer.chance.randrange(10 ** (digits - 1) + 1, 10**digits))
    if writer.odds(_SHARE_SAME):
        one, other = first.replace(slot, old), second.replace(slot, old)
        gathering.add_dressed(one, other, "number", same=True)
        return
    edit = digits_swapped if writer.odds(0.3) else number
    new = edit(writer, old) or str(int(old) + 1)
    wording = writer.pick([first, second])
    gathering.add_dressed(
        first.replace(slot, old),
        wording.replace(slot, new[-2:] if year else new),
        "number.other",
        same=False,
    )
