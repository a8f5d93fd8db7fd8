"""A text is cut into words and literal spans, whatever it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.semantic.valve.reading import Reading, Script, read


def written(text: str) -> list[str]:
    return [word.written for word in read(text).words]


def of_script(text: str, script: Script) -> list[str]:
    return [word.text for word in read(text).words if word.script is script]


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ('What does "ETA" mean?', ("ETA",)),
        ("“ETA”是什么意思", ("ETA",)),
        ("什么是”人工智能“", ("人工智能",)),
        ("解释「画蛇添足」和『守株待兔』", ("画蛇添足", "守株待兔")),
        ("《红楼梦》的作者是谁", ("红楼梦",)),
        ("Say «bonjour» and 'don't stop'", ("bonjour", "don't stop")),
        ("Define ‘irony’ please", ("irony",)),
        ("什么是‘内卷’？", ("内卷",)),
        ("Run `ls -l` now", ("ls -l",)),
        ("Fix this:\n```py\nx = 1\n```\nThanks", ("py\nx = 1",)),
        ('"a" before "b"', ("a", "b")),
        ("The dogs' bowl isn't the cats' one", ()),
        ('A 5" x 7" frame', ()),
        ('Unbalanced " quote', ()),
        ('Empty "" and " " quotes', ()),
        ("", ()),
    ],
)
def test_literals(text: str, literals: tuple[str, ...]) -> None:
    """Quoted and fenced spans are kept without their marks; apostrophes and inches are none."""
    assert read(text).literals == literals


def test_literals_are_blanked() -> None:
    """Nothing of a literal span is left in the prose, nor in its words, until it is opened."""
    reading = read('Is "not ready" a state?')
    assert reading.prose == "Is             a state?"
    assert [word.text for word in reading.words] == ["is", "a", "state", "?"]
    opened = [word.text for word in reading.opened.words]
    assert opened == ["is", '"', "not", "ready", '"', "a", "state", "?"]
    assert reading.opened.literals == ()
    assert reading.opened is reading.opened


def test_open_without_literals() -> None:
    """A text without literal spans is open already."""
    reading = read("plain")
    assert reading.opened is reading


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don’t re‑use", ["don't", "re-use"]),
        ("gpt-4o, GPT-3.5-turbo", ["gpt-4o", ",", "GPT-3.5-turbo"]),
        ("python3.11 v3.12.", ["python3.11", "v3.12", "."]),
        ("1,000.50 or .5", ["1,000.50", "or", ".5"]),
        ("a 5-year-old", ["a", "5", "-", "year-old"]),
        ("order 12-AB", ["order", "12-AB"]),
        ("$5 and 5%", ["$", "5", "and", "5", "%"]),
        ("at 10:30, 7p.m.", ["at", "10:30", ",", "7p", ".", "m", "."]),
        ("AT&T", ["AT&T"]),
        ("in 2010.How", ["in", "2010", ".", "How"]),
        ("2001–2005", ["2001-2005"]),
        ("1½ cups", ["1", "1/2", "cups"]),
        ("10²", ["10", "^", "2"]),
        ("５０％", ["50", "%"]),
        ("5，6", ["5", ",", "6"]),
        ("19：30", ["19:30"]),
        ("snake_case __init__", ["snake_case", "__init__"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    """Words come out whole, in plain characters."""
    assert written(text) == words


@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("Is C++ faster than C#?", ["c++", "c#"]),
        (".NET or node.js", [".net", "node.js"]),
        ("an A+ student", ["a+"]),
        ("See https://example.org/a?b=c.", ["https://example.org/a?b=c"]),
        ("写信给bob.k+x@example.co.uk吧", ["bob.k+x@example.co.uk"]),
        ("open src/a/main.py", ["src/a/main.py"]),
        ("read /etc/hosts, ~/notes", ["/etc/hosts", "~/notes"]),
        ("git push --force -f", ["--force", "-f"]),
        ("I tried.how to go on", []),
        ("and/or 24/7 km/h", []),
    ],
)
def test_identifiers(text: str, identifiers: list[str]) -> None:
    """What a person would copy and paste is one word; a forgotten blank makes none."""
    assert of_script(text, Script.IDENTIFIER) == identifiers


def test_abbreviations() -> None:
    """Dots within an abbreviation are in the written form only."""
    words = read("at 7 p.m. in the U.S.A").words
    assert [(word.text, word.written) for word in words][2:] == [
        ("pm", "p.m."),
        ("in", "in"),
        ("the", "the"),
        ("usa", "U.S.A"),
    ]


def test_chinese() -> None:
    """Chinese is segmented and tagged, and traditional characters are simplified."""
    words = read("我從臺灣飛到北京").words
    assert [word.text for word in words] == ["我", "从", "台湾", "飞", "到", "北京"]
    assert {word.text: word.tag for word in words}["北京"] == "ns"
    assert read("我從臺灣飛到北京").is_chinese
    assert not read("fly to 北京").is_chinese


def test_facts_are_found_once() -> None:
    """What was found of a reading is kept with it."""
    asked: list[str] = []

    def find(reading: Reading) -> int:
        asked.append(reading.text)
        return len(reading.words)

    reading = read("two words")
    assert [reading.fact(find), reading.fact(find)] == [2, 2]
    assert asked == ["two words"]


@given(st.text(st.characters(), max_size=200) | st.text("a1\"'`“「《.-/@+# 一", max_size=60))
def test_any_text(text: str) -> None:
    """Any text can be read, and every word stands where it says."""
    for reading in (read(text), read(text).opened):
        for word in reading.words:
            assert reading.prose[word.start : word.end] == word.written
        assert "".join(word.written for word in reading.words) == "".join(reading.prose.split())


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "a.",
        " ",
        "a\n ",
        "'a",
        " 'a",
        '" ',
        "`",
        "_",
        "a@",
        "/a",
        "「«",
        "1.",
        "中",
        "\ud800",
        "\x00",
        "ﷺ",
    ],
)
def test_long_texts(part: str) -> None:
    """A hundred thousand characters are cut, and are no trouble."""
    assert len(read(part * 100_000).text) == 100_000 * len(part)
    assert read(part * 100_000).prose.count(part[0]) <= 20_000
