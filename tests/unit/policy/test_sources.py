"""Freshness markers: what an answer is stamped with, and when a source has moved."""

import pytest

from stepwell.core.entry import SourceValue
from stepwell.core.names import LayerName
from stepwell.policy.classes import RequestClass
from stepwell.policy.sources import has_moved, stamp
from stepwell.testing.entries import make_entry

PLAIN = RequestClass("plain", (LayerName.EXACT,), 60)
FAQ = RequestClass("faq", (LayerName.EXACT,), 60, sources=("last_updated",))


def sources(**values: str) -> tuple[SourceValue, ...]:
    """Return source values by name."""
    return tuple(SourceValue(name, value) for name, value in values.items())


@pytest.mark.parametrize(
    ("given", "current", "expected"),
    [
        ({}, {}, {"last_updated": ""}),
        ({}, {"last_updated": "v2"}, {"last_updated": "v2"}),
        ({"last_updated": "v1"}, {}, {"last_updated": "v1"}),
        ({"last_updated": "v1"}, {"last_updated": "v2"}, {"last_updated": "v1"}),
        ({"last_updated": ""}, {"last_updated": "v2"}, {"last_updated": "v2"}),
        ({"commit": "c"}, {"last_updated": "v2"}, {"commit": "c", "last_updated": "v2"}),
        ({}, {"other": "x"}, {"last_updated": ""}),
    ],
)
def test_stamp(given: dict[str, str], current: dict[str, str], expected: dict[str, str]) -> None:
    """An answer carries the class's and the request's sources; a stated value counts first."""
    assert stamp(FAQ, sources(**given), current.get) == sources(**expected)


@pytest.mark.parametrize(
    ("made_under", "given", "current", "moved"),
    [
        # Nobody has said anything, then or now.
        ({}, {}, {}, False),
        ({"last_updated": ""}, {}, {}, False),
        # Set for the namespace.
        ({"last_updated": "v1"}, {}, {"last_updated": "v1"}, False),
        ({"last_updated": "v1"}, {}, {"last_updated": "v2"}, True),
        # The first value there ever was makes everything made before it stale.
        ({"last_updated": ""}, {}, {"last_updated": "v1"}, True),
        # Filled before the class named the source.
        ({}, {}, {"last_updated": "v1"}, True),
        # Stated by the request.
        ({"last_updated": "v1"}, {"last_updated": "v1"}, {}, False),
        ({"last_updated": "v1"}, {"last_updated": "v2"}, {}, True),
        # Made for a caller who knew a value; this one knows none, and none was set.
        ({"last_updated": "v1"}, {}, {}, True),
        # Both: the entry must agree with both.
        ({"last_updated": "v1"}, {"last_updated": "v1"}, {"last_updated": "v2"}, True),
        ({"last_updated": "v2"}, {"last_updated": "v1"}, {"last_updated": "v2"}, True),
        ({"last_updated": "v2"}, {"last_updated": "v2"}, {"last_updated": "v2"}, False),
        # The empty value is no value, stated or set.
        ({"last_updated": "v1"}, {"last_updated": ""}, {"last_updated": "v1"}, False),
        ({"last_updated": "v1"}, {"last_updated": "v1"}, {"last_updated": ""}, False),
        # Sources the class does not name.
        ({"last_updated": "", "commit": "c"}, {}, {"commit": "c"}, False),
        ({"last_updated": "", "commit": "c"}, {}, {"commit": "d"}, True),
        ({"last_updated": ""}, {"commit": "c"}, {}, True),
    ],
)
def test_has_moved(
    made_under: dict[str, str], given: dict[str, str], current: dict[str, str], *, moved: bool
) -> None:
    """A source has moved unless the entry was made under every value that is known now."""
    entry = make_entry(sources=sources(**made_under))
    assert has_moved(entry, FAQ, sources(**given), current.get) is moved


def test_source_of_an_entry_counts_whatever_the_class() -> None:
    """An entry keeps its sources when it is asked for under a class without any."""
    entry = make_entry(sources=sources(last_updated="v1"))
    assert has_moved(entry, PLAIN, (), {"last_updated": "v2"}.get)


def test_entry_that_depends_on_nothing_never_moves() -> None:
    """Without sources anywhere, values of other people's sources do not matter."""
    assert not has_moved(make_entry(), PLAIN, (), {"last_updated": "v2"}.get)
