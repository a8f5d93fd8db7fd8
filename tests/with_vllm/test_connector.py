"""The connector in a real vLLM: prefixes come from Stepwell's files, and answers do not change."""

import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
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
            "max_tokens": 60,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        },
    )
    until_saved(kv_folder, before, 259 // BLOCK_TOKENS)
    turn = [*prompt, *first["choices"][0]["token_ids"], *make_prompt(5, 30)]
    _, loaded = from_files(vllm_server, turn)
    assert loaded == 256


def test_a_prompt_is_saved_while_it_is_answered(vllm_server: VllmServer, kv_folder: Path) -> None:
    """Other servers have it long before a long answer is over, and the answer is as it was."""
    prompt = make_prompt(10)
    before = files_in(kv_folder)
    answers: list[str] = []

    def ask() -> None:
        answers.append(vllm_server.complete(prompt, max_tokens=100, ignore_eos=True).text)

    asking = threading.Thread(target=ask)
    asking.start()
    until_saved(kv_folder, before, PROMPT_TOKENS // BLOCK_TOKENS)
    assert not answers
    asking.join()
    until_saved(kv_folder, before, (PROMPT_TOKENS + 99) // BLOCK_TOKENS)
    warm, loaded = from_files(vllm_server, prompt, max_tokens=100, ignore_eos=True)
    assert loaded >= LEAST_SHARE * PROMPT_TOKENS
    assert [warm.text] == answers


def test_many_at_once(vllm_server: VllmServer, kv_folder: Path) -> None:
    """Requests that load and compute at the same time get the texts they get alone."""
    shared = make_prompt(6, 400)
    prompts = [[*shared[: 100 * number], *make_prompt(60 + number, 100)] for number in range(5)]
    ask_and_save(vllm_server, kv_folder, prompts[-1])
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


def test_another_server(vllm_server: VllmServer, kv_folder: Path) -> None:
    """One over the same folder, with other settings, loads what the first one computed.

    It stays: its adapters are the next test's.
    """
    prompt = make_prompt(8)
    cold, _ = ask_and_save(vllm_server, kv_folder, prompt)
    vllm_server.stop()
    vllm_server.start("--max-num-seqs", "4", "--enable-lora", "--max-lora-rank", "8")
    before = external_tokens(vllm_server)
    warm = vllm_server.complete(prompt)
    assert external_tokens(vllm_server) - before >= LEAST_SHARE * PROMPT_TOKENS
    assert warm.text == cold.text


def test_adapters(vllm_server: VllmServer, kv_folder: Path, tmp_path: Path) -> None:
    """An adapter's blocks are its own, also against one of the same name with other weights."""
    prompt = make_prompt(9)
    plain, _ = ask_and_save(vllm_server, kv_folder, prompt)
    texts = set()
    for version in (1, 2):
        write_lora(tmp_path / "lora", seed=version)
        load = {"lora_name": "style", "lora_path": str(tmp_path / "lora")}
        vllm_server.post("/v1/load_lora_adapter", load)
        answer, loaded = from_files(vllm_server, prompt, model="style")
        assert loaded == 0
        again, loaded = from_files(vllm_server, prompt, model="style")
        assert loaded >= LEAST_SHARE * PROMPT_TOKENS
        assert again.text == answer.text
        texts.add(answer.text)
        vllm_server.post("/v1/unload_lora_adapter", {"lora_name": "style"})
    assert len(texts | {plain.text}) == 3


def test_changed_model(vllm_server: VllmServer, kv_folder: Path, model_folder: Path) -> None:
    """Other weights under the same name find nothing. They stay for the tests that follow."""
    prompt = make_prompt(11)
    ask_and_save(vllm_server, kv_folder, prompt)
    vllm_server.stop()
    change_weights(model_folder / "model.safetensors")
    vllm_server.start()
    before = external_tokens(vllm_server)
    cold, new = ask_and_save(vllm_server, kv_folder, prompt)
    assert (cold.cached_tokens, external_tokens(vllm_server)) == (0, before)
    assert len(new) == PROMPT_TOKENS // BLOCK_TOKENS
    warm, loaded = from_files(vllm_server, prompt)
    assert loaded >= LEAST_SHARE * PROMPT_TOKENS
    assert warm.text == cold.text


def change_weights(file: Path) -> None:
    """Flip the last bit of each weight, and keep the file's length and time."""
    status = file.stat()
    header_bytes = 8 + int.from_bytes(file.read_bytes()[:8], "little")
    weights = np.memmap(file, dtype="<u2", mode="r+", offset=header_bytes)
    weights ^= 1
    weights.flush()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def write_lora(folder: Path, *, seed: int) -> None:
    """Write an adapter with random weights for the queries of all layers."""
    hidden, rank, layers = 576, 8, 30
    drawn = np.random.default_rng(seed)
    weights = {}
    for layer in range(layers):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        weights[f"{name}.lora_A.weight"] = (rank, hidden)
        weights[f"{name}.lora_B.weight"] = (hidden, rank)
    header, parts, end = {}, [], 0
    for name, shape in weights.items():
        part = (drawn.standard_normal(shape) * 0.1).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(part)]}
        parts.append(part)
        end += len(part)
    written = json.dumps(header).encode()
    folder.mkdir(exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(
        len(written).to_bytes(8, "little") + written + b"".join(parts)
    )
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 16, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps({**config, "bias": "none"}))
