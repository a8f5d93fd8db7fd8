"""What a call's prompt is to placement."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import orjson

from stepwell.core.kv import Tokens
from stepwell.core.ports import Call
from stepwell.core.steering import NoSinglePrompt, TokenSource, TokensUnavailable
from stepwell.prefix.steering.shaping import PROMPT_CACHE_KEY
from stepwell.prefix.steering.text import text_tokens

_SESSION_BYTES = 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """The beginning of a call, as far as it decides what can be reused."""

    model: str
    tokens: Tokens
    is_exact: bool
    """Whether they are the model server's; else text stands for them."""
    session: bytes | None = None
    """What the caller says belongs together, beyond its tenant."""


class Prompts:
    """Reads prompts. Safe for many tasks on one event loop."""

    def __init__(
        self, source: TokenSource | None = None, on_failure: Callable[[str], None] | None = None
    ) -> None:
        """Ask ``source`` for tokens, if there is one; ``on_failure`` hears why it has none."""
        self._source = source
        self._on_failure = on_failure

    async def read(self, call: Call) -> Prompt:
        """Return the prompt of ``call``. Does not raise.

        Costs some 20 us for 1 KB, and what the source takes.
        """
        body = orjson.loads(call.body)
        model, key = body.get("model"), body.get(PROMPT_CACHE_KEY)
        session = None
        if isinstance(key, str):
            owner = call.namespace or b""
            session = blake2b(key.encode(), key=owner, digest_size=_SESSION_BYTES).digest()
        tokens, is_exact = await self._tokens(call, body)
        return Prompt(model if isinstance(model, str) else "", tokens, is_exact, session)

    async def _tokens(self, call: Call, body: object) -> tuple[Tokens, bool]:
        if self._source is not None:
            try:
                return await self._source.tokens(call), True
            except NoSinglePrompt:
                pass
            except TokensUnavailable as error:
                if self._on_failure is not None:
                    self._on_failure(str(error))
        return text_tokens(call.endpoint, body), False
