"""Laws of request bodies."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.core.errors import RequestError
from stepwell.wire.body import dump_body, parse_body

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)
BODIES = st.dictionaries(st.text(), VALUES, max_size=6)


@settings(deadline=None)
@given(BODIES, st.booleans(), st.sampled_from([None, 1]))
def test_what_python_writes_is_read_exactly(
    body: dict[str, Any],
    ensure_ascii: bool,  # noqa: FBT001  (hypothesis passes it by position)
    indent: int | None,
) -> None:
    """Any object, escaped or not and with white space or not, is read as it was meant."""
    raw = json.dumps(body, ensure_ascii=ensure_ascii, indent=indent).encode()
    assert repr(parse_body(raw)) == repr(body)


@settings(deadline=None)
@given(BODIES)
def test_what_is_sent_is_what_was_read(body: dict[str, Any]) -> None:
    """Writing a body and reading it gives the same body, number types and key order included."""
    assert repr(parse_body(dump_body(body))) == repr(body)


@settings(deadline=None)
@given(BODIES.filter(bool), st.data())
def test_a_repeated_key_is_always_found(body: dict[str, Any], data: st.DataObject) -> None:
    """A member that is said again, anywhere in the object, makes the body no request."""
    members = [f"{json.dumps(key)}:{json.dumps(value)}" for key, value in body.items()]
    again = data.draw(st.sampled_from(members))
    members.insert(data.draw(st.integers(0, len(members))), again)
    raw = ('{"outer":{' + ",".join(members) + "}}").encode()
    try:
        parse_body(raw)
    except RequestError as error:
        assert "given twice" in str(error)  # noqa: PT017  (pytest.raises is slow in a loop)
    else:
        raise AssertionError(raw)


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text('{}[]",:\\ud8c01e9 -', max_size=60).map(str.encode))
def test_rubbish_is_refused_or_read(raw: bytes) -> None:
    """Whatever the bytes, there is a body or a `RequestError`; never another error."""
    try:
        body = parse_body(raw)
    except RequestError:
        return
    assert body == json.loads(raw)
