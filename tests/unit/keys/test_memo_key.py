"""Keys of what a program keeps for itself."""

from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.names import Namespace
from stepwell.keys.memo_key import memo_key

OWNER, OTHER = Namespace(bytes(15) + b"a"), Namespace(bytes(15) + b"b")

texts = st.text(st.sampled_from("ab\0\ud800中"), max_size=3)
named = st.tuples(st.sampled_from([OWNER, OTHER]), texts, st.lists(texts, max_size=3))


@given(named, named)
def test_keys_are_equal_where_all_is(
    one: tuple[Namespace, str, list[str]], other: tuple[Namespace, str, list[str]]
) -> None:
    """However the parts are put together."""
    assert (memo_key(*one) == memo_key(*other)) == (one == other)
