"""The connector in a real vLLM: prefixes come from Stepwell's files, and answers do not change."""

import random
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from support.vllm_server import BLOCK_TOKENS, MODEL, Completion, VllmServer

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

PROMPT_TOKENS = 1000

LEAST_SHARE = 0.95
"""Of a prompt's tokens that must come from the files."""


def make_prompt(seed: int, tokens: int = PROMPT_TOKENS) -> list[int]:
    """Return token ids that no other test asks."""
    drawn = random.Random(seed)
    return [drawn.randrange(500, 40_000) for _ in range(tokens)]


def external_tokens(server: VllmServer) -> float:
    return server.metric("vllm:prompt_tokens_by_source_total", source="external_kv_transfer")


def files_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*.kv"))


def until_saved(folder: Path, before: set[Path], blocks: int) -> set[Path]:
    """Wait until a finished request's blocks are written; return their files."""
    deadline = time.monotonic() + 30.0
    while len(new := files_in(folder) - before) < blocks:
        assert time.monotonic() < deadline, f"{len(new)} of {blocks} blocks are saved"
        time.sleep(0.05)
    return new


def ask_and_save(
    server: VllmServer, folder: Path, prompt: list[int], **more: object
) -> tuple[Completion, set[Path]]:
    before = files_in(folder)
    answer = server.complete(prompt, **more)  # type: ignore[arg-type]
    return answer, until_saved(folder, before, len(prompt) // BLOCK_TOKENS)


def from_files(server: VllmServer, prompt: list[int], **more: object) -> tuple[Completion, float]:
    """Ask with vLLM's own cache empty; return the answer and the tokens that came from files."""
    server.reset()
    before = external_tokens(server)
    answer = server.complete(prompt, **more)  # type: ignore[arg-type]
    return answer, external_tokens(server) - before


def test_prefix_comes_from_files(vllm_server: VllmServer, kv_folder: Path) -> None:
    """After vLLM has forgotten it, a prompt is loaded; the text is the same as when computed."""
    prompt = make_prompt(1)
    cold, _ = ask_and_save(vllm_server, kv_folder, prompt)
    assert cold.cached_tokens == 0
    warm, loaded = from_files(vllm_server, prompt)
    assert loaded >= LEAST_SHARE * PROMPT_TOKENS
    assert warm.cached_tokens == loaded
    assert warm.text == cold.text


def test_other_salt_misses(vllm_server: VllmServer, kv_folder: Path) -> None:
    """What one tenant asked is loaded for no other, and for none without a salt."""
    prompt = make_prompt(2)
    alice, _ = ask_and_save(vllm_server, kv_folder, prompt, cache_salt="alice")
    for salt in ({"cache_salt": "bob"}, {}):
        answer, loaded = from_files(vllm_server, prompt, **salt)
        assert (loaded, answer.cached_tokens) == (0, 0)
        assert answer.text == alice.text
    answer, loaded = from_files(vllm_server, prompt, cache_salt="alice")
    assert loaded >= LEAST_SHARE * PROMPT_TOKENS
    assert answer.text == alice.text


def test_torn_file(vllm_server: VllmServer, kv_folder: Path) -> None:
    """From a torn block on, the prompt is computed; the text is the same, and the file mended."""
    prompt = make_prompt(3)
    cold, files = ask_and_save(vllm_server, kv_folder, prompt)
    # Deeper blocks have earlier times of use.
    chain = sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    torn = chain[len(chain) // 2]
    whole = torn.read_bytes()
    torn.write_bytes(whole[: len(whole) // 2])
    server_before = vllm_server.metric("vllm:stepwell_kv_total", event="read_damaged")
    answer, _ = from_files(vllm_server, prompt)
    assert answer.text == cold.text
    deadline = time.monotonic() + 30.0
    while not torn.exists() or torn.stat().st_size != len(whole):
        assert time.monotonic() < deadline, "the torn file is not mended"
        time.sleep(0.05)
    assert torn.read_bytes() == whole
    damaged = vllm_server.metric("vllm:stepwell_kv_total", event="read_damaged")
    assert damaged == server_before + 1
    answer, loaded = from_files(vllm_server, prompt)
    assert loaded >= LEAST_SHARE * PROMPT_TOKENS
    assert answer.text == cold.text


def test_next_turn(vllm_server: VllmServer, kv_folder: Path) -> None:
    """A conversation that goes on finds its last answer, too."""
    prompt = make_prompt(4, 200)
    before = files_in(kv_folder)
    first = vllm_server.post(
        "/v1/completions",
        {
            "model": MODEL,
            "prompt": prompt,
            "max_tokens": 100,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        },
    )
    until_saved(kv_folder, before, 299 // BLOCK_TOKENS)
    turn = [*prompt, *first["choices"][0]["token_ids"], *make_prompt(5, 30)]
    _, loaded = from_files(vllm_server, turn)
    assert loaded == 288


def test_many_at_once(vllm_server: VllmServer, kv_folder: Path) -> None:
    """Requests that load and compute at the same time get the texts they get alone."""
    shared = make_prompt(6, 400)
    prompts = [[*shared[: 100 * number], *make_prompt(60 + number, 100)] for number in range(5)]
    cold = [ask_and_save(vllm_server, kv_folder, prompt[:])[0].text for prompt in prompts[-1:]]
    cold = [vllm_server.complete(prompt).text for prompt in prompts]
    vllm_server.reset()
    warm: dict[int, str] = {}

    def ask(number: int) -> None:
        warm[number] = vllm_server.complete(prompts[number]).text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [warm[number] for number in range(5)] == cold


def test_client_that_leaves(vllm_server: VllmServer, kv_folder: Path) -> None:
    """Requests that are cancelled, also while they load, leave no page in use."""
    prompt = make_prompt(7)
    cold, _ = ask_and_save(vllm_server, kv_folder, prompt)
    for seconds in (0.05, 0.2, 0.5):
        vllm_server.reset()
        with pytest.raises((TimeoutError, urllib.error.URLError)):
            urllib.request.urlopen(
                urllib.request.Request(
                    f"{vllm_server.base_url}/completions",
                    b'{"model": "smollm2", "max_tokens": 400, "ignore_eos": true, "prompt": %s}'
                    % str(prompt).encode(),
                    {"Content-Type": "application/json"},
                ),
                timeout=seconds,
            ).read()
    answer, loaded = from_files(vllm_server, prompt)
    assert loaded >= LEAST_SHARE * PROMPT_TOKENS
    assert answer.text == cold.text


def test_restart(vllm_server: VllmServer, kv_folder: Path) -> None:
    """Another server over the same folder loads what the first one computed."""
    prompt = make_prompt(8)
    cold, _ = ask_and_save(vllm_server, kv_folder, prompt)
    vllm_server.stop()
    vllm_server.start("--max-num-seqs", "4", "--no-enable-prefix-caching")
    try:
        before = external_tokens(vllm_server)
        warm = vllm_server.complete(prompt)
        assert external_tokens(vllm_server) - before >= LEAST_SHARE * PROMPT_TOKENS
        assert warm.text == cold.text
    finally:
        vllm_server.stop()
        vllm_server.start()
