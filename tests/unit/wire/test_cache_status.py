"""The Cache-Status field, character by character."""

import pytest

from stepwell.wire.cache_status import Forward, forward_status, hit_status


def test_contract() -> None:
    """These three values are promised to clients."""
    assert hit_status(3599, detail="exact") == "stepwell; hit; ttl=3599; detail=exact"
    assert forward_status(Forward.MISS, stored=True) == "stepwell; fwd=miss; stored"
    assert forward_status(Forward.MISS, collapsed=True) == "stepwell; fwd=miss; collapsed"


@pytest.mark.parametrize("reason", list(Forward))
def test_reasons(reason: Forward) -> None:
    """The reason is one of RFC 9211's tokens."""
    assert forward_status(reason) == f"stepwell; fwd={reason.value}"


def test_everything() -> None:
    """All parameters have their place."""
    field = forward_status(
        Forward.STALE, status=503, stored=True, collapsed=True, detail="a b", key="k"
    )
    assert field == 'stepwell; fwd=stale; fwd-status=503; stored; collapsed; key="k"; detail="a b"'


def test_stale_hit() -> None:
    """An answer served past its time has a negative ttl."""
    assert hit_status(-30, key="ab12") == 'stepwell; hit; ttl=-30; key="ab12"'


@pytest.mark.parametrize(
    ("detail", "written"),
    [
        ("no-key", "no-key"),
        ("*any/where:x", "*any/where:x"),
        ("no key", '"no key"'),
        ("0.96", '"0.96"'),
        ("", '""'),
        ('say "hi" \\ bye', r'"say \"hi\" \\ bye"'),
        ("数字 15\r\nX: y", '"?? 15??X: y"'),
    ],
)
def test_detail(detail: str, written: str) -> None:
    """A detail is a token if it can be, else a string; nothing in it can end the field."""
    assert (
        forward_status(Forward.BYPASS, detail=detail) == f"stepwell; fwd=bypass; detail={written}"
    )
