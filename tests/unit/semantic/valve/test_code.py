"""Signs of code in prose: they mean themselves."""

import pytest

from stepwell.semantic.valve.code import code
from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.valve import difference

DIFFERENT = [
    ("What is x === y in JS?", "What is x == y in JS?"),
    ("When is p && q true?", "When is p || q true?"),
    ("What does sort -r do?", "What does sort -R do?"),
    ("What does a == b do?", "What does a === b do?"),
    ("What is %m in a date?", "What is %M in a date?"),
    ("Does [a-f]+ match here?", "Does [A-F]+ match here?"),
    ("What is sort -r?", "What is sort -R?"),
    ("What does :w do in vi?", "What does :q do in vi?"),
    ("How do I use > in a shell?", "How do I use >> in a shell?"),
    (r"What does \s match?", r"What does \S match?"),
    ("What does .* match?", "What does .+ match?"),
    ("Does the regex ^b match?", "Does the regex b$ match?"),
    ("What is [3, 4] in Lua?", "What is {3, 4} in Lua?"),
    ("What is [3,4] in Python?", "What is (3,4) in Python?"),
    ("When do I write <th> in a table?", "When do I write <td> in a table?"),
    ("What does the selector #menu match?", "What does the selector .menu match?"),
    ("What does *rest mean in Python?", "What does **rest mean in Python?"),
    ("What does chmod +w do?", "What does chmod -w do?"),
    ("Solve y + 2 = 9", "Solve y - 2 = 9"),
    ("What does & do in Go?", "What does * do in Go?"),
    ("What does n++ print?", "What does n print?"),
    ("What does the ? operator do?", "What does the !! operator do?"),
    ("What does D do in vim?", "What does d do in vim?"),
    ("==和===的区别", "=和==的区别"),
]

ALIKE = [
    ("Pros & cons of rice", "Pros and cons of rice"),
    ("Read/write speed of a disk", "Read and write speed of a disk"),
    ("Is it true - really?", "Is it true, really?"),
    ("**Urgent**: reset my router", "Urgent: reset my router"),
    ("- reset my router", "reset my router"),
    ("How do I boil rice??", "How do I boil rice?"),
    ("I can't log in :(", "I can't log in"),
    ("Solve y+2=9", "Solve y + 2 = 9"),
    ("What does && mean?", "What is the meaning of the and operator?"),
    ("IS TEA HEALTHY", "is tea healthy"),
    ("Is vitamin C good?", "Is vitamin c good?"),
    ("What is <b> for?", "What is <B> for?"),
    ("Dear [name], thanks", "Dear name, thanks"),
    ("What is == and what is =?", "What is = and what is ==?"),
    ("天空为什么是蓝色的？？", "天空为什么是蓝色的"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_signs_of_code_differ(one: str, other: str) -> None:
    """Both ways round, and the valve asks for them."""
    for asked, stored in ((one, other), (other, one)):
        found = code(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.LITERAL
        assert found.asked != found.stored
        assert difference(read(asked), read(stored)) is not None


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_signs_of_prose_do_not(one: str, other: str) -> None:
    """Nor when asked the other way round."""
    assert code(read(one), read(other)) is None
    assert code(read(other), read(one)) is None


def test_hostile_signs_are_read_in_bounded_time() -> None:
    """Many signs are as many signs."""
    for text in ("[" * 20_000, "*" * 20_000, "* a" * 6_000, "(1," * 6_000, "<a" * 9_000):
        assert code(read(text), read(text)) is None
