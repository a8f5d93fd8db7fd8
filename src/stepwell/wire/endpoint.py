"""Which operation a body is for, where nobody says."""

from collections.abc import Mapping
from typing import Any

from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint

_MARKS = {"messages": Endpoint.CHAT, "prompt": Endpoint.COMPLETIONS, "input": Endpoint.RESPONSES}


def endpoint_of(body: Mapping[str, Any]) -> Endpoint:
    """Return the operation that has the fields of ``body``.

    Raises:
        RequestError: It is for none of those whose answers can be cached.
    """
    for field, endpoint in _MARKS.items():
        if field in body:
            return endpoint
    raise RequestError(f"The request has none of {', '.join(_MARKS)}; what is it for?")
