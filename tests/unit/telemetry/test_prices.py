"""Price tables."""

import pytest

from stepwell.core.entry import Usage
from stepwell.core.errors import ConfigError
from stepwell.telemetry.prices import ModelPrice, Prices

CHEAP = ModelPrice(0.15, 0.60)
DEAR = ModelPrice(3.0, 15.0)


def test_price_of_usage() -> None:
    """Prices are per million tokens, prompt and completion apart."""
    assert DEAR.of(Usage(1_000_000, 2_000_000)) == 33.0


def test_what_was_cached_is_cheaper_where_a_price_says_so() -> None:
    """Without such a price, and where the server does not say, all of a prompt costs the same."""
    cheaper = ModelPrice(3.0, 15.0, 0.5)
    assert cheaper.of(Usage(2_000_000, 0, 1_000_000)) == 3.5
    assert cheaper.of(Usage(2_000_000, 0, None)) == 6.0
    assert DEAR.of(Usage(2_000_000, 0, 1_000_000)) == 6.0
    assert ModelPrice(3.0, 15.0, 0.0).of(Usage(1_000_000, 0, 1_000_000)) == 0.0


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("small-1", CHEAP),
        ("small-large", DEAR),
        ("large-7b", DEAR),
        ("Small-1", None),
        ("xsmall-1", None),
        ("", None),
    ],
)
def test_which_price(model: str, expected: ModelPrice | None) -> None:
    """A plain name beats patterns, the first pattern counts, and case is part of a name."""
    prices = Prices("USD", {"small-*": CHEAP, "small-large": DEAR, "large-[0-9]b": DEAR})
    assert prices.of(model) == expected


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_impossible_prices(value: float) -> None:
    """A price that is no price is refused with its place and value."""
    with pytest.raises(ConfigError, match=rf"prices\.m\.output_per_million is {value}"):
        Prices("USD", {"m": ModelPrice(1.0, value)})
    with pytest.raises(ConfigError, match=rf"prices\.m\.cached_input_per_million is {value}"):
        Prices("USD", {"m": ModelPrice(1.0, 1.0, value)})
