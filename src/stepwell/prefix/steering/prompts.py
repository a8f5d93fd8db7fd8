"""What a call's prompt is to placement."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from stepwell.core.kv import Tokens
from stepwell.core.ports import Call
from stepwell.core.steering import Beside, Cancel, NoSinglePrompt, TokenSource, TokensUnavailable
from stepwell.prefix.steering.shaping import PROMPT_CACHE_KEY
from stepwell.prefix.steering.text import text_tokens

_SESSION_BYTES = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A call with its body as it was parsed, once for all that look into it."""

    call: Call
    body: Mapping[str, Any]
    """Empty where the call's is no object."""

    @classmethod
    def of(cls, call: Call) -> "Asked":
        """Parse a call's body. Costs 5 us for 1 KB."""
        body = orjson.loads(call.body)
        return cls(call, body if isinstance(body, dict) else {})

    @property
    def model(self) -> str:
        """The model's name; empty where none is given."""
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    @property
    def session(self) -> bytes | None:
        """What the caller says belongs together, apart for each tenant."""
        key = self.body.get(PROMPT_CACHE_KEY)
        if not isinstance(key, str):
            return None
        owner = self.call.namespace or b""
        return blake2b(key.encode(), key=owner, digest_size=_SESSION_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Prompt:
    """The beginning of a call, as far as it decides what can be reused."""

    tokens: Tokens
    is_exact: bool
    """Whether they are the model server's; else text stands for them."""


class TextPrompts:
    """Reads prompts as text. Safe for many tasks on one event loop."""

    def at_once(self, asked: Asked) -> Prompt:
        """Return the prompt of a call. Costs some 5 us for 1 KB."""
        return Prompt(text_tokens(asked.call.endpoint, asked.body), is_exact=False)


class NamedPrompts:
    """Reads prompts in the tokens that a server names. Safe for many tasks on one event loop."""

    def __init__(
        self, source: TokenSource, on_failure: Callable[[str], None], beside: Beside
    ) -> None:
        """Ask a server for tokens.

        Args:
            source: The server.
            on_failure: Hears why it has named none.
            beside: Asks beside calls that do not wait for it; closed with this.
        """
        self._source = source
        self._on_failure = on_failure
        self._beside = beside
        self._text = TextPrompts()

    async def read(self, asked: Asked) -> Prompt:
        """Return the prompt of a call; as text, where its tokens cannot be had. Does not raise.

        Costs some 15 us for 1 KB, and what the source takes.
        """
        try:
            return Prompt(await self._source.tokens(asked.call, asked.body), is_exact=True)
        except NoSinglePrompt:
            pass
        except TokensUnavailable as error:
            self._on_failure(str(error))
        return self._text.at_once(asked)

    def read_beside(self, asked: Asked, then: Callable[[Prompt], None]) -> Cancel:
        """Begin to `read`, not before the caller waits for something; return what cancels that."""
        return self._beside.begin(self.read(asked), then)

    async def aclose(self) -> None:
        """Cancel what is being read beside calls."""
        await self._beside.aclose()


Prompts = TextPrompts | NamedPrompts
"""How an upstream's prompts are read."""
