"""Errors, by who must act.

    StepwellError
      ConfigError(ValueError)   the operator: fix the settings, start again
      RequestError              the caller: a 4xx with an OpenAI error body
      StoreError                nobody at once: the walk goes on without that store
        StoreUnavailable          worth trying again later
          CutOff                    nobody can say what has changed meanwhile
        StoreFull                 nothing can be written until something is freed
        VersionTaken              another kind of vectors has that name already
        CorruptEntry              counted, removed, treated as a miss
          OtherVersion              left alone where versions share a store
        EditionGone               whoever fills or searches it: it was dropped meanwhile
      EmbeddingError            the semantic layer is skipped; `stepwell.embedding.cache` raises it
      IndexUnavailable          the same
      UpstreamError             the model server did not answer properly
        UpstreamTimeout           504
        UpstreamUnreachable       502, nothing was sent: safe to retry
          UpstreamConnectTimeout  504, a timeout, too: no connection in time
        UpstreamBroken            502, it failed after the request was sent

A miss, a bypass and "not stored" are values (`stepwell.core.outcome`), not
errors. A non-2xx answer of a model server is an answer: it reaches the client
unchanged and is no error here either.
"""


class StepwellError(Exception):
    """Base of everything this package raises on purpose."""


class ConfigError(StepwellError, ValueError):
    """A setting cannot be used. The message names ``table.key``, the value and what is allowed."""


class RequestError(StepwellError):
    """The caller's request cannot be served as it is.

    Attributes:
        status: HTTP status, 400 to 499; 504 for an unmet ``only-if-cached``; 503 while stopping.
        code: Short machine-readable reason, such as ``invalid_json``.
        param: The field at fault, in OpenAI's dotted form, or ``None``.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str = "invalid_request",
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


class StoreError(StepwellError):
    """A store could not do its work. Never reaches a caller of the gateway on a read or a fill."""


class StoreUnavailable(StoreError):
    """The store did not answer, or not in time."""


class CutOff(StoreUnavailable):
    """The change feed cannot be heard just now: what is held here may be out of date.

    Nothing is lost by it: when the feed is heard again, it says what changed.
    """


class StoreFull(StoreError):
    """The store cannot take more: no space, or its write queue is at its bound."""


class VersionTaken(StoreError):
    """Another kind of vectors has the same version: nothing is kept for this one."""


class CorruptEntry(StoreError):
    """A record does not match its checksum, or is of a version this code cannot read."""


class OtherVersion(CorruptEntry):
    """A record that another version of this package wrote, and may read again."""


class EditionGone(StoreError):
    """Documents that were dropped meanwhile: their collection was, or was made anew."""


class EmbeddingError(StepwellError):
    """A text could not be embedded. The semantic layer is skipped then; who asked for embeddings
    gets it.
    """


class EmbeddingTimeout(EmbeddingError):
    """The embedder did not answer within its time budget."""


class IndexUnavailable(StepwellError):
    """What is near cannot be told. Never reaches a caller: the semantic layer is skipped."""


class UpstreamError(StepwellError):
    """The model server did not give a complete answer.

    Attributes:
        upstream: Name of the upstream in the settings.
        status: HTTP status the gateway answers with.
    """

    status = 502

    def __init__(self, message: str, *, upstream: str) -> None:
        super().__init__(message)
        self.upstream = upstream


class UpstreamTimeout(UpstreamError):
    """No answer, or no next chunk, within the time allowed."""

    status = 504


class UpstreamUnreachable(UpstreamError):
    """No connection could be made; nothing was sent."""


class UpstreamConnectTimeout(UpstreamTimeout, UpstreamUnreachable):
    """No connection could be made within the time allowed; nothing was sent."""


class UpstreamBroken(UpstreamError):
    """The connection failed, or the answer was not HTTP, after the request was sent."""


class CallForked(UpstreamBroken):
    """Whoever made the call was lost midway, and a second call is answered otherwise."""
