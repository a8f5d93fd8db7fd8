"""What was foretold against what is reported."""

from stepwell.prefix.placement.foretold import Foretold, FoundAgain, Impossible, SilentZero
from stepwell.prefix.placement.replicas import ReplicaName

A, B = ReplicaName("a"), ReplicaName("b")


def note(foretold: Foretold, reported: int, *, said: int = 500, to: ReplicaName = A) -> object:
    return foretold.note(to, prompt_tokens=600, foretold_tokens=said, reported_tokens=reported)


def test_sums() -> None:
    """Shares are of tokens, over all requests of a replica."""
    foretold = Foretold()
    note(foretold, 500)
    note(foretold, 250)
    note(foretold, 600, said=0)
    sums = foretold.agreement(A)
    assert (sums.requests, sums.prompt_tokens) == (3, 1800)
    assert (sums.foretold_tokens, sums.reported_tokens, sums.met_tokens) == (1000, 1350, 750)
    assert (sums.cached_share, sums.met_share) == (0.75, 0.75)


def test_before_the_first_report() -> None:
    """Nothing was cached, and nothing that was foretold failed."""
    sums = Foretold().agreement(A)
    assert (sums.cached_share, sums.met_share) == (0.0, 1.0)


def test_silence_is_said_once() -> None:
    """After so many zeros in a row, and again only when it has begun anew."""
    foretold = Foretold(zero_reports=3)
    assert [note(foretold, 0) for _ in range(5)] == [
        None, None, SilentZero(A, 3, 1500), None, None,
    ]  # fmt: skip
    assert note(foretold, 16) == FoundAgain(A)
    assert [note(foretold, 0) for _ in range(3)][-1] == SilentZero(A, 3, 1500)


def test_silence_needs_certainty_and_a_row() -> None:
    """Zeros where little was foretold do not count; one report of more breaks the row."""
    foretold = Foretold(zero_reports=2)
    assert [note(foretold, 0, said=100) for _ in range(9)] == [None] * 9
    assert [note(foretold, one) for one in (0, 16, 0, 16)] == [None] * 4
    assert [note(foretold, 0), note(foretold, 0, to=B)] == [None, None]


def test_more_than_the_prompt() -> None:
    """Capped, and said once."""
    foretold = Foretold()
    assert note(foretold, 1200) == Impossible(A, 1200, 600)
    assert note(foretold, 1300) is None
    assert foretold.agreement(A).reported_tokens == 1200
    assert note(foretold, -5, to=B) is None
    assert foretold.agreement(B).reported_tokens == 0


def test_forget() -> None:
    """A replica that restarts begins with a clean sheet, and may be complained of anew."""
    foretold = Foretold(zero_reports=1)
    assert note(foretold, 0) is not None
    foretold.forget(A)
    foretold.forget(B)
    assert foretold.agreement(A).requests == 0
    assert note(foretold, 0) is not None


def test_remarks_say_what_to_look_at() -> None:
    """They name the replica and the figures."""
    assert "replica a" in str(SilentZero(A, 3, 1500))
    assert "1500" in str(SilentZero(A, 3, 1500))
    assert "again" in str(FoundAgain(A))
    assert "1200 cached tokens of a prompt of 600" in str(Impossible(A, 1200, 600))
