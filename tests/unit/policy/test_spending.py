"""How much may be spent in a minute."""

from hypothesis import given
from hypothesis import strategies as st

from stepwell.policy.spending import Spending


def test_fills_evenly_up_to_a_minutes_worth() -> None:
    purse = Spending(60)
    assert purse.take(60, 0.0)
    assert not purse.take(1, 0.5)
    assert purse.take(1, 1.5)
    assert purse.take(60, 1_000.0)
    assert not purse.take(1, 1_000.0)
    assert not purse.take(61, 5_000.0)


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 50)), max_size=40))
def test_never_more_than_it_had_and_what_came_in(spends: list[tuple[float, float]]) -> None:
    purse, now, spent = Spending(30), 0.0, 0.0
    for after, amount in spends:
        now += after
        spent += amount if purse.take(amount, now) else 0.0
        assert spent <= 30 + now / 2 + 1e-6
