"""What every eviction policy must do, as a check for its own tests, and how well it does it."""

import gc
import hashlib
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType

from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepwell.core.names import CacheKey
from stepwell.core.ports import EvictionPolicy

_KEYS = tuple(CacheKey(hashlib.sha256(bytes([number])).digest()) for number in range(8))
_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "hit", "hit", "delete", "victim")), st.sampled_from(_KEYS)
    ),
    max_size=200,
)
_CAPACITY = 50


def count_hits(policy: EvictionPolicy, keys: Iterable[CacheKey], *, max_entries: int) -> int:
    """Return how many requests for ``keys``, in order, a cache of ``max_entries`` answers."""
    held: set[CacheKey] = set()
    hits = 0
    for key in keys:
        if key in held:
            hits += 1
            policy.on_hit(key)
            continue
        if len(held) == max_entries:
            held.remove(policy.victim())
        policy.on_put(key, 1)
        held.add(key)
    return hits


def check_eviction_policy(
    make_policy: Callable[[], EvictionPolicy], *, ghost_keys: int = 0
) -> None:
    """Check a policy against a plain set of the keys it should hold.

    It gives up only keys it holds, each once, all of them when drained; ignores the deletion of
    keys it does not hold; raises `LookupError` when it holds none; and does not remember more
    keys than it holds and documents. Needs `hypothesis`; takes about a second.

    Args:
        make_policy: Makes a new, empty policy.
        ghost_keys: Most keys the policy documents to remember beyond those it holds.

    Raises:
        AssertionError: The policy broke the contract; the message shows the shortest history.
    """
    _check_keys(make_policy)
    _check_memory(make_policy(), ghost_keys)


def _check_keys(make_policy: Callable[[], EvictionPolicy]) -> None:
    @settings(deadline=None, database=None, report_multiple_bugs=False)
    @given(_OPERATIONS)
    @example([("put", _KEYS[0]), ("hit", _KEYS[0]), ("delete", _KEYS[0])])
    def holds_what_a_set_holds(operations: list[tuple[str, CacheKey]]) -> None:
        policy = make_policy()
        held: set[CacheKey] = set()
        for operation, key in operations:
            _play(policy, held, operation, key)
        _drain(policy, held)

    holds_what_a_set_holds()


def _play(policy: EvictionPolicy, held: set[CacheKey], operation: str, key: CacheKey) -> None:
    """Do one operation on the policy and on the model; skip those no store would do."""
    if operation == "put":
        policy.on_put(key, 100)
        held.add(key)
    elif operation == "delete":
        policy.on_delete(key)
        held.discard(key)
    elif operation == "hit" and key in held:
        policy.on_hit(key)
    elif operation == "victim" and held:
        _take_victim(policy, held)


def _take_victim(policy: EvictionPolicy, held: set[CacheKey]) -> None:
    victim = policy.victim()
    assert victim in held, "gave up a key it does not hold"
    held.remove(victim)


def _drain(policy: EvictionPolicy, held: set[CacheKey]) -> None:
    """Take all keys; then there must be none."""
    while held:
        _take_victim(policy, held)
    try:
        victim = policy.victim()
    except LookupError:
        return
    raise AssertionError(f"gave up {victim!r}, but holds nothing")


def _check_memory(policy: EvictionPolicy, ghost_keys: int) -> None:
    """Send far more keys through the policy than it may remember."""
    capacity = _CAPACITY + ghost_keys
    held: set[CacheKey] = set()
    for number in range(4 * capacity):
        if len(held) == capacity:
            held.remove(policy.victim())
        key = CacheKey(hashlib.sha256(b"memory %d" % number).digest())
        policy.on_put(key, 100)
        policy.on_hit(key)
        held.add(key)
    remembered = len(_reachable_keys(policy))
    allowed = capacity + ghost_keys
    assert remembered <= allowed, f"remembers {remembered} keys, may remember {allowed}"


def _reachable_keys(policy: EvictionPolicy) -> set[bytes]:
    keys: set[bytes] = set()
    seen: set[int] = set()
    waiting: list[object] = [policy]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType):
            continue
        seen.add(id(thing))
        if isinstance(thing, bytes) and len(thing) == len(_KEYS[0]):
            keys.add(thing)
        waiting.extend(gc.get_referents(thing))
    return keys
