"""Folding keeps sums and bounds names."""

from stepwell.telemetry.ledger_fold import bound_callers_names
from stepwell.telemetry.series import Series


def tokens(model: str, kind: str = "prompt") -> Series:
    return Series("stepwell_saved_tokens_total", (("kind", kind), ("model", model)))


def test_the_heaviest_names_stay() -> None:
    """The rest is added up under `other`, by what else tells the series apart."""
    bounded = bound_callers_names(
        {
            tokens("a"): 1,
            tokens("b"): 5,
            tokens("b", "completion"): 1,
            tokens("c"): 2,
            tokens("c", "completion"): 3,
            tokens("other"): 10,
            Series("stepwell_stored_total", (("class", "x"),)): 1,
            Series("stepwell_stored_total", (("class", "y"),)): 1,
            Series("stepwell_stored_total", (("class", "z"),)): 1,
        },
        most=2,
    )
    assert bounded == {
        tokens("b"): 5,
        tokens("b", "completion"): 1,
        tokens("c"): 2,
        tokens("c", "completion"): 3,
        tokens("other"): 11,
        Series("stepwell_stored_total", (("class", "x"),)): 1,
        Series("stepwell_stored_total", (("class", "y"),)): 1,
        Series("stepwell_stored_total", (("class", "z"),)): 1,
    }
