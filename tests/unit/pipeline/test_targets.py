"""Which model server answers for which model."""

import pytest
from support.walk import HandUpstream

from stepwell.core.errors import RequestError
from stepwell.keys.cache_key import KeyScheme
from stepwell.pipeline.targets import Target, Targets


def target(*models: str) -> Target:
    """Return a model server that has these models."""
    return Target(HandUpstream(), KeyScheme("upstream"), models)


SMALL, LARGE = target("small", "tiny-*"), target("*-large", "t?ny")
BOTH = Targets([SMALL, LARGE])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("small", SMALL),
        ("tiny-1", SMALL),
        ("tiny-large", SMALL),
        ("very-large", LARGE),
        ("tony", LARGE),
    ],
)
def test_the_first_that_fits_answers(model: str, expected: Target) -> None:
    """In the order of the settings, by patterns as `fnmatch` has them."""
    assert BOTH.for_model(model) is expected


@pytest.mark.parametrize("model", ["SMALL", "smaller", "large", ""])
def test_a_model_that_nobody_has(model: str) -> None:
    """404 as OpenAI says it; case counts."""
    with pytest.raises(RequestError) as caught:
        BOTH.for_model(model)
    error = caught.value
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")


def test_they_keep_their_order() -> None:
    """As they were given."""
    assert list(BOTH) == [SMALL, LARGE]
