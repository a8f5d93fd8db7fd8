"""How busy replicas are."""

from stepwell.prefix.placement.replicas import Loads, ReplicaName

A, B = ReplicaName("a"), ReplicaName("b")


def test_requests_in_flight() -> None:
    """A request counts as one, and more while its prompt is being computed."""
    loads = Loads()
    first, second = loads.begin(A, 2048), loads.begin(A, 0)
    assert (loads.of(A), loads.of(B)) == (4.0, 0.0)
    first.prefilled()
    assert loads.of(A) == 2.0
    second.ended()
    first.ended()
    assert loads.of(A) == 0.0


def test_ends_count_once() -> None:
    """Whatever is said twice, or in another order, the load comes back to zero."""
    loads = Loads()
    work = loads.begin(A, 3)
    work.prefilled()
    work.prefilled()
    work.ended()
    work.ended()
    work.prefilled()
    cancelled = loads.begin(A, -5)
    assert loads.of(A) == 1.0
    cancelled.ended()
    assert loads.of(A) == 0.0
