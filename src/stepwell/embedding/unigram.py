"""Cutting text into the pieces of a unigram vocabulary, by the package ``sentencepiece``.

It keeps 250,000 pieces in 57 MB and needs no other package; ``tokenizers`` takes 295 MB, five times
as long, and brings an HTTP client.
"""

import unicodedata
from collections.abc import Mapping
from pathlib import Path

from stepwell.core.errors import ConfigError
from stepwell.embedding.conversion.unigram import END, START, UNKNOWN, Vocabulary
from stepwell.embedding.encoder import Tokens


class UnigramTokenizer:
    """A tokenizer with a fixed prefix.

    Characters are replaced as the model's authors did (NFKC, with exceptions): first composed,
    then by a table, one by one.
    """

    def __init__(self, model: Path, characters: Mapping[str, str], prefix: str) -> None:
        """Load the vocabulary. Costs 0.1 s.

        Args:
            model: A model file of sentencepiece that changes no characters.
            characters: What each is replaced by.
            prefix: Put before every text.

        Raises:
            ConfigError: The package is not installed.
            OSError: The file cannot be read.
        """
        try:
            import sentencepiece  # noqa: PLC0415  (an extra: this module must import without it)
        except ImportError as error:
            raise ConfigError(
                "this embedder needs the package sentencepiece: run `pip install '.[semantic]'`"
            ) from error
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
        self._characters = str.maketrans(dict(characters))
        self._prefix = prefix

    def tokens(self, text: str) -> Tokens | None:
        """Return the tokens of ``text``, or ``None`` if nothing is left of it."""
        plain = unicodedata.normalize("NFC", text).translate(self._characters).strip()
        if not plain:
            return None
        ids = self._pieces.encode(self._prefix + plain)
        return Tokens([START, *ids, END], ids.count(UNKNOWN))

    def vocabulary(self) -> Vocabulary:
        """Return all pieces and how likely each is. Costs 0.1 s."""
        ids = [*range(len(self._pieces))]
        pieces = zip(self._pieces.IdToPiece(ids), self._pieces.GetScore(ids), strict=True)
        return Vocabulary([*pieces])
