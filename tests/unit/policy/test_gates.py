"""Write gates: each refuses what it should, in one fixed order."""

from dataclasses import replace
from typing import Any

import pytest

from stepwell.core.names import LayerName
from stepwell.policy.classes import RequestClass
from stepwell.policy.gates import Gate, refusal, refusal_in_advance
from stepwell.wire.controls import Directives
from stepwell.wire.summary import Summary

CACHED = RequestClass("cached", (LayerName.EXACT,), 60, max_answer_bytes=100)
NEVER = RequestClass("never", (LayerName.EXACT,), 0, max_answer_bytes=100)
GOOD = Summary(complete=True, empty=False, truncated=False, filtered=False, usage=None)

# What makes each gate refuse an answer that is good otherwise.
FAULTS: dict[Gate, dict[str, Any]] = {
    Gate.NO_STORE: {"no_store": True},
    Gate.CLASS_NEVER: {"request_class": NEVER},
    Gate.TTL: {"ttl_seconds": 0.0},
    Gate.STATUS: {"status": 500},
    Gate.INCOMPLETE: {"complete": False},
    Gate.EMPTY: {"empty": True},
    Gate.FILTERED: {"filtered": True},
    Gate.TRUNCATED: {"truncated": True},
    Gate.TOO_LARGE: {"size_bytes": 101},
}


def refused(faults: dict[str, Any]) -> Gate | None:
    """Return what is said about a good answer with ``faults``."""
    of_caller = {k: v for k, v in faults.items() if k in {"no_store", "ttl_seconds"}}
    of_answer = {k: v for k, v in faults.items() if hasattr(GOOD, k)}
    return refusal(
        Directives(**of_caller),
        faults.get("request_class", CACHED),
        faults.get("status", 200),
        replace(GOOD, **of_answer),
        faults.get("size_bytes", 100),
    )


def test_good_answer_is_stored() -> None:
    """A complete, successful answer of the largest size allowed passes every gate."""
    assert refused({}) is None


@pytest.mark.parametrize("gate", FAULTS)
def test_each_gate(gate: Gate) -> None:
    """Each gate refuses an answer with just its fault."""
    assert refused(FAULTS[gate]) is gate


@pytest.mark.parametrize("gate", FAULTS)
def test_order(gate: Gate) -> None:
    """Of an answer with many faults, the first gate in the documented order speaks."""
    order = list(FAULTS)
    later = order[order.index(gate) :]
    faults = {key: value for each in later for key, value in FAULTS[each].items()}
    assert refused(faults) is gate


@pytest.mark.parametrize("status", [100, 201, 204, 206, 301, 304, 400, 401, 429, 500, 503])
def test_only_200_is_stored(status: int) -> None:
    """Nothing but 200 is an answer to store; an error must not be replayed as one."""
    assert refused({"status": status}) is Gate.STATUS


def test_unreadable_answer_is_incomplete() -> None:
    """A body that could not be read as an answer is not stored."""
    assert refusal(Directives(), CACHED, 200, None, 1) is Gate.INCOMPLETE


def test_unreadable_error_is_an_error() -> None:
    """The status of an error counts, whatever its body."""
    assert refusal(Directives(), CACHED, 502, None, 1) is Gate.STATUS


def test_class_may_store_truncated_answers() -> None:
    """A class that says so stores what stopped at a length limit, if nothing else is wrong."""
    lenient = replace(CACHED, store_truncated=True)
    assert refused({"truncated": True, "request_class": lenient}) is None
    both = {"truncated": True, "size_bytes": 101, "request_class": lenient}
    assert refused(both) is Gate.TOO_LARGE


def test_no_cache_does_not_forbid_storing() -> None:
    """``no-cache`` asks for a new answer, which may be stored (RFC 9111, 5.2.1.4)."""
    assert refusal(Directives(no_cache=True), CACHED, 200, GOOD, 1) is None


@pytest.mark.parametrize("gate", FAULTS)
def test_gates_known_in_advance(gate: Gate) -> None:
    """What the caller and the class say is known before the upstream is asked, the rest not."""
    faults = FAULTS[gate]
    of_caller = {k: v for k, v in faults.items() if k in {"no_store", "ttl_seconds"}}
    actual = refusal_in_advance(Directives(**of_caller), faults.get("request_class", CACHED))
    assert actual is (gate if gate in {Gate.NO_STORE, Gate.CLASS_NEVER, Gate.TTL} else None)
