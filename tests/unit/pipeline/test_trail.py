"""What the layers said, in words."""

import pytest

from stepwell.core.names import LayerName, Tier
from stepwell.core.outcome import Bypass, Hit, Miss, Outcome, Stale, StaleReason
from stepwell.pipeline.trail import say
from stepwell.testing.entries import make_entry


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Hit(make_entry(), LayerName.EXACT, Tier.DISK), "exact: hit in disk"),
        (
            Stale(make_entry(), LayerName.EXACT, Tier.MEMORY, StaleReason.SOURCE_MOVED),
            "exact: stale in memory, source-moved",
        ),
        (Miss(LayerName.EXACT), "exact: miss"),
        (Miss(LayerName.EXACT, "no usage"), "exact: miss, no usage"),
        (
            Miss(
                LayerName.SEMANTIC,
                withheld=Hit(make_entry(), LayerName.SEMANTIC, Tier.DISK, 0.9531),
            ),
            "semantic: would hit, 0.953 alike (shadow)",
        ),
        (Bypass("no API key"), "bypass: no API key"),
    ],
)
def test_every_outcome_has_words(outcome: Outcome, words: str) -> None:
    """Short, the same every time, and nothing of the request in it."""
    assert say(outcome) == words
