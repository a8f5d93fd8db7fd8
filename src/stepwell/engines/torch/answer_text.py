"""From generated tokens to text that may be shown."""

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream


class AnswerText:
    """Text of one answer, piece by piece, which ends before the first stop text.

    Holds back what may be the beginning of a stop text, and bytes that are no whole character yet.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str]) -> None:
        """Begin an answer that ends before any of ``stop``."""
        self._tokenizer = tokenizer
        self._stop = tuple(text for text in stop if text)
        self._stream = DecodeStream(skip_special_tokens=True)
        self._held = ""
        self.is_stopped = False
        """Whether a stop text has come; what follows is not shown."""

    def push(self, token: int) -> str:
        """Take a token; return what can be shown now, maybe nothing."""
        if self.is_stopped:
            return ""
        self._held += self._stream.step(self._tokenizer, token) or ""
        found = [at for text in self._stop if (at := self._held.find(text)) >= 0]
        if found:
            self.is_stopped = True
            return self._show(min(found))
        return self._show(len(self._held) - self._doubtful())

    def rest(self) -> str:
        """Return what was held back, at the end of an answer that nothing stopped."""
        return "" if self.is_stopped else self._show(len(self._held))

    def _show(self, length: int) -> str:
        shown, self._held = self._held[:length], self._held[length:]
        return shown

    def _doubtful(self) -> int:
        """Return the length of the longest end of what is held that begins a stop text."""
        longest = max((len(text) for text in self._stop), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            end = self._held[-length:]
            if any(text.startswith(end) for text in self._stop):
                return length
        return 0
