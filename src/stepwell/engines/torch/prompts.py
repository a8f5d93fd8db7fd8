"""From what is asked to a model's tokens."""

import re
import struct
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

from stepwell.core.errors import RequestError
from stepwell.core.kv import TOKEN_BYTES, Tokens
from stepwell.core.names import Namespace

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is to go on from, and whose it is."""

    tokens: Tokens
    tenant: Namespace | None
    text: str | None
    """It stands for; ``None``: tokens were given."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Its token ids."""
        return ids_of(self.tokens)

    @property
    def length(self) -> int:
        """How many tokens it has."""
        return len(self.tokens) // TOKEN_BYTES


def tokens_of(ids: Sequence[int]) -> Tokens:
    """Return token ids as bytes. Costs 20 us a thousand."""
    return Tokens(struct.pack(f"<{len(ids)}i", *ids))


def ids_of(tokens: Tokens) -> tuple[int, ...]:
    """Return bytes as token ids."""
    return struct.unpack(f"<{len(tokens) // TOKEN_BYTES}i", tokens)


class SpokenTokens:
    """Remembers which tokens a text was generated as, so that it is never encoded again.

    A model does not always spell a text as its tokenizer would. If an answer came back in the next
    turn's history as other tokens, all that was kept of it would be lost. Safe for many threads.
    """

    def __init__(self, max_bytes: int = 4 << 20) -> None:
        """Remember nothing yet, and never more than ``max_bytes`` of tokens, the last ones used."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._spoken: OrderedDict[bytes, Tokens] = OrderedDict()
        self._lock = Lock()

    def note(self, text: str, tokens: Tokens, tenant: Namespace | None) -> None:
        """Remember that ``text``, from a conversation's first word on, is these tokens."""
        digest = _digest(tenant, text).digest()
        with self._lock:
            self._bytes -= len(self._spoken.pop(digest, b""))
            self._spoken[digest] = tokens
            self._bytes += len(tokens)
            while self._bytes > self._max_bytes:
                _, oldest = self._spoken.popitem(last=False)
                self._bytes -= len(oldest)

    def longest(
        self, text: str, ends: Sequence[int], tenant: Namespace | None
    ) -> tuple[int, Tokens]:
        """Return the longest part of ``text`` whose tokens are known: where it ends, and them.

        Args:
            text: A conversation.
            ends: Where such a part may end, in order.
            tenant: Whose conversation it is. Others' are not looked at.
        """
        digest, hashed = _digest(tenant, ""), 0
        found: tuple[int, bytes] | None = None
        with self._lock:
            for end in ends:
                digest.update(text[hashed:end].encode(errors="surrogatepass"))
                hashed = end
                if (name := digest.digest()) in self._spoken:
                    found = end, name
            if found is None:
                return 0, Tokens(b"")
            self._spoken.move_to_end(found[1])
            return found[0], self._spoken[found[1]]


class Prompter:
    """Turns conversations and texts into prompts. Safe for many threads."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, vocabulary: int, context_tokens: int
    ) -> None:
        """Take the tokenizer of the model that is prompted.

        Args:
            tokenizer: Of the model.
            vocabulary: How many tokens the model knows.
            context_tokens: Prompt and answer together.
        """
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._context_tokens = context_tokens
        longest = max(map(len, tokenizer.get_vocab()), default=1)
        self._max_characters = context_tokens * longest
        self._spoken = SpokenTokens()
        special = sorted(filter(None, tokenizer.all_special_tokens), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, special)) or r"(?!)")

    def chat(self, messages: Sequence[Mapping[str, str]], tenant: Namespace | None) -> Prompt:
        """Return the prompt for the next answer in a conversation, by the model's own template.

        Costs about 3 ms for a thousand tokens that were not generated here. Blocks.

        Raises:
            RequestError: The template does not take these messages, or there is none.
        """
        if self._tokenizer.chat_template is None:
            raise RequestError("this model has no chat template: use /v1/completions")
        try:
            text = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
            )
        except TemplateError as error:
            raise RequestError(
                f"the model's chat template does not take these messages: {error}", param="messages"
            ) from error
        return self.text(str(text), tenant)

    def text(self, text: str, tenant: Namespace | None) -> Prompt:
        """Return a text as a prompt. Blocks, as `chat` does.

        Raises:
            RequestError: It has more characters than so many tokens can stand for. To encode
                megabytes would take seconds, and some 100 bytes a token, before that is found.
        """
        if len(text) > self._max_characters:
            raise RequestError(
                f"the prompt has {len(text)} characters, more than the {self._context_tokens}"
                " tokens that the model takes",
                code="context_length_exceeded",
            )
        # Only in front of a special token, which never merges with what stands before it.
        ends = [found.start() for found in self._special.finditer(text)]
        known, tokens = self._spoken.longest(text, [*ends, len(text)], tenant)
        encoded = self._tokenizer.backend_tokenizer.encode(text[known:], add_special_tokens=False)
        return Prompt(Tokens(tokens + tokens_of(encoded.ids)), tenant, text)

    def tokens(self, ids: Sequence[int], tenant: Namespace | None) -> Prompt:
        """Return tokens as a prompt.

        Raises:
            RequestError: One of them is none of the model's.
        """
        if any(not 0 <= token < self._vocabulary for token in ids):
            raise RequestError(
                f"token ids must be from 0 to {self._vocabulary - 1}", param="prompt"
            )
        return Prompt(tokens_of(ids), tenant, None)

    def note_answer(self, prompt: Prompt, text: str, generated: Sequence[int]) -> None:
        """Remember which tokens an answer was, for the next turn. Costs microseconds."""
        if prompt.text is not None and generated:
            tokens = Tokens(prompt.tokens + tokens_of(generated))
            self._spoken.note(prompt.text + text, tokens, prompt.tenant)


def _digest(tenant: Namespace | None, text: str) -> "blake2b":
    """Return a hash that has begun with whose text it is."""
    owner = b"everybody's" if tenant is None else b"tenant " + tenant
    hashed = blake2b(digest_size=_DIGEST_BYTES, key=blake2b(owner, digest_size=32).digest())
    hashed.update(text.encode(errors="surrogatepass"))
    return hashed
