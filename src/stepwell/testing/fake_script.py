"""How the fake upstream answers, well or badly."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class Fault(Enum):
    """What goes wrong with an answer.

    In a stream, after ``Script.after_events`` events; in a JSON answer, after half its bytes.
    """

    NO_REPLY = auto()
    """The connection is closed before any byte of a reply."""
    SILENT = auto()
    """Nothing comes; the connection stays open."""
    NOT_HTTP = auto()
    """Other bytes come in place of a reply."""
    CLOSE = auto()
    """The connection is closed in the middle."""
    RESET = auto()
    """The same, by TCP reset."""
    HANG = auto()
    """Nothing more comes; the connection stays open."""
    GARBAGE = auto()
    """Bytes that are neither events nor JSON end the body, framed as if all were well."""
    ERROR_EVENT = auto()
    """A stream ends with an event that holds an error, as OpenAI's do."""
    NO_DONE = auto()
    """A stream ends without ``data: [DONE]``."""
    TRAILING = auto()
    """A whole unsolicited reply follows the right one on the same connection."""


class VectorFault(Enum):
    """What is wrong with the vectors of an answer that is well formed otherwise."""

    PERMUTED = auto()
    """They come last first, each with its right index. That is allowed."""
    SHORT = auto()
    """The last one is missing."""
    LONG = auto()
    """There is one too many."""
    TWICE = auto()
    """All have the index 0."""
    UNEVEN = auto()
    """The last one has a number less."""
    NOT_A_NUMBER = auto()
    """The last one has a NaN in it: as JSON ``null``, in base64 its bits."""
    ZERO = auto()
    """The last one has no direction."""
    FOREIGN = auto()
    """Each has a sparse vector beside it."""


@dataclass(frozen=True, slots=True)
class Script:
    """How to answer. As it stands: well and at once."""

    hold: asyncio.Event | None = None
    """Send nothing until it is set."""
    head_delay_seconds: float = 0.0
    event_delay_seconds: float = 0.0
    """Before each event of a stream."""
    status: int = 200
    """Any other is sent with OpenAI's error body."""
    retry_after_seconds: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """More header fields of the reply."""
    html: bool = False
    """Send a page with ``status``, as a proxy in between would."""
    words: int | None = None
    """Answer with that many words in place of the echo; 0 gives an empty answer."""
    say: Callable[[Mapping[str, Any]], str] | None = None
    """Answer with the text that this makes of the request's body, in place of the echo."""
    finish_reason: str = "stop"
    null_usage: bool = True
    """Write ``"usage":null`` into events as OpenAI does when usage is asked for; vLLM does not."""
    refuse_stream_options: bool = False
    """Answer 400 to a request that has them, as servers that do not know them."""
    vector_fault: VectorFault | None = None
    """What is wrong with vectors."""
    weights: str = ""
    """Other weights give other vectors under the same name."""
    fault: Fault | None = None
    after_events: int = 2
    resume: asyncio.Event | None = None
    """Stop a stream after ``after_events`` events until it is set."""
    hold_end: asyncio.Event | None = None
    """Send all events of a stream, but not that its body has ended, until it is set."""


SCRIPTS: Mapping[str, Script] = {
    "fake": Script(),
    "fake-vllm": Script(null_usage=False),
    "fake-slow": Script(head_delay_seconds=1.0),
    "fake-trickle": Script(event_delay_seconds=0.1),
    "fake-empty": Script(words=0),
    "fake-length": Script(words=5, finish_reason="length"),
    "fake-huge": Script(words=200_000),
    "fake-html": Script(html=True),
    "fake-no-stream-options": Script(refuse_stream_options=True),
    **{f"fake-{fault.name.lower().replace('_', '-')}": Script(fault=fault) for fault in Fault},
    **{
        f"fake-{fault.name.lower().replace('_', '-')}": Script(vector_fault=fault)
        for fault in VectorFault
    },
    **{f"fake-{status}": Script(status=status) for status in (400, 401, 404, 500, 503)},
    "fake-429": Script(status=429, retry_after_seconds=7),
}
"""Model names and how they answer. Any other name answers as ``fake`` does."""
