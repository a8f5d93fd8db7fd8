"""Quoted and fenced text matches to the letter."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.literal import MAX_UNQUOTED, literal
from stepwell.semantic.valve.reading import read

SAME = [
    ('What does "ETA" mean?', "What is the meaning of “ETA”?"),
    ('What does "ETA" mean?', "What does ETA mean?"),
    ("How does `map` work?", "How does map work?"),
    ("《红楼梦》的作者是谁", "红楼梦的作者是谁"),
    ("“内卷”是什么意思", "「内卷」的意思是什么"),
    ("Fix this:\n```\nx = 1\n```", "Please repair\n~~~\nx = 1\n~~~"),
    ("`a` is faster than `b` by how much?", "What makes `b` slow when set against `a`?"),
    ("The dogs' bowl", "The cats' bowl"),
    ("plain", "text"),
    ("What does a === b do?", "What is a === b?"),
    ("What does == do?", "What does the double equals sign do?"),
    ("What does Ctrl+Z do?", "what does ctrl-z do"),
    ("A - what is it? B + C", "A: what is it? B and C"),
    ("Is C++ faster - or Rust?", "Is C++ or Rust faster?"),
    ("正则 \\s 匹配什么", "\\s 在正则里匹配什么"),
]

OTHER = [
    ('What does "ETA" mean?', 'What does "ETD" mean?'),
    ('What does "ETA" mean?', 'What does "eta" mean?'),
    ('What does "ETA" mean?', "What does ETD mean?"),
    ('What does "art" mean?', "What does party mean?"),
    ("《红楼梦》的作者是谁", "《西游记》的作者是谁"),
    ("Fix this:\n```\nx = 1\n```", "Fix this:\n```\nx = 2\n```"),
    ('Replace "a" with "b"', 'Replace "b" with "a"'),
    ("Say 'yes' now", "Say 'no' now"),
    ('What is 2 * "3"?', 'What is 2 + "3"?'),
    ("What does Ctrl+Z do?", "What does Ctrl+Y do?"),
    ("What does i++ return?", "What does ++i return?"),
    ("快捷键 Ctrl+Z 是什么", "快捷键 Ctrl+Y 是什么"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same(one: str, other: str) -> None:
    """Other marks, or none, make no difference as long as the words stand there."""
    assert literal(read(one), read(other)) is None
    assert literal(read(other), read(one)) is None


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other(one: str, other: str) -> None:
    """One letter does."""
    found, turned = literal(read(one), read(other)), literal(read(other), read(one))
    assert found is not None
    assert found.kind is Kind.LITERAL
    assert turned is not None
    assert (turned.asked, turned.stored) == (found.stored, found.asked)


def test_many_spans() -> None:
    """Spans are looked for up to a limit, so that a text of nothing else costs little."""
    words = [f"w{n}x" for n in range(MAX_UNQUOTED + 1)]
    quoted = " ".join(f'"{word}"' for word in words)
    plain = " ".join(words)
    assert literal(read(quoted), read(plain)) is not None
    assert literal(read(" ".join(quoted.split()[1:])), read(plain)) is None
