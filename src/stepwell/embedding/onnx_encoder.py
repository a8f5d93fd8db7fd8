"""Running a converted model by onnxruntime."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Unfit, Vector, Vectors
from stepwell.embedding.conversion.int8 import INPUT, OUTPUT, STATES
from stepwell.embedding.encoder import Tokenizer, judge, unit
from stepwell.embedding.recipes import Recipe, mean_vector
from stepwell.embedding.text import plainly_unfit, readable

KEPT_TOKENS = 36
"""Longest text whose states are kept; 1.5 KB a token."""

_ERRORS_ONLY = 3


class RecentStates:
    """The states of the last texts that were computed, by their tokens. Safe for many threads."""

    def __init__(self, texts: int) -> None:
        """Keep those of ``texts`` texts."""
        self._texts = texts
        self._kept: OrderedDict[tuple[int, ...], Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, ids: Sequence[int]) -> Vectors | None:
        """Return the states of a text, if they are kept."""
        with self._lock:
            states = self._kept.get(tuple(ids))
            if states is not None:
                self._kept.move_to_end(tuple(ids))
            return states

    def put(self, ids: Sequence[int], states: Vectors) -> None:
        """Keep the states of a text, unless it is long."""
        if len(ids) > KEPT_TOKENS:
            return
        with self._lock:
            self._kept[tuple(ids)] = states
            if len(self._kept) > self._texts:
                self._kept.popitem(last=False)


class Network:
    """A converted model, loaded. Safe for many threads: each call computes in its caller's."""

    def __init__(self, path: Path, *, kept_texts: int = 0) -> None:
        """Load the model, and keep the states of so many texts for whoever asks for them next.

        Costs a few hundredths of a second; its weights are mapped.

        Raises:
            ConfigError: onnxruntime is not installed, or cannot load it.
        """
        # It would tell its maker of every process that loads it, and leave a folder behind.
        os.putenv("ORT_DISABLE_TELEMETRY", "1")
        try:
            import onnxruntime  # noqa: PLC0415  (an extra: this module must import without it)
        except ImportError as error:
            raise ConfigError(
                "this embedder needs the package onnxruntime: run `pip install '.[semantic]'`"
            ) from error
        self._recent = RecentStates(kept_texts)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # what it raises has no base of its own
            raise ConfigError(f"onnxruntime cannot load {path}: {error}") from error

    def mean_state(self, ids: Sequence[int]) -> Vector:
        """Return the mean of the last layer's states of one text.

        Raises:
            EmbeddingError: onnxruntime failed.
        """
        means, states = self._run(ids)
        self._recent.put(ids, states)
        return means

    def states(self, ids: Sequence[int]) -> Vectors:
        """Return the last layer's states of one text, (tokens, hidden), not of unit length.

        Costs nothing for one of the last texts.

        Raises:
            EmbeddingError: onnxruntime failed.
        """
        states = self._recent.get(ids)
        if states is None:
            _, states = self._run(ids)
            self._recent.put(ids, states)
        return states

    def _run(self, ids: Sequence[int]) -> tuple[Vector, Vectors]:
        """Return the mean of the last layer's states, and the states."""
        try:
            means, states = self._session.run([OUTPUT, STATES], {INPUT: np.array([ids], np.int64)})
        except Exception as error:  # as above
            raise EmbeddingError(f"onnxruntime failed: {error}") from error
        return np.asarray(means[0], np.float32), np.asarray(states[0], np.float32)


class OnnxEncoder:
    """A bundled model: tokens, network, mean, length, in this order.

    A text is always computed alone: the quantised network gives it other bits in a batch.
    """

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, network: Network) -> None:
        """Put the parts together."""
        self._recipe = recipe
        self.tokenizer = tokenizer
        self.network = network
        self._mean = mean_vector(recipe)

    def encode(self, text: str) -> Vector | Unfit:
        """Return the vector of ``text``, or why it has none. Costs 3 ms for 12 tokens.

        Raises:
            EmbeddingError: The network failed.
        """
        recipe = self._recipe
        unfit = plainly_unfit(text, recipe.window_tokens)
        if unfit is not None:
            return unfit
        tokens = self.tokenizer.tokens(readable(text))
        unfit = judge(
            tokens, window_tokens=recipe.window_tokens, unknown_share=recipe.unknown_share
        )
        if unfit is not None or tokens is None:
            return unfit or Unfit.EMPTY
        vector = unit(self.network.mean_state([*tokens.ids]))
        return vector if self._mean is None else unit(vector - self._mean)
