"""Batches of KV events in order, whatever happens to them on their way."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.kv_events import BlocksRemoved, Gap, KvEvent, Resync
from stepwell.engines.kv_event_batch import Batch
from stepwell.engines.kv_event_order import Expected, Missing, Order, Repeated

RUN_STEP = 1000


def batch(run: int, sequence: int) -> Batch:
    """Return a batch with one event, which names the run and the batch."""
    number = run * RUN_STEP + sequence
    return Batch(sequence, b"%d" % number, float(number), (BlocksRemoved((number,)),))


@dataclass
class Server:
    """Runs of a server that keeps the last batches."""

    kept: int
    run: int = 0
    batches: list[Batch] = field(default_factory=list)

    def step(self) -> Batch:
        self.batches.append(batch(self.run, len(self.batches)))
        return self.batches[-1]

    def restart(self) -> None:
        self.run += 1
        self.batches.clear()

    def replay(self, since: int) -> list[Batch]:
        return [one for one in self.batches[-self.kept :] if one.sequence >= since]


def hear(order: Order, server: Server | None, one: Batch) -> list[KvEvent]:
    """Do what the stream does with a batch, and a server that replays, or none."""
    match order.judge(one):
        case Expected():
            return list(order.take(one))
        case Repeated():
            return []
        case Missing(since):
            again = [] if server is None else server.replay(since)
            if server is not None and order.is_other_run(again):
                again = server.replay(0)
            return list(order.make_up([*again, one]))


def goes_on_by_chance(last: int, number: int) -> bool:
    """Return whether a new run's batch has the number that the old run's next one would have."""
    is_later_run = number // RUN_STEP > last // RUN_STEP
    return is_later_run and number % RUN_STEP == last % RUN_STEP + 1


def check(told: list[KvEvent], server: Server) -> None:
    """Check that nothing is told twice, and that whatever is left out is said to be."""
    last: int | None = None
    for event in told:
        match event:
            case BlocksRemoved((int(number),)):
                if last is not None:
                    assert number == last + 1 or goes_on_by_chance(last, number)
                last = number
            case Gap(lost):
                assert lost > 0
                last = None
            case Resync():
                last = None
    numbers = [event.blocks[0] for event in told if isinstance(event, BlocksRemoved)]
    assert numbers == sorted(set(numbers))
    if server.batches and told:
        assert numbers[-1] == server.run * RUN_STEP + server.batches[-1].sequence


actions = st.lists(
    st.sampled_from(["step", "step", "step", "lose", "repeat", "repeat old", "restart"]),
    max_size=40,
)


@given(what=actions, kept=st.integers(1, 8), replays=st.booleans())
def test_whatever_happens(what: list[str], kept: int, *, replays: bool) -> None:
    """Batches are lost, come twice or late, the server is restarted: the events stay in order."""
    server, order = Server(kept), Order()
    asked = server if replays else None
    told: list[KvEvent] = []
    heard: list[Batch] = []
    for action in what:
        if action == "restart":
            server.restart()
        elif action == "lose":
            server.step()
        elif action == "step":
            heard.append(server.step())
            told += hear(order, asked, heard[-1])
            check(told, server)
        elif heard and heard[-1].time >= server.run * RUN_STEP:
            again = heard[-1 if action == "repeat" else 0]
            assert hear(order, asked, again) == []


def test_a_server_that_keeps_all_loses_nothing() -> None:
    """With replay, what is lost on the way is made up without a word."""
    server, order = Server(1000), Order()
    told = hear(order, server, server.step())
    for number in range(1, 50):
        one = server.step()
        told += hear(order, server, one) if number % 7 == 0 else []
    assert told == [Resync(), *(BlocksRemoved((number,)) for number in range(50))]


def test_a_new_run_is_told_from_its_beginning() -> None:
    """Whether its numbers are below or beyond those of the run before."""
    for steps in (2, 30):
        server, order = Server(1000), Order()
        for _ in range(10):
            hear(order, server, server.step())
        server.restart()
        for _ in range(steps - 1):
            server.step()
        told = hear(order, server, server.step())
        assert told == [Resync(), *(BlocksRemoved((RUN_STEP + n,)) for n in range(steps))]


def test_without_replay_a_loss_is_said() -> None:
    """Each gap comes before what follows it, with its length."""
    order = Order()
    assert hear(order, None, batch(0, 3)) == [Gap(3), BlocksRemoved((3,))]
    assert hear(order, None, batch(0, 6)) == [Gap(2), BlocksRemoved((6,))]
    assert hear(order, None, batch(1, 2)) == [Gap(2), BlocksRemoved((RUN_STEP + 2,))]
    assert hear(order, None, batch(2, 0)) == [Resync(), BlocksRemoved((2 * RUN_STEP,))]
