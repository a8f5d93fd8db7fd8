"""Both sides of the connector, with an engine that stands for vLLM."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from support.vllm_engine import BLOCK_TOKENS, Engine, Outcome

from stepwell.core.kv import BlockId
from stepwell.stores.kv.format import StoredBlock
from stepwell.vllm.asked import Asked, Lora

PROMPT = list(range(100, 141))
"""Ten blocks and a token."""

Start = Callable[..., Engine]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts an engine over the test's folder."""
    engines: list[Engine] = []

    def start_engine(**options: object) -> Engine:
        engines.append(Engine(tmp_path, **options))  # type: ignore[arg-type]
        return engines[-1]

    yield start_engine
    for engine in engines:
        engine.close()


def restarted(engine: Engine, start: Start, **options: object) -> Engine:
    engine.close()
    return start(**options)


def until_written(engine: Engine, blocks: int) -> None:
    """Wait until the engine's thread has written, or found, that many."""
    for _ in range(1000):
        counted = engine.workers[0].counted()
        if counted["write_written"] + counted["write_present"] >= blocks:
            return
        time.sleep(0.005)
    pytest.fail("nothing was written")


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kv"))


def test_a_prefix_outlives_its_engine(start: Start) -> None:
    """What one engine computed, the next one loads, and only the rest is computed."""
    engine = start()
    assert engine.run(PROMPT) == Outcome(0, pages_right=True)
    engine = restarted(engine, start)
    assert engine.run(PROMPT) == Outcome(40, pages_right=True)
    assert engine.run(PROMPT[:23] + [1] * 20) == Outcome(20, pages_right=True)
    assert engine.run([1, *PROMPT]) == Outcome(0, pages_right=True)


def test_the_last_token_is_computed(start: Start) -> None:
    """A prompt of whole blocks is never loaded to its end."""
    engine = start()
    engine.run(PROMPT[:40])
    assert restarted(engine, start).run(PROMPT[:40]) == Outcome(36, pages_right=True)


def test_answers_are_kept(start: Start) -> None:
    """The next turn of a conversation finds the last answer, but for its last token."""
    engine = start()
    engine.run(PROMPT, output=range(20))
    turn = [*PROMPT, *range(20), 7, 7, 7]
    assert restarted(engine, start).run(turn) == Outcome(60, pages_right=True)


@pytest.mark.parametrize(
    ("steps", "early_blocks", "saved"), [(0, 4, 0), (1, 4, 4), (2, 4, 8), (9, 4, 10), (1, 100, 10)]
)
def test_a_prompt_is_saved_while_it_is_answered(
    start: Start, steps: int, early_blocks: int, saved: int
) -> None:
    """Some blocks with each step; then others have it, whatever becomes of the request."""
    engine = start(early_blocks=early_blocks)
    engine.run(PROMPT, range(steps), is_preempted=True)
    until_written(engine, saved)
    assert restarted(engine, start).run(PROMPT) == Outcome(saved * BLOCK_TOKENS, pages_right=True)


def test_blocks_are_saved_once(start: Start, tmp_path: Path) -> None:
    """An answer leaves what is new, not the prompt again, which was saved before."""
    engine = start()
    engine.run(PROMPT, range(20))
    until_written(engine, 15)
    engine.run([*PROMPT, *range(20), 7], range(8))
    until_written(engine, 17)
    counted = engine.workers[0].counted()
    assert (counted["write_written"], counted["write_present"]) == (17, 0)
    assert len(files_in(tmp_path)) == 17


def test_prompts_share_what_a_step_may_save(start: Start) -> None:
    """Several that are answered at once do not make one step longer than a single one does."""
    scheduler = start(early_blocks=6).scheduler
    for name in ("one", "two"):
        while scheduler.match(Asked(name, PROMPT, name, None), 0) is None:
            pass
    planned = []
    for _ in range(5):
        for name in ("unknown", "one", "two"):
            scheduler.go_on(name, len(PROMPT), lambda: range(10))
        planned.append([len(save.blocks) for save in scheduler.take_plan().early_saves])
    assert planned == [[6], [4, 2], [6], [2], []]


def test_what_is_not_computed_is_not_saved(start: Start) -> None:
    """A prompt of which a part is computed waits, and one whose pages were taken away, too."""
    scheduler = start(early_blocks=100).scheduler
    resumed = [*PROMPT, *range(20)]
    for tokens in (PROMPT, resumed):
        while scheduler.match(Asked("one", tokens, None, None), 0) is None:
            pass
        scheduler.allocate("one", range(20), 0)
        scheduler.go_on("one", len(tokens) - 1, lambda: range(20))
        assert scheduler.take_plan().early_saves == ()
    scheduler.go_on("one", len(resumed), lambda: range(20))
    (save,) = scheduler.take_plan().early_saves
    assert [placed.page for placed in save.blocks] == list(range(15))


def test_what_vllm_has_is_not_loaded(start: Start) -> None:
    """Only blocks beyond those of vLLM's own cache are loaded, and into the right pages."""
    engine = restarted(start_and_run(start), start)
    assert engine.run(PROMPT, local_tokens=16) == Outcome(24, pages_right=True)
    assert engine.run(PROMPT, local_tokens=40) == Outcome(0, pages_right=True)


def test_known_blocks_are_not_saved_again(start: Start, tmp_path: Path) -> None:
    """A request that adds nothing costs no copy."""
    engine = restarted(start_and_run(start), start)
    engine.run(PROMPT)
    assert engine.workers[0].counted()["write_present"] == 0
    assert len(files_in(tmp_path)) == 10


def start_and_run(start: Start, **options: object) -> Engine:
    engine = start()
    engine.run(PROMPT, **options)  # type: ignore[arg-type]
    return engine


@pytest.mark.parametrize("torn", [0, 4, 9])
def test_torn_file(start: Start, tmp_path: Path, torn: int) -> None:
    """What stands before a torn block is loaded, the rest computed; and it is whole again after."""
    engine = start()
    for stop in range(BLOCK_TOKENS, 41, BLOCK_TOKENS):
        engine.run(PROMPT[: stop + 1])
        if stop == (torn + 1) * BLOCK_TOKENS:
            engine.close()
            broken = max(files_in(tmp_path), key=lambda path: path.stat().st_ctime_ns)
            engine = start()
    engine.close()
    broken.write_bytes(broken.read_bytes()[:-1])
    engine = start()
    assert engine.run(PROMPT) == Outcome(torn * BLOCK_TOKENS, pages_right=True)
    assert engine.workers[0].counted()["read_damaged"] == 1
    until_written(engine, 10 - torn)
    assert engine.run(PROMPT) == Outcome(40, pages_right=True)
    assert restarted(engine, start).run(PROMPT) == Outcome(40, pages_right=True)


def test_a_block_that_failed_is_left_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is tried twice, not for each request; others still are."""
    engine = start_and_run(start)
    engine.run(range(50))
    engine = restarted(engine, start)
    tries: list[bytes] = []

    def failing(scope: bytes, block: BlockId) -> StoredBlock | None:
        tries.append(block)
        return None

    monkeypatch.setattr(engine.files, "read", failing)
    for _ in range(4):
        assert engine.run(PROMPT) == Outcome(0, pages_right=True)
    assert len(tries) == 2
    monkeypatch.undo()
    assert engine.run(range(50)) == Outcome(48, pages_right=True)


def test_a_disk_that_fails_is_left_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some loads in a row that failed, none is tried for a while."""
    engine = start()
    for number in range(5):
        engine.run([number, *PROMPT])
    engine = restarted(engine, start)
    tries: list[bytes] = []

    def failing(scope: bytes, block: BlockId) -> StoredBlock | None:
        tries.append(block)
        return None

    monkeypatch.setattr(engine.files, "read", failing)
    for number in range(5):
        assert engine.run([number, *PROMPT]) == Outcome(0, pages_right=True)
    assert len(tries) == 3


def test_salts_and_adapters_are_kept_apart(start: Start) -> None:
    """The same tokens with another salt, adapter or version of it are another prefix."""
    versions = {"/a": "1", "/b": "2", "/c": None}
    kinds = [
        {},
        {"salt": "alice"},
        {"salt": "bob"},
        {"salt": ""},
        {"lora": Lora("alice", 1, "/a")},
        {"lora": Lora("alice", 2, "/b")},
    ]
    options = {"adapter_version": lambda path: versions[str(path)]}
    engine = start(**options)
    for kind in kinds:
        assert engine.run(PROMPT, **kind) == Outcome(0, pages_right=True)  # type: ignore[arg-type]
    engine = restarted(engine, start, **options)
    for kind in kinds:
        assert engine.run(PROMPT, **kind).loaded_tokens == 40  # type: ignore[arg-type]
    unreadable = Lora("alice", 3, "/c")
    assert engine.run(PROMPT, lora=unreadable).loaded_tokens == 0
    assert engine.run(PROMPT, lora=unreadable).loaded_tokens == 0


def test_workers_keep_their_parts(start: Start, tmp_path: Path) -> None:
    """With two workers a block is loaded only if both parts are kept."""
    engine = start(shards=2)
    engine.run(PROMPT)
    engine = restarted(engine, start, shards=2)
    assert len(files_in(tmp_path)) == 20
    assert engine.run(PROMPT) == Outcome(40, pages_right=True)
    engine.close()
    files_in(tmp_path)[3].unlink()
    engine = start(shards=2)
    outcome = engine.run(PROMPT)
    assert outcome.loaded_tokens < 40
    assert outcome.pages_right
    assert restarted(engine, start).run(PROMPT) == Outcome(0, pages_right=True)


def test_slow_disk(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that takes too long is over, and what did not come is computed."""
    engine = restarted(start_and_run(start), start, load_timeout_seconds=0.05)
    real = engine.files.read

    calls: list[bytes] = []
    release = Event()

    def slow(scope: bytes, block: BlockId) -> StoredBlock | None:
        if calls:
            release.wait(5.0)
        calls.append(block)
        return real(scope, block)

    monkeypatch.setattr(engine.files, "read", slow)
    outcome = engine.run(PROMPT)
    release.set()
    assert outcome == Outcome(BLOCK_TOKENS, pages_right=True)
    assert engine.workers[0].counted()["load_timeout"] == 1


def test_full_folder(start: Start, tmp_path: Path) -> None:
    """Where only some blocks fit, what stays can be reached from the first."""
    engine = start(max_bytes=1_300)
    engine.run(PROMPT)
    loaded = restarted(engine, start, max_bytes=1_300).run(PROMPT)
    assert loaded.pages_right
    assert 0 < loaded.loaded_tokens < 40
