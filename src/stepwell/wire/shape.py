"""The shape a caller wants its answer in."""

from dataclasses import dataclass

from stepwell.core.names import Form


@dataclass(frozen=True, slots=True)
class Shape:
    """How one request wants to be answered. Requests that differ only in this share an entry."""

    form: Form
    include_usage: bool = True
    """Whether a stream ends with a usage chunk. Always true for JSON."""
