"""The package as those see it who import it."""

import json
import subprocess
import sys
from typing import Any

import stepwell

EXTRAS = (
    "aiohttp",
    "asyncpg",
    "faiss",
    "hiredis",
    "httptools",
    "httpx",
    "httpx2",
    "langchain_core",
    "llama_index",
    "numpy",
    "onnxruntime",
    "openai",
    "prometheus_client",
    "rjieba",
    "starlette",
    "torch",
    "transformers",
    "uvicorn",
    "uvloop",
    "xllamacpp",
    "xxhash",
    "zmq",
)
"""What is only installed with an extra."""

IN_VLLM = ("stepwell.vllm.connector", "stepwell.vllm.pages", "stepwell.vllm.stats")
"""Modules that only vLLM's own environment can import."""

IN_TORCH = (
    *(
        f"stepwell.engines.torch.{name}"
        for name in (
            "answer_text answerer app conversion engine int8 kv_shape loading model progress"
            " prompts raw_block replies requests sampling sequence working_kv"
        ).split()
    ),
    *(f"stepwell.assembly.torch_{name}" for name in ("cache", "parts")),
)
"""Modules that only the torch engine's process imports; torch itself has side effects."""

IN_OTHERS = tuple(
    f"stepwell.adapters.{name}"
    for name in ("langchain", "langchain_cache", "langchain_embeddings", "llamaindex")
)
"""Modules that load other libraries, which have side effects."""

PUBLIC = (
    "AnswerStream Cache CachedAnswer ConfigError CorruptEntry Documents EmbeddingCache"
    " EmbeddingError RequestError StepwellError StoreError StoreFull StoreUnavailable"
    " UpstreamBroken UpstreamError UpstreamTimeout UpstreamUnreachable wrap"
).split()

_BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
"""

_WATCH = """
import asyncio, concurrent.futures, json, os, pkgutil, importlib, sys, threading

watched = {
    "_thread.start_new_thread", "os.fork", "os.posix_spawn", "os.putenv", "os.unsetenv",
    "socket.__new__", "socket.bind", "socket.connect", "subprocess.Popen",
}
seen = []
import numpy  # sets a variable for the time of its own import

sys.addaudithook(lambda event, arguments: seen.append(event) if event in watched else None)
environment = dict(os.environ)
import stepwell

modules = [found.name for found in pkgutil.walk_packages(stepwell.__path__, "stepwell.")]
for name in modules:
    if name not in elsewhere:
        importlib.import_module(name)
changed = dict(os.environ) != environment
print(json.dumps([len(modules), seen, changed, threading.active_count()]))
"""


def run(program: str) -> Any:
    """Run a program in an interpreter of its own; return what it prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program], text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_public_names() -> None:
    """The public API is this and no more; whoever changes it means to."""
    assert sorted(stepwell.__all__) == sorted(PUBLIC)
    assert all(getattr(stepwell, name) is not None for name in PUBLIC)


def test_import_loads_no_extra() -> None:
    """Importing the package loads nothing that an extra installs, and none of its larger rooms."""
    unwanted = (*EXTRAS, "msgspec", "sqlite3", "stepwell.assembly", "stepwell.pipeline")
    program = "import json, sys, stepwell; print(json.dumps(sorted(sys.modules)))"
    assert set(run(program)).isdisjoint(unwanted)


def test_public_names_work_without_extras() -> None:
    """Without any extra every public name can be had; what needs one says which to install."""
    program = f"""
blocked = {EXTRAS!r}
{_BLOCK}
import asyncio, json
import stepwell

for name in stepwell.__all__:
    getattr(stepwell, name)

async def enter():
    try:
        async with stepwell.Cache(upstream="http://127.0.0.1:9/v1"):
            return "entered"
    except stepwell.ConfigError as error:
        return str(error)

print(json.dumps(asyncio.run(enter())))
"""
    assert "pip install '.[gateway]'" in run(program)


def test_wrap_needs_the_client_only() -> None:
    """A client that is wrapped asks through its own connections, so no extra is needed."""
    client = ("httpx", "httpx2", "openai")
    program = f"""
blocked = {tuple(name for name in EXTRAS if name not in client)!r}
{_BLOCK}
import json
import openai
import stepwell

client = stepwell.wrap(openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="k", max_retries=0))
try:
    client.chat.completions.create(model="m", messages=[{{"role": "user", "content": "hi"}}])
except openai.APIConnectionError:
    print(json.dumps("asked"))
client.close()
"""
    assert run(program) == "asked"


def test_imports_have_no_side_effects() -> None:
    """Importing every module starts no thread or process, opens no socket, changes no variable."""
    modules, seen, changed, threads = run(
        f"elsewhere = {IN_VLLM + IN_TORCH + IN_OTHERS!r}\n{_WATCH}"
    )
    assert modules > 100
    assert (seen, changed, threads) == ([], False, 1)
