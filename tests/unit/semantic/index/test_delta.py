"""The points of one worker in memory."""

import numpy as np
import pytest
from support.points import (
    DIMENSIONS,
    make_group,
    make_id,
    make_near,
    make_point,
    make_vectors,
)

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Position
from stepwell.semantic.index.delta import Delta

VECTORS = make_vectors(100)


@pytest.fixture
def delta() -> Delta:
    """An empty one."""
    return Delta(DIMENSIONS)


def names(
    delta: Delta, row: int, k: int = 1, now: float = 0.0, partition: str = "partition"
) -> set[str]:
    """Return what is found near one of the vectors."""
    near = delta.nearest(make_id(partition), VECTORS[row], k, now)
    return {point.text.removeprefix("text of ") for _, point in near}


def fill(delta: Delta, count: int) -> None:
    """Put points named by their number, which expire in order."""
    for number in range(count):
        delta.put(make_point(str(number), expires_at=100.0 + number), VECTORS[number])


def test_the_nearest_are_found(delta: Delta) -> None:
    """With their cosines."""
    fill(delta, 100)
    query = make_near(VECTORS[:1], 0.9)[0]
    near = delta.nearest(make_id("partition"), query, 3, 0.0)
    expected = sorted((VECTORS @ query).tolist(), reverse=True)[:3]
    assert sorted((cosine for cosine, _ in near), reverse=True) == pytest.approx(expected)
    assert max(near, key=lambda found: found[0])[1].text == "text of 0"


def test_partitions_are_apart(delta: Delta) -> None:
    """The same vector elsewhere is not found."""
    delta.put(make_point("here", partition="a"), VECTORS[0])
    delta.put(make_point("there", partition="b"), VECTORS[0])
    assert names(delta, 0, k=9, partition="a") == {"here"}
    assert names(delta, 0, k=9, partition="c") == set()


def test_a_point_replaces_that_of_its_key(delta: Delta) -> None:
    """Also one in another partition."""
    delta.put(make_point("a", partition="a"), VECTORS[0])
    delta.put(make_point("a", partition="b"), VECTORS[1])
    assert len(delta) == 1
    assert names(delta, 0, partition="a") == set()
    assert names(delta, 0, partition="b") == {"a"}


def test_expired_points_do_not_match(delta: Delta) -> None:
    """Nor do they take the place of others; `drop_expired` frees their memory."""
    fill(delta, 10)
    assert names(delta, 0, k=3, now=106.0) == {"7", "8", "9"}
    delta.drop_expired(106.0)
    assert len(delta) == 3


def test_memory_is_given_back(delta: Delta) -> None:
    """All of it, when all points are gone; and a block does not keep more dead rows than live."""
    fill(delta, 100)
    for number in range(90):
        assert delta.discard(CacheKey(make_id(str(number))))
    assert delta.size_of(make_id("partition")) < 25
    assert names(delta, 95) == {"95"}
    for number in range(90, 100):
        delta.discard(CacheKey(make_id(str(number))))
    assert (len(delta), delta.size_bytes, delta.size_of(make_id("partition"))) == (0, 0, 0)
    assert not delta.discard(CacheKey(make_id("0")))


def test_a_search_that_is_under_way_is_not_disturbed(delta: Delta) -> None:
    """Rows handed out stay as they are, whatever becomes of their points."""
    fill(delta, 50)
    rows = delta.rows()
    for number in range(50):
        delta.discard(CacheKey(make_id(str(number))))
    fill(delta, 20)
    for number, (point, vectors, row) in enumerate(rows):
        assert point.text == f"text of {number}"
        assert np.array_equal(vectors[row], VECTORS[number])


def test_the_next_to_expire_leaves_first(delta: Delta) -> None:
    """By its present expiry, not by an earlier one; to the minute."""
    for number in range(3):
        delta.put(make_point(str(number), expires_at=100.0 * number), VECTORS[number])
    delta.put(make_point("0", expires_at=500.0), VECTORS[0])
    delta.drop_first_to_expire()
    assert names(delta, 0, k=9) == {"0", "2"}
    assert [point.expires_at for point in delta.first_to_expire(1)] == [200.0]
    delta.drop_first_to_expire()
    delta.drop_first_to_expire()
    delta.drop_first_to_expire()
    assert len(delta) == 0


def test_a_large_partition(delta: Delta) -> None:
    """Is scanned whole, and the blocks it is kept in are packed one by one."""
    vectors = make_vectors(6_000, seed=7)
    for number, vector in enumerate(vectors):
        delta.put(make_point(str(number)), vector)
    for number in range(0, 3_000, 2):
        delta.discard(CacheKey(make_id(str(number))))
    for number in range(1_500):
        delta.discard(CacheKey(make_id(str(number))))
    assert len(delta) == 3_750
    assert delta.size_of(make_id("partition")) < 6_000
    for number in (1_501, 2_777, 2_999, 3_000, 5_999):
        (cosine, point), *_ = delta.nearest(make_id("partition"), vectors[number], 5, 0.0)
        assert point.text == f"text of {number}"
        assert cosine == pytest.approx(1.0)


def test_what_has_expired_takes_no_place_in_a_large_partition(delta: Delta) -> None:
    """The nearest of what is left are found, best first, whichever blocks they are in."""
    vectors = make_vectors(6_000, seed=7)
    for number, vector in enumerate(vectors):
        delta.put(make_point(str(number), expires_at=float(number % 3)), vector)
    near = delta.nearest(make_id("partition"), VECTORS[0], 10, now=1.0)
    live = [(cosine, n) for n, cosine in enumerate((vectors @ VECTORS[0]).tolist()) if n % 3 == 2]
    best = sorted(live, reverse=True)[:10]
    assert [point.text for _, point in near] == [f"text of {number}" for _, number in best]
    assert [cosine for cosine, _ in near] == pytest.approx([cosine for cosine, _ in best])


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        (Selector(), {"late"}),
        (Selector(key=CacheKey(make_id("red"))), {"plain", "other", "late"}),
        (Selector(tag="red"), {"plain", "other", "late"}),
        (Selector(model="large"), {"red", "plain", "late"}),
        (Selector(namespace=make_group(7).namespace), {"red", "plain", "late"}),
        (Selector(request_class="facts"), {"red", "plain", "late"}),
        (Selector(tag="red", model="large"), {"red", "plain", "other", "late"}),
    ],
)
def test_what_a_selector_means(delta: Delta, selector: Selector, left: set[str]) -> None:
    """Every field given must match, and the point must be from before the change."""
    delta.put(make_point("red", tags=("blue", "red")), VECTORS[0])
    delta.put(make_point("plain"), VECTORS[1])
    delta.put(make_point("other", group=make_group(7, "large", "facts")), VECTORS[2])
    delta.put(make_point("late", position=5, tags=("red",)), VECTORS[3])
    removed = delta.remove_where(selector, Position(5))
    assert names(delta, 0, k=9) == left
    assert len(removed) == 4 - len(left)
