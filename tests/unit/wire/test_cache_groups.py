"""Groups as RFC 9875 has them, in the syntax of RFC 9651."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.wire.cache_groups import (
    GROUPS,
    MAX_GROUPS,
    TooManyGroups,
    UnreadableGroups,
    field_of,
    read_groups,
    write_groups,
)

STRINGS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=128)


@pytest.mark.parametrize(
    ("field", "groups"),
    [
        ("", ()),
        ('"a"', ("a",)),
        ('"a", "b"', ("a", "b")),
        ('"b";x=1;y, "a";z="?"', ("b", "a")),
        ('"a" ,\t"A", "a"', ("a", "A")),
        (r'"say \"no\" \\ here", ""', (r'say "no" \ here', "")),
    ],
)
def test_a_list_of_strings(field: str, groups: tuple[str, ...]) -> None:
    """Each once; parameters mean nothing; case does."""
    assert read_groups(field) == groups


@pytest.mark.parametrize(
    "field",
    [
        "a",
        '"a", b',
        '"a",',
        '"a" "b"',
        '"a',
        r'"\a"',
        '("a" "b")',
        ":YQ==:",
        "1",
        "?1",
        '"é"',
        "@1",
    ],
)
def test_anything_else_is_not_read(field: str) -> None:
    """Not even in part: a list that is wrong somewhere says nothing (RFC 9651, 4.2)."""
    with pytest.raises(UnreadableGroups):
        read_groups(field)


def test_what_the_rfc_demands_is_kept() -> None:
    """32 groups of 32 characters, and here of 128; one more, or one longer, is too many."""
    for length in (32, 128):
        groups = tuple(f"{number:0{length}}" for number in range(MAX_GROUPS))
        assert read_groups(write_groups(groups)) == groups
    for much in (("x" * 129,), tuple(map(str, range(33))), ("x" * 20_000,)):
        with pytest.raises(TooManyGroups):
            read_groups(write_groups(much))


@given(st.lists(STRINGS, max_size=MAX_GROUPS, unique=True))
def test_what_is_written_is_read(groups: list[str]) -> None:
    """Whatever ASCII can say."""
    assert read_groups(write_groups(groups)) == tuple(groups)


def test_what_ascii_cannot_say_is_left_out() -> None:
    """The rest is said; if nothing is left, there is no field."""
    assert write_groups(("faq", "天气", "a\nb")) == '"faq"'
    assert write_groups(("天气",)) == ""


def test_lines_of_one_name_are_one_list() -> None:
    """As RFC 9651, 4.2, joins them."""
    headers = ((GROUPS, '"a"'), ("x", "y"), (GROUPS, '"b"'))
    assert field_of(headers, GROUPS) == '"a", "b"'
    assert field_of(headers, "none") == ""
